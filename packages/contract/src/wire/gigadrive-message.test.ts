import { createHash, createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import type { Answer, Hmac, SigningKey } from "./format.ts";
import { buildMessage, gigadriveBackoff, type MessageDelivery, readMessageAnswer, reservedHeader } from "./gigadrive-message.ts";
import { backoffMs } from "./retry.ts";
import { parseSecret } from "./signing.ts";

const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";
const key = parseSecret(secret) as SigningKey;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const delivery = (given: Partial<MessageDelivery> & { body?: Uint8Array } = {}): MessageDelivery => {
  const body = given.body ?? bytes("hello");
  return {
    queue: "emails",
    messageId: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
    attempt: 3,
    body,
    bodyHash: createHash("sha256").update(body).digest("hex"),
    contentType: "text/plain",
    attributes: null,
    createdAt: 1,
    expiresAt: 2,
    deadline: 3,
    groupKey: null,
    deduplicationKey: null,
    deploymentId: "dpl_1",
    fallbackFrom: null,
    traceparent: null,
    ...given,
  };
};
const build = (given: Partial<MessageDelivery> = {}) =>
  buildMessage(delivery(given), { hmac, keys: [key], wallMs: Date.now(), version: "1.2.3" });
const answer = (status: number, headers: Answer["headers"] = {}, body: string | Uint8Array = ""): Answer => ({
  status,
  headers,
  body: typeof body === "string" ? bytes(body) : body,
  truncated: false,
});
const read = (given: Answer, maxDelayMs = 1e9) => readMessageAnswer(given, ["m"], { nowMs: Date.now(), maxDelayMs });

describe("the request of one message", () => {
  it("C2, SIG-02: bodies of 0, 1 and 2 bytes are signed as they are, by both schemes", () => {
    for (const body of ["", "1", "{}"]) {
      const { headers } = build({ body: bytes(body) });
      const signature = String(headers["x-gigadrive-queue-signature"]);
      const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature) ?? [];
      const hash = createHash("sha256").update(body).digest("hex");
      const text = `${t}.emails.01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f.3.${hash}`;
      expect(createHmac("sha256", secret).update(text).digest("hex")).toBe(v1);
      new Webhook(`${secret}=`).verify(body, { ...headers });
      expect(headers["webhook-id"]).toBe("01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f");
    }
  });

  it("C2: carries what the message has and leaves out what it has not", () => {
    const plain = build().headers;
    expect(plain).toMatchObject({
      "content-type": "text/plain",
      "user-agent": "Millrace/1.2.3",
      "x-gigadrive-queue-name": "emails",
      "x-gigadrive-queue-attempt": "3",
      "x-gigadrive-queue-created-at": "1",
      "x-gigadrive-queue-expires-at": "2",
      "x-gigadrive-queue-deadline": "3",
      "x-gigadrive-queue-deployment-id": "dpl_1",
    });
    for (const name of ["group-key", "deduplication-key", "deployment-fallback", "omitted-headers"])
      expect(plain).not.toHaveProperty(`x-gigadrive-queue-${name}`);
    expect(plain).not.toHaveProperty("traceparent");
    const full = build({ groupKey: "g 1", deduplicationKey: "d", fallbackFrom: "dpl_0", traceparent: "00-1" }).headers;
    expect(full).toMatchObject({
      "x-gigadrive-queue-group-key": "g 1",
      "x-gigadrive-queue-deduplication-key": "d",
      "x-gigadrive-queue-deployment-fallback": "dpl_0",
      traceparent: "00-1",
    });
  });

  it("C2, BODY-07: of a message's own headers only those travel that can; the platform's win and the others are named", () => {
    const attributes = {
      "X-Tenant": "acme",
      "x-tenant": "again",
      "X-Gigadrive-Queue-Attempt": "99",
      "x-gigadrive-queue-signature": "t=1,v1=0",
      "Webhook-Id": "x",
      Host: "evil",
      "Content-Length": "1",
      "transfer-encoding": "chunked",
      Connection: "close",
      Expect: "100-continue",
      "user-agent": "mine",
      cookie: "a=b",
      "a name": "x",
      split: "a\r\nb: c",
      zero: "\u0000",
      accent: "caf\u00e9",
      padded: " x",
      empty: "",
    };
    const { headers } = build({ attributes });
    expect(headers).toMatchObject({ "x-tenant": "acme", empty: "", "x-gigadrive-queue-attempt": "3", "user-agent": "mine" });
    expect(headers["x-gigadrive-queue-omitted-headers"]).toBe(
      "x-tenant,X-Gigadrive-Queue-Attempt,x-gigadrive-queue-signature,Webhook-Id,Host,Content-Length,transfer-encoding,Connection,Expect," +
        "cookie,a%20name,split,zero,accent,padded",
    );
    for (const name of ["host", "content-length", "transfer-encoding", "connection", "expect", "cookie"])
      expect(headers).not.toHaveProperty(name);
    expect(Object.values(headers).every((value) => /^[\x20-\x7e]*$/.test(value))).toBe(true);
    expect(reservedHeader("proxy-authorization") && reservedHeader("traceparent") && !reservedHeader("x-tenant")).toBe(true);
  });
});

