import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { readingOf, requestOf, type Shape, secret } from "./delivery.fixture.ts";
import { type MessageMeta, NonRetryableError, type QueueOptions, queue, RetryLaterError, signQueueDelivery } from "./index.ts";

const ack = { kind: "ack" };
const retry = { kind: "retry", delayMs: null };

/** What the server makes of a handler that does this with a delivery. */
async function outcomeOf(fn: (payload: unknown, meta: MessageMeta) => unknown, options: QueueOptions<unknown> = {}, shape: Shape = {}) {
  const handle = queue("emails", { signingSecret: secret, ...options }).handler(fn);
  return readingOf(await handle(requestOf(shape)));
}
const throwing = (thrown: unknown) =>
  outcomeOf(() => {
    throw thrown;
  });

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

describe("what a handler does decides what happens to its message", () => {
  it("C12, SDK-01: returning acknowledges, whatever is returned", async () => {
    for (const returned of [undefined, null, "text", new Response(null, { status: 500 }), Promise.resolve(0)]) {
      expect(await outcomeOf(() => returned)).toEqual({ outcome: ack, error: null });
    }
  });

  it("C12, SDK-01: anything thrown is a retry with one line of error, never a crash", async () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const hostile = {
      get message() {
        throw new Error("no");
      },
      get name() {
        throw new Error("no");
      },
    };
    for (const [thrown, error] of [
      [new Error("smtp is down"), "HTTP 500: smtp is down\n"],
      ["just text", "HTTP 500: just text\n"],
      [null, "HTTP 500: null was thrown\n"],
      [undefined, "HTTP 500: undefined was thrown\n"],
      [Symbol("x"), "HTTP 500: Symbol(x) was thrown\n"],
      [{}, "HTTP 500: an object was thrown\n"],
      [new Error("two\r\nlines\u2028\u0000of it"), "HTTP 500: two lines of it\n"],
      [new Error(""), "HTTP 500: the handler failed without saying why\n"],
      [hostile, "HTTP 500: something was thrown that cannot be read\n"],
      [proxy, "HTTP 500: something was thrown that cannot be read\n"],
    ] as const) {
      expect(await throwing(thrown)).toEqual({ outcome: retry, error });
    }
    expect((await outcomeOf(() => Promise.reject(new Error("later")))).outcome).toEqual(retry);
  });

  it("SDK-02: an error text is cut at whole characters, and what the server keeps of it is text", async () => {
    const { error } = await throwing(new Error(`${"x".repeat(499)}😀 and more \ud800`));
    expect(error).toBe(`HTTP 500: ${"x".repeat(499)}\n`);
    expect(error).not.toMatch(/\p{Cs}/u);
  });

  it("C12, SDK-01: NonRetryableError goes to the dead letters at once with its reason, as printable ASCII of at most 500", async () => {
    expect(await throwing(new NonRetryableError("Unknown template x"))).toMatchObject({
      outcome: { kind: "dead-letter", reason: "Unknown template x" },
    });
    expect(await throwing(new NonRetryableError("größe\r\nx-evil: 1"))).toMatchObject({ outcome: { reason: "gr??e x-evil: 1" } });
    const long = await throwing(new NonRetryableError("y".repeat(10_240)));
    expect(long.outcome).toEqual({ kind: "dead-letter", reason: "y".repeat(500) });
    class Unknown extends NonRetryableError {
      override name = "Unknown";
    }
    expect((await throwing(new Unknown("subclass"))).outcome).toEqual({ kind: "dead-letter", reason: "subclass" });
  });

  it("C12, SDK-01: NonRetryableError and RetryLaterError of another copy of the SDK count as well", async () => {
    vi.resetModules();
    const copy = (await import("./outcome.ts")) as typeof import("./outcome.ts");
    expect(new copy.NonRetryableError("x")).not.toBeInstanceOf(NonRetryableError);
    expect((await throwing(new copy.NonRetryableError("from the other copy"))).outcome).toEqual({
      kind: "dead-letter",
      reason: "from the other copy",
    });
    expect((await throwing(new copy.RetryLaterError("1m"))).outcome).toEqual({ kind: "defer", delayMs: 60_000 });
    const named = Object.assign(new Error("by name"), { name: "NonRetryableError" });
    expect((await throwing(named)).outcome).toEqual({ kind: "dead-letter", reason: "by name" });
  });

  it("C12, SDK-01: RetryLaterError defers within bounds; what is no delay falls back to a retry", async () => {
    for (const [delay, delayMs] of [
      ["1m", 60_000],
      ["0", 0],
      [0, 0],
      [1.2, 2000],
      ["2h", 7_200_000],
      ["365d", 345_600_000],
    ] as const) {
      expect((await throwing(new RetryLaterError(delay as "1m"))).outcome, String(delay)).toEqual({ kind: "defer", delayMs });
    }
    for (const delay of ["-5s", "1y", "abc", undefined, null, -1, Number.NaN, "366d"]) {
      const { outcome, error } = await throwing(new RetryLaterError(delay as "1m"));
      expect(outcome, String(delay)).toEqual(retry);
      expect(error).toBe(`HTTP 500: retry after ${String(delay)}\n`);
    }
  });
});

