import { type gigadriveShapes, type OperationName, operations, routes } from "@millrace/contract";
import { expect, it } from "vitest";
import type { z } from "zod";
import type { QueueInfo, ScheduleInfo } from "./index.ts";
import type { AckResult } from "./pull.ts";
import type { WireMessage } from "./records.ts";
import { json, scripted } from "./scripted.fixture.ts";

/** The operation that a request is, and what its schema makes of the query and the body. */
function operationOf(method: string, path: string): OperationName | undefined {
  const found = Object.entries(routes).find(([, route]) => {
    const pattern = new RegExp(`^${route.path.replace(/\{\w+\}/g, "[^/]+")}$`);
    // `messages/ack` would also fit `messages/{id}`, with another method.
    return route.method === method && pattern.test(path);
  });
  return found?.[0] as OperationName | undefined;
}

/** The fields that a schema knows; unknown ones are passed over by this door, so a misspelled one would go unseen. */
function fields(schema: z.ZodType): string[] {
  const { shape, innerType } = schema.def as { shape?: object; innerType?: z.ZodType };
  if (innerType !== undefined) return fields(innerType);
  return Object.keys(shape ?? {});
}

it("C11: every call of a queue handle is an operation of the contract, and carries only what its schema knows and takes", async () => {
  const { client, server, close } = await scripted(({ path }) => {
    if (path.endsWith("/receive"))
      return json({ messages: [{ id: "m1", body: "1", contentType: "application/json", attempts: 1, receipt: "r" }] });
    if (path.endsWith("/ack")) return json({ results: [{ messageId: "m1", acknowledged: true }] });
    if (path.endsWith("/messages")) return json({ messageId: "m1", results: [{ messageId: "m1" }] });
    return json({});
  });
  const queue = client.queue<unknown>("emails", { environment: "staging", autoCreate: true });
  const options = { at: new Date(), groupKey: "g", deduplicationKey: "d", deploymentId: "d1", headers: { "x-a": "b" } };
  await queue.send({ a: 1 }, options);
  await queue.send(Uint8Array.of(1), { delay: "1m" });
  await queue.sendBatch([{ payload: "x", ...options }]);
  await queue.cancel("m1");
  const [message] = await queue.receive({ maxMessages: 10, wait: "20s", visibilityTimeout: "12h" });
  await message?.ack();
  await message?.nack({ delay: "1m", countAttempt: false, deadLetter: false, error: "x" });
  await message?.extend("1m");
  await queue.ensure({
    consumerPath: "/x",
    type: "fifo",
    visibilityTimeout: "1m",
    retention: "1d",
    delay: 0,
    maxAttempts: 1,
    deadLetter: false,
    retryBackoff: { min: 1, max: 2 },
    deduplicationWindow: 0,
    contentBasedDeduplication: true,
    concurrency: 1,
    rateLimit: { count: 1, period: 1 },
    paused: false,
  });
  await queue.info();
  await queue.pause();
  await queue.resume();
  await queue.purge("all");
  await queue.redrive(["m1"]);
  await queue.schedule("digest", { cron: "@daily", timezone: "Europe/Berlin", payload: { a: 1 }, headers: { "x-a": "b" }, enabled: true });
  await queue.unschedule("digest");
  await close();

  const seen = server.requests.map(({ method, path, text }) => {
    const url = new URL(path, server.url);
    const name = operationOf(method, url.pathname);
    expect(name, `${method} ${url.pathname}`).toBeDefined();
    const { query, body } = operations[name as OperationName];
    for (const [schema, given] of [
      [query, Object.fromEntries(url.searchParams)],
      [body, text === "" ? undefined : (JSON.parse(text) as unknown)],
    ] as [z.ZodType, object | undefined][]) {
      expect(schema.safeParse(given).error, `${name}: ${text}`).toBeUndefined();
      expect(fields(schema)).toEqual(expect.arrayContaining(Object.keys(given ?? {})));
    }
    return name;
  });
  expect(seen).toEqual([
    "GigadriveSend",
    "GigadriveSend",
    "GigadriveSend",
    "GigadriveDeleteMessage",
    "GigadriveReceive",
    "GigadriveAckMessages",
    "GigadriveNackMessage",
    "GigadriveExtendMessage",
    "GigadrivePutQueue",
    "GigadriveGetQueue",
    "GigadrivePauseQueue",
    "GigadriveResumeQueue",
    "GigadrivePurgeQueue",
    "GigadriveRedrive",
    "CreateSchedule",
    "DeleteSchedule",
  ]);
});

/** A record as the wire has it. */
type Undated<T> = {
  [Name in keyof T]: T[Name] extends Date
    ? string
    : T[Name] extends Date | null
      ? string | null
      : T[Name] extends object
        ? Undated<T[Name]>
        : T[Name];
};

it("C11: the records that are handed on have the contract's fields, which the types prove", () => {
  // Compiles only while every field of these types is one of the contract's, of a fitting type.
  const queue = (wire: z.output<typeof gigadriveShapes.queue>): Undated<QueueInfo> => wire;
  const message = (wire: z.output<typeof gigadriveShapes.record> & { receipt: string }): WireMessage => wire;
  const ack = (wire: z.output<typeof gigadriveShapes.ackResults>["results"][number]): AckResult => wire;
  const schedule = (wire: z.output<typeof gigadriveShapes.schedule>): Undated<ScheduleInfo> => wire;
  expect([queue, message, ack, schedule].every((check) => typeof check === "function")).toBe(true);
});