describe("the answer to one message", () => {
  it("C3: 2xx acknowledges, a retry-after defers, the dead-letter action comes before both and with any status", () => {
    const later = { "x-gigadrive-queue-retry-after": "90" };
    const dead = { "x-gigadrive-queue-action": "dead-letter", "x-gigadrive-queue-error": "no such template" };
    expect(read(answer(204)).outcomes).toEqual([{ kind: "ack" }]);
    expect(read(answer(200, later)).outcomes).toEqual([{ kind: "defer", delayMs: 90_000 }]);
    for (const status of [200, 302, 404, 500, 503])
      expect(read(answer(status, { ...later, ...dead }))).toEqual({
        outcomes: [{ kind: "dead-letter", reason: "no such template" }],
        ok: true,
        slowDown: false,
        error: null,
      });
    expect(read(answer(500, later)).outcomes).toEqual([{ kind: "retry", delayMs: null }]);
    expect(read(answer(500, { "x-gigadrive-queue-action": "retry" })).outcomes).toEqual([{ kind: "retry", delayMs: null }]);
  });

  it("C3: delays are capped at what is left of the retention; unreadable and negative ones count as absent, 0 means now", () => {
    const defer = (value: string) => read(answer(200, { "x-gigadrive-queue-retry-after": value }), 60_000).outcomes[0];
    expect(defer("0")).toEqual({ kind: "defer", delayMs: 0 });
    expect(defer("1.5")).toEqual({ kind: "defer", delayMs: 1_500 });
    expect(defer("86400")).toEqual({ kind: "defer", delayMs: 60_000 });
    for (const value of ["9".repeat(16), "9".repeat(400), "0.0000000001"]) expect(defer(value)).toMatchObject({ kind: "defer" });
    expect(defer("9".repeat(16))).toEqual({ kind: "defer", delayMs: 60_000 });
    expect(defer("9".repeat(400))).toEqual({ kind: "defer", delayMs: 60_000 });
    for (const value of ["-1", "soon", "", "1e3", "0x10", "Wed, 21 Oct 2026 07:28:00 GMT"]) expect(defer(value)).toEqual({ kind: "ack" });
    for (const status of [429, 503]) {
      const wait = (value: string) => read(answer(status, { "retry-after": value }), 60_000);
      expect(wait("7")).toMatchObject({ outcomes: [{ kind: "retry", delayMs: 7_000 }], slowDown: true });
      expect(wait("0").outcomes).toEqual([{ kind: "retry", delayMs: 0 }]);
      expect(wait("3600").outcomes).toEqual([{ kind: "retry", delayMs: 60_000 }]);
      expect(wait("-3").outcomes).toEqual([{ kind: "retry", delayMs: null }]);
    }
    expect(read(answer(500, { "retry-after": "7" }))).toMatchObject({ outcomes: [{ kind: "retry", delayMs: null }], slowDown: false });
  });

  it("C3, SDK-02: an error is the status and 512 bytes of the answer, cut at a character, in text that can be stored", () => {
    const error = (body: string | Uint8Array) => read(answer(500, { "x-gigadrive-queue-error": "ignored" }, body)).error;
    expect(error("boom")).toBe("HTTP 500: boom");
    expect(error("")).toBe("HTTP 500");
    expect(error(`${"a".repeat(511)}\u{1F600}`)).toBe(`HTTP 500: ${"a".repeat(511)}`);
    expect(error(`${"a".repeat(508)}\u{1F600}`)).toBe(`HTTP 500: ${"a".repeat(508)}\u{1F600}`);
    const binary = error(Uint8Array.from({ length: 600 }, (_, i) => i % 256)) as string;
    expect(/\p{Surrogate}/u.test(binary)).toBe(false);
    expect(/\p{Cc}/u.test(binary.replace(/[\t\n\r]/g, ""))).toBe(false);
    const reason = (value: string) =>
      read(answer(200, { "x-gigadrive-queue-action": "Dead-Letter", "x-gigadrive-queue-error": value })).outcomes[0];
    expect(reason("x".repeat(10_240))).toEqual({ kind: "dead-letter", reason: "x".repeat(500) });
    expect(reason("caf\u00e9")).toEqual({ kind: "dead-letter", reason: "caf?" });
    expect(reason("")).toEqual({ kind: "dead-letter", reason: "dead-lettered by the consumer (HTTP 200)" });
  });
});

describe("the backoff of one message", () => {
  it("C4, ANS-11: starts at 5 s, doubles to 15 min within 20 % of jitter, and follows the queue's own bounds", () => {
    const usual = gigadriveBackoff({ retryBackoffMinMs: null, retryBackoffMaxMs: null });
    expect([1, 2, 3, 8, 9, 40, 1100].map((n) => backoffMs(n, 0.5, usual))).toEqual([5e3, 10e3, 20e3, 640e3, 900e3, 900e3, 900e3]);
    for (let n = 1; n <= 40; n++) {
      for (const random of [0, 0.25, 0.999]) {
        const ideal = 5_000 * 2 ** (n - 1);
        const delay = backoffMs(n, random, usual);
        expect(delay).toBeLessThanOrEqual(Math.min(900_000, ideal * 1.2));
        expect(delay).toBeGreaterThanOrEqual(Math.min(900_000, Math.floor(ideal * 0.8)));
      }
    }
    const bounded = gigadriveBackoff({ retryBackoffMinMs: 1_000, retryBackoffMaxMs: 3_000 });
    expect([1, 2, 3, 4].map((n) => backoffMs(n, 0.5, bounded))).toEqual([1_000, 2_000, 3_000, 3_000]);
    expect(gigadriveBackoff({ retryBackoffMinMs: 3_600_000, retryBackoffMaxMs: null })).toEqual({ firstMs: 3_600_000, maxMs: 3_600_000 });
  });
});