describe("payloads", () => {
  const Email = z.object({ to: z.email(), template: z.string() });

  it("C12: the handler gets the decoded payload and the message's facts", async () => {
    const seen: [unknown, MessageMeta][] = [];
    const shape = {
      body: '{"to":"a@b.c"}',
      attempt: 3,
      groupKey: "customer-7",
      deduplicationKey: "once",
      fallbackFrom: "d0",
      attributes: { "x-tenant": "acme" },
      at: Date.now(),
    };
    await outcomeOf((payload, meta) => seen.push([payload, meta]), {}, shape);
    const [[payload, meta]] = seen as [[unknown, MessageMeta]];
    expect(payload).toEqual({ to: "a@b.c" });
    expect(meta).toMatchObject({
      queue: "emails",
      messageId: "0198f2a0-0000-7000-8000-000000000001",
      attempt: 3,
      createdAt: new Date(shape.at - 1000),
      expiresAt: new Date(shape.at + 86_400_000),
      deadline: new Date(shape.at + 59_000),
      groupKey: "customer-7",
      deduplicationKey: "once",
      deploymentId: "d1",
      deploymentFallback: "d0",
      contentType: "application/json",
    });
    expect(meta.headers.get("x-tenant")).toBe("acme");
    expect(meta.signal.aborted).toBe(false);
  });

  it("C12, SDK-01: a payload that is not valid or not readable goes to the dead letters with the reason, and no handler runs", async () => {
    const fn = vi.fn();
    const parse = { validate: Email.parse } as QueueOptions<unknown>;
    const invalid = await outcomeOf(fn, parse, { body: '{"to":"nobody"}' });
    expect(invalid.outcome).toMatchObject({
      kind: "dead-letter",
      reason: expect.stringMatching(/^the payload is not valid: to: .+; template: .+/),
    });
    const schema = await outcomeOf(fn, { validate: Email as QueueOptions<unknown>["validate"] }, { body: '{"to":"nobody"}' });
    expect(schema).toEqual(invalid);
    const asynchronous = { validate: async () => Promise.reject(new Error("not in the registry")) };
    expect((await outcomeOf(fn, asynchronous)).outcome).toEqual({
      kind: "dead-letter",
      reason: "the payload is not valid: not in the registry",
    });
    for (const thrown of [null, "text", new RetryLaterError("soon" as "1m")]) {
      const validate = () => {
        throw thrown;
      };
      expect((await outcomeOf(fn, { validate })).outcome.kind).toBe("dead-letter");
    }
    expect((await outcomeOf(fn, {}, { body: "{" })).outcome).toMatchObject({
      kind: "dead-letter",
      reason: expect.stringContaining("the body cannot be read as application/json"),
    });
    expect((await outcomeOf(fn, {}, { body: Uint8Array.of(0xff), contentType: "text/plain" })).outcome.kind).toBe("dead-letter");
    expect(fn).not.toHaveBeenCalled();
  });

  it("C12: what validate answers is what the handler gets, at once or later; a schema may say to come again later", async () => {
    const seen: unknown[] = [];
    const validate = async (value: unknown) => ({ checked: value });
    expect((await outcomeOf((payload) => seen.push(payload), { validate }, { body: "1" })).outcome).toEqual(ack);
    const Trimmed = z.string().transform(async (text) => text.trim());
    await outcomeOf((payload) => seen.push(payload), { validate: Trimmed as QueueOptions<unknown>["validate"] }, { body: '" x "' });
    expect(seen).toEqual([{ checked: 1 }, "x"]);
    const later = () => {
      throw new RetryLaterError("30s");
    };
    expect((await outcomeOf(() => 0, { validate: later })).outcome).toEqual({ kind: "defer", delayMs: 30_000 });
  });

  it("C12: a codec of the queue's own reads the body", async () => {
    const seen: unknown[] = [];
    const codec = {
      contentType: "text/csv",
      encode: (rows: unknown) => String(rows),
      decode: async (body: Uint8Array, type?: string) => [type, new TextDecoder().decode(body).split(",")],
    };
    await outcomeOf((payload) => seen.push(payload), { codec }, { body: "a,b", contentType: "text/csv" });
    expect(seen).toEqual([["text/csv", ["a", "b"]]]);
  });
});

