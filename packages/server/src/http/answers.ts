/**
 * Turns answers into text. Two hot routes have a serialiser made from their shape: measured on Node 20, one sent message takes 0.19
 * instead of 0.44 µs and ten acknowledgements 0.8 instead of 1.7. Received messages are stringified: with bodies of 1 KB the generated
 * serialiser needs twice as long.
 */
import { type OperationName, operations } from "@millrace/contract";
import fastJsonStringify, { type Schema } from "fast-json-stringify";
import { z } from "zod";

const HOT: readonly OperationName[] = ["SendMessages", "AckMessages"];

/** How an operation's answer is written. */
export function serializerOf(name: OperationName): (answer: unknown) => string {
  if (!HOT.includes(name)) return (answer) => JSON.stringify(answer);
  const { $schema: _, ...schema } = z.toJSONSchema(operations[name].answer);
  return fastJsonStringify(schema as Schema);
}
