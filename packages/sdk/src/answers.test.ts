/** What each answer of a consumer makes of its message, read from the message itself: a receiver written by hand, and the SDK's handler. */
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NonRetryableError, RetryLaterError, toNodeHandler } from "./index.ts";
import { type Live, live } from "./live.fixture.ts";

interface Record {
  state: string;
  attempts: number;
  lastError: string | null;
  deliverAt: string;
  lastDeliveredAt: string | null;
}

let server: Live;
beforeAll(async () => {
  server = await live();
});
afterAll(() => server.close());

let queues = 0;
/** Has one message delivered to a queue of its own; answers the message once it is settled, or `"gone"`. */
async function settled(listener: RequestListener, message: { body: string; contentType: string }) {
  queues += 1;
  const name = `answers-${queues}`;
  await server.deploy(name, listener);
  await server.ask("PUT", `/queues/${name}`, { consumerPath: `/api/${name}`, visibilityTimeoutSeconds: 120, retentionSeconds: 3600 });
  const { messageId } = await server.ask<{ messageId: string }>("POST", `/queues/${name}/messages`, message);
  const { items } = await server.until(
    () => server.ask<{ items: (Record & { id: string })[] }>("GET", `/queues/${name}/messages`),
    (page) => page.items.every(({ state, lastDeliveredAt }) => lastDeliveredAt !== null && state !== "inflight"),
  );
  const [record] = items;
  if (record === undefined) {
    const { stats } = await server.ask<{ stats: object }>("GET", `/queues/${name}`);
    expect(stats).toMatchObject({ acknowledged: 1, deadLettered: 0 });
    return "gone";
  }
  expect(record.id).toBe(messageId);
  const { state, attempts, lastError } = record;
  const waits = Math.round((Date.parse(record.deliverAt) - Date.parse(record.lastDeliveredAt ?? "")) / 1000);
  return { state, attempts, lastError, waits };
}

const own = "x-gigadrive-queue-";
const later = { [`${own}retry-after`]: "90" };
const dead = { [`${own}action`]: "dead-letter", [`${own}error`]: "no such template" };
const deadLetter = { state: "dead", attempts: 1, lastError: "no such template", waits: expect.any(Number) };
const deferred = { state: "scheduled", attempts: 0, lastError: null, waits: 90 };
/** A retry after the backoff of a first failure: 5 s within a fifth of jitter, and the moment until the outcome is stored. */
const backoff = expect.toSatisfy((seconds: number) => seconds >= 4 && seconds <= 8);
const retry = (lastError: unknown, waits: unknown = backoff) => ({ state: "scheduled", attempts: 1, lastError, waits });
const about = (seconds: number): unknown => expect.toSatisfy((given: number) => given >= seconds - 1 && given <= seconds + 3);

describe("the answers of a receiver written by hand", () => {
  it.each<[string, { status: number; headers?: { [name: string]: string }; body?: string }, unknown]>([
    ["200", { status: 200, body: "ok" }, "gone"],
    ["204", { status: 204 }, "gone"],
    ["299", { status: 299 }, "gone"],
    ["200 with an unreadable delay", { status: 200, headers: { [`${own}retry-after`]: "soon" } }, "gone"],
    ["200 with a negative delay", { status: 200, headers: { [`${own}retry-after`]: "-90" } }, "gone"],
    ["200 with Retry-After of HTTP", { status: 200, headers: { "retry-after": "90" } }, "gone"],
    ["200 with a delay", { status: 200, headers: later }, { ...deferred, waits: about(90) }],
    [
      "204 with a delay beyond the retention",
      { status: 204, headers: { [`${own}retry-after`]: "9".repeat(20) } },
      { ...deferred, waits: about(3600) },
    ],
    ["200 with dead-letter and a delay", { status: 200, headers: { ...dead, ...later } }, deadLetter],
    ["302 with dead-letter", { status: 302, headers: { ...dead, location: "/" } }, deadLetter],
    ["404 with dead-letter", { status: 404, headers: dead, body: "ignored" }, deadLetter],
    ["503 with dead-letter and Retry-After", { status: 503, headers: { ...dead, "retry-after": "30" } }, deadLetter],
    ["429 with Retry-After", { status: 429, headers: { "retry-after": "30" }, body: "slow" }, retry("HTTP 429: slow", about(30))],
    ["503 with Retry-After", { status: 503, headers: { "retry-after": "40" } }, retry("HTTP 503", about(40))],
    ["503 with Retry-After beyond the retention", { status: 503, headers: { "retry-after": "86400" } }, retry("HTTP 503", about(3600))],
    ["429 without", { status: 429 }, retry("HTTP 429")],
    ["503 with an unreadable Retry-After", { status: 503, headers: { "retry-after": "soon" } }, retry("HTTP 503")],
    ["301", { status: 301, headers: { location: "/elsewhere" } }, retry("HTTP 301")],
    ["400 with an error header", { status: 400, headers: { [`${own}error`]: "ignored" }, body: "what?" }, retry("HTTP 400: what?")],
    ["500 with both delays", { status: 500, headers: { ...later, "retry-after": "90" }, body: "boom" }, retry("HTTP 500: boom")],
  ])("C3: %s", async (_, { status, headers, body }, expected) => {
    const listener: RequestListener = (_request, response) => void response.writeHead(status, headers).end(body);
    expect(await settled(listener, { body: "1", contentType: "application/json" })).toEqual(expected);
  });

  it("C3: a connection that breaks before an answer", async () => {
    const listener: RequestListener = (request) => void request.socket.destroy();
    expect(await settled(listener, { body: "1", contentType: "application/json" })).toEqual(
      retry(expect.stringMatching(/^connection: \S+/)),
    );
  });
});

describe("the answers of the SDK's handler", () => {
  const json = "application/json";
  it.each<[string, () => unknown, string, string, unknown]>([
    ["what returns", () => "anything", '{"n":1}', json, "gone"],
    [
      "a request to come later",
      () => {
        throw new RetryLaterError("90s");
      },
      '{"n":1}',
      json,
      { ...deferred, waits: about(90) },
    ],
    [
      "what can never succeed",
      () => {
        throw new NonRetryableError("no such template");
      },
      '{"n":1}',
      json,
      deadLetter,
    ],
    ["what is not valid", () => {}, '{"n":"x"}', json, { ...deadLetter, lastError: "the payload is not valid: n is no number" }],
    [
      "what cannot be decoded",
      () => {},
      "{",
      json,
      { ...deadLetter, lastError: expect.stringMatching(/^the body cannot be read as application\/json: /) },
    ],
    [
      "what fails",
      () => {
        throw new Error("boom");
      },
      '{"n":1}',
      json,
      retry("HTTP 500: boom\n"),
    ],
    [
      "a delay that is none",
      () => {
        throw new RetryLaterError("soon" as never, "busy");
      },
      '{"n":1}',
      json,
      retry("HTTP 500: busy\n"),
    ],
  ])("C3, C12: %s", async (_, handle, body, contentType, expected) => {
    const listener: RequestListener = (request, response) => {
      const validate = (payload: unknown): unknown => {
        if (typeof (payload as { n: unknown }).n !== "number") throw new Error("n is no number");
        return payload;
      };
      const queue = server.client.queue(String(request.headers[`${own}name`]), { validate, signingSecret: server.secret });
      void toNodeHandler(queue.handler(handle))(request, response);
    };
    expect(await settled(listener, { body, contentType })).toEqual(expected);
  });
});
