import { describe, expect, it } from "vitest";
import { retryInForce, subscriptionChange } from "./rules.ts";

describe("the retry policy in force", () => {
  it("T11: without any policy it is the platform's", () => {
    expect(retryInForce(null, null)).toEqual({
      maxAttempts: 50,
      minDelayMs: 1_000,
      maxDelayMs: 3_600_000,
      timeoutMs: 15_000,
      maxAgeMs: 345_600_000,
    });
  });

  it("T11: field by field the subscription's counts before the topic's, and that before the platform's", () => {
    const topic = { max_attempts: 5, timeout_seconds: 3, max_age_seconds: 600 };
    expect(retryInForce(topic, { timeout_seconds: 9, max_delay_seconds: 60 })).toEqual({
      maxAttempts: 5,
      minDelayMs: 1_000,
      maxDelayMs: 60_000,
      timeoutMs: 9_000,
      maxAgeMs: 600_000,
    });
  });

  it("T11: a longest delay that was not given with the shortest is lifted to it", () => {
    expect(retryInForce(null, { min_delay_seconds: 7_200 })).toMatchObject({ minDelayMs: 7_200_000, maxDelayMs: 7_200_000 });
    expect(retryInForce({ max_delay_seconds: 10 }, { min_delay_seconds: 60 })).toMatchObject({ maxDelayMs: 60_000 });
    expect(retryInForce({ min_delay_seconds: 60 }, { max_delay_seconds: 10 })).toMatchObject({ minDelayMs: 60_000, maxDelayMs: 60_000 });
  });
});

describe("what a change names", () => {
  it("T2: only what is given changes, null unsets, and a policy without a queue is none", () => {
    expect(subscriptionChange({}, 7)).toEqual({});
    expect(subscriptionChange({ redrive_policy: { dead_letter_queue: "q" } }, 7)).toEqual({ deadLetterNo: 7 });
    expect(subscriptionChange({ redrive_policy: null, rate_limit: null, filter_policy: null }, null)).toEqual({
      deadLetterNo: null,
      rateLimit: null,
      filterPolicy: null,
    });
    expect(subscriptionChange({ rate_limit: { count: 5, period_seconds: 2 } }, null)).toEqual({ rateLimit: { count: 5, periodMs: 2_000 } });
  });
});