describe("who may call", () => {
  const fn = vi.fn();
  const call = async (request: Request, options: QueueOptions<unknown> = { signingSecret: secret }): Promise<number> => {
    fn.mockClear();
    const { status } = await queue("emails", options).handler(fn)(request);
    expect(fn).toHaveBeenCalledTimes(status === 204 ? 1 : 0);
    return status;
  };

  it("C12, SDK-01: without a valid signature it is 401, whatever else is wrong", async () => {
    expect(await call(requestOf())).toBe(204);
    for (const name of ["signature", "name", "message-id", "attempt"]) {
      expect(await call(requestOf({}, (headers) => headers.delete(`x-gigadrive-queue-${name}`))), name).toBe(401);
    }
    expect(await call(requestOf({}, (headers) => headers.set("x-gigadrive-queue-attempt", "9")))).toBe(401);
    expect(await call(requestOf({ body: "{", queue: "others" }, (headers) => headers.delete("x-gigadrive-queue-signature")))).toBe(401);
    expect(await call(requestOf({ queue: "others", secret: `${secret.slice(0, -1)}E` }))).toBe(401);
    expect(await call(new Request("http://localhost/"))).toBe(401);
    const oversized = new Request("http://localhost/", {
      method: "POST",
      body: new Uint8Array(3 * 1024 * 1024),
      headers: requestOf().headers,
    });
    expect(await call(oversized)).toBe(401);
    const read = requestOf();
    await read.text();
    expect(await call(read)).toBe(401);
  });

  it("C12, SIG-04: a signature is good for five minutes either way", async () => {
    const at = Date.now();
    vi.spyOn(Date, "now").mockReturnValue(at);
    expect(await call(requestOf({ at: at - 300_000 }))).toBe(204);
    expect(await call(requestOf({ at: at + 300_000 }))).toBe(204);
    expect(await call(requestOf({ at: at - 300_001 }))).toBe(401);
    expect(await call(requestOf({ at: at + 300_001 }))).toBe(401);
  });

  it("SIG-02: bodies of 0, 1 and 2 bytes verify and arrive", async () => {
    for (const body of ["", "7", "42"]) {
      expect(await call(requestOf({ body, contentType: "text/plain" }))).toBe(204);
      expect(fn.mock.calls[0]?.[0]).toBe(body);
    }
  });

  it("C12: another queue's genuine delivery is 400, before anything is decoded", async () => {
    expect(await call(requestOf({ queue: "others", body: "{" }))).toBe(400);
    expect(await call(requestOf({ queue: "Emails" }))).toBe(400);
  });

  it("C12: without a secret every delivery is 500, and the log says what to set", async () => {
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", undefined);
    vi.stubEnv("GIGADRIVE_QUEUE_SIGNING_SECRET", undefined);
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    expect(await call(requestOf(), {})).toBe(500);
    expect(await call(new Request("http://localhost/"), {})).toBe(500);
    expect(await call(requestOf(), { signingSecret: "" })).toBe(500);
    expect(await call(requestOf(), { signingSecret: ["", ""] })).toBe(500);
    expect(log.mock.calls[0]?.[0]).toContain("Set MILLRACE_QUEUE_SIGNING_SECRET");
    expect(log.mock.calls[0]?.[0]).not.toContain("\n");
  });

  it("C12: allowUnsigned takes requests without a signature, still only this queue's, and never a wrong signature", async () => {
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", undefined);
    vi.stubEnv("GIGADRIVE_QUEUE_SIGNING_SECRET", undefined);
    const bare = () =>
      new Request("http://localhost/", { method: "POST", body: '{"to":"me"}', headers: { "content-type": "application/json" } });
    expect(await call(bare(), { allowUnsigned: true })).toBe(204);
    expect(fn.mock.calls[0]?.[0]).toEqual({ to: "me" });
    expect(fn.mock.calls[0]?.[1]).toMatchObject({ attempt: 1, messageId: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(await call(requestOf({ queue: "others" }), { allowUnsigned: true })).toBe(400);
    expect(await call(requestOf(), { allowUnsigned: true, signingSecret: ["", ""] })).toBe(204);
    expect(await call(bare(), { allowUnsigned: true, signingSecret: secret })).toBe(204);
    expect(await call(requestOf({ secret: `${secret.slice(0, -1)}E` }), { allowUnsigned: true, signingSecret: secret })).toBe(401);
    expect(
      await call(new Request("http://localhost/", { method: "POST", body: new Uint8Array(3 * 1024 * 1024) }), { allowUnsigned: true }),
    ).toBe(413);
  });

  it("C15: the secret comes from MILLRACE_QUEUE_SIGNING_SECRET, several with commas, else from GIGADRIVE_QUEUE_SIGNING_SECRET as it stands", async () => {
    const next = `${secret.slice(0, -1)}E`;
    vi.stubEnv("GIGADRIVE_QUEUE_SIGNING_SECRET", secret);
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", undefined);
    expect(await call(requestOf(), {})).toBe(204);
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", next);
    expect(await call(requestOf(), {})).toBe(401);
    expect(await call(requestOf({ secret: next }), {})).toBe(204);
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", `${next}, ${secret}`);
    expect(await call(requestOf(), {})).toBe(204);
    expect(await call(requestOf({ secret: next }), {})).toBe(204);
  });

  it("C14: a handler can be tested with signQueueDelivery", async () => {
    const body = '{"to":"me"}';
    const header = await signQueueDelivery({ secret, queue: "emails", messageId: "m1", attempt: 1, body });
    const headers = {
      "content-type": "application/json",
      "x-gigadrive-queue-name": "emails",
      "x-gigadrive-queue-message-id": "m1",
      "x-gigadrive-queue-attempt": "1",
      "x-gigadrive-queue-signature": header,
    };
    expect(await call(new Request("http://localhost/", { method: "POST", headers, body }))).toBe(204);
  });
});
