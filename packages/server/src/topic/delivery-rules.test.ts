import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DeliveryResult, FailureClass } from "../delivery/types.ts";
import { decideAttempt, decideRefusal, nextDelayMs, type Standing, spent } from "./delivery-rules.ts";
import { retryInForce } from "./rules.ts";

const retry = retryInForce(null, null);
const standing = (given: Partial<Standing> = {}): Standing => ({ attempts: 1, ageMs: 0, retry, random: 0.5, wallMs: 0, ...given });
const answer = (status: number, headers: Record<string, string> = {}): DeliveryResult => ({
  kind: "answer",
  status,
  headers,
  body: new Uint8Array(),
  truncated: false,
  durationMs: 1,
});
const failure = (kind: FailureClass): DeliveryResult => ({ kind: "failure", class: kind, message: "m", durationMs: 1 });

describe("what an attempt means", () => {
  it("T11, TOPIC-04: timeouts, broken connections, 408, 429 and 5xx are tried again; other 4xx, 3xx and blocked addresses are not", () => {
    const outcomeOf = (result: DeliveryResult) => decideAttempt(result, standing()).outcome;
    for (const status of [200, 204]) expect(outcomeOf(answer(status))).toBe("delivered");
    for (const status of [408, 429, 500, 503]) expect(outcomeOf(answer(status))).toBe("retry");
    for (const status of [301, 400, 404, 410]) expect(outcomeOf(answer(status))).toBe("failed");
    expect((["timeout", "connection", "tls", "refused"] as const).map((kind) => outcomeOf(failure(kind)))).toEqual([
      "retry",
      "retry",
      "retry",
      "failed",
    ]);
  });

  it("T11: attempts and age end the trying, the last attempt included and the wait that would outlast the age", () => {
    expect(decideAttempt(answer(500), standing({ attempts: 49 })).outcome).toBe("retry");
    expect(decideAttempt(answer(500), standing({ attempts: 50 })).outcome).toBe("failed");
    expect(decideAttempt(answer(500), standing({ ageMs: 345_599_000 })).outcome).toBe("retry");
    expect(decideAttempt(answer(500), standing({ ageMs: 345_599_001 })).outcome).toBe("failed");
    expect(decideAttempt(answer(200), standing({ attempts: 50, ageMs: 1e12 })).outcome).toBe("delivered");
  });

  it("T11: Retry-After is honoured up to the longest delay", () => {
    expect(decideAttempt(answer(429, { "retry-after": "30" }), standing()).delayMs).toBe(30_000);
    expect(decideAttempt(answer(500, { "retry-after": "86400" }), standing()).delayMs).toBe(3_600_000);
  });

  it("T12: the record says class, status and message", () => {
    expect(decideAttempt(answer(503), standing())).toMatchObject({
      status: 503,
      failure: { class: "http", status: 503, message: "HTTP 503" },
      slowDown: true,
    });
    expect(decideAttempt(failure("timeout"), standing())).toMatchObject({ status: null, failure: { class: "timeout", message: "m" } });
    expect(decideAttempt(answer(204), standing())).toMatchObject({ status: 204, failure: null, error: null });
  });

  it("T9, T11: a full queue is tried again, a missing one is not", () => {
    expect(decideRefusal("full", standing())).toMatchObject({ outcome: "retry", delayMs: 1_000, failure: { class: "full" } });
    expect(decideRefusal("full", standing({ attempts: 50 })).outcome).toBe("failed");
    expect(decideRefusal("missing", standing())).toMatchObject({ outcome: "failed", failure: { class: "missing" } });
  });

  it("T11: what lapsed without an answer is ended when it is handed out once more; the first attempt is always made", () => {
    expect(spent({ attempts: 50, ageMs: 0, retry })).toBe(false);
    expect(spent({ attempts: 51, ageMs: 0, retry })).toBe(true);
    expect(spent({ attempts: 1, ageMs: 1e12, retry })).toBe(false);
    expect(spent({ attempts: 2, ageMs: 345_600_001, retry })).toBe(true);
  });
});

it("T11: the backoff doubles from the shortest to the longest delay, with jitter from half of it but never below the shortest", () => {
  expect([1, 2, 3, 12, 13, 100, 2000].map((n) => nextDelayMs(n, 0.999999, retry))).toEqual([
    1_000, 1_999, 3_999, 2_047_998, 3_599_998, 3_599_998, 3_599_998,
  ]);
  expect([1, 2, 3, 13].map((n) => nextDelayMs(n, 0, retry))).toEqual([1_000, 1_000, 2_000, 1_800_000]);
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 100 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.integer({ min: 1, max: 43_200 }),
      fc.integer({ min: 1, max: 43_200 }),
      (n, random, a, b) => {
        const bounds = { minDelayMs: Math.min(a, b) * 1000, maxDelayMs: Math.max(a, b) * 1000 };
        const whole = Math.min(bounds.maxDelayMs, bounds.minDelayMs * 2 ** (n - 1));
        const delay = nextDelayMs(n, random, bounds);
        expect(delay).toBeGreaterThanOrEqual(Math.max(bounds.minDelayMs, Math.floor(whole / 2)));
        expect(delay).toBeLessThanOrEqual(whole);
      },
    ),
  );
});
