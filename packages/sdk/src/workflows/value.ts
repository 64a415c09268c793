/**
 * Values on their way into the journal and out of it. They travel as JSON text, and code gets what the text says, live as on replay.
 * What JSON would quietly lose or bend (NaN, functions, maps) is refused, with its place.
 */
import { ValueError } from "./errors.ts";

/** What is left of a `T` once it was JSON: dates are texts, methods are gone. */
// biome-ignore format: one line a case
export type Recorded<T> =
  0 extends 1 & T ? T
  : unknown extends T ? T
  : T extends string | number | boolean | null | undefined ? T
  : T extends { toJSON(): infer J } ? J
  : T extends (...args: never[]) => unknown ? never
  : T extends object ? { [K in keyof T]: Recorded<T[K]> }
  : T extends void ? T
  : never;

const utf8 = new TextEncoder();

/** Why JSON cannot hold `value`; `undefined` when it can. */
function objection(value: unknown): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "function" || typeof value === "symbol" || typeof value === "bigint") return `a ${typeof value}`;
  if (value instanceof Map || value instanceof Set || value instanceof Promise) return `a ${value.constructor.name}`;
  return undefined;
}

/**
 * The JSON text of a value, at most `maxBytes` of UTF-8; `undefined` for `undefined`. `what` names it in errors. Throws a `ValueError`
 * for what is too large or is no JSON, and whatever a `toJSON` throws.
 */
export function encodeValue(value: unknown, what: string, maxBytes: number): string | undefined {
  if (value === undefined) return undefined;
  let encoded: string;
  try {
    encoded = JSON.stringify(value, (key, held: unknown) => {
      const bad = objection(held);
      if (bad === undefined) return held;
      throw new ValueError("invalid_value", `${what} cannot be recorded: ${bad} is no JSON${key === "" ? "" : ` (at ${key})`}`);
    });
  } catch (error) {
    if (error instanceof ValueError || !(error instanceof TypeError)) throw error;
    // The first line says it is circular; the others draw the circle.
    throw new ValueError("invalid_value", `${what} cannot be recorded: ${error.message.split("\n", 1)[0]}`);
  }
  if (encoded === undefined) return undefined;
  // A UTF-16 unit takes three bytes at most: most texts are known to fit without being encoded.
  const bytes = encoded.length * 3 <= maxBytes ? 0 : utf8.encode(encoded).length;
  if (bytes > maxBytes) throw new ValueError("limit_exceeded", `${what} is ${bytes} bytes of JSON; at most ${maxBytes} can be recorded`);
  return encoded;
}

/** The value in a JSON text; `undefined` where there is none. */
export function decodeValue(text: string | null | undefined): unknown {
  return text === undefined || text === null ? undefined : JSON.parse(text);
}
