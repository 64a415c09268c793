import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  allowedInFlight,
  type Flow,
  type FlowResult,
  fullBucket,
  initialFlow,
  mayStart,
  onResult,
  steadyFailures,
  take,
  withMax,
  withRate,
} from "./flow.ts";

const after = (flow: Flow, results: FlowResult[], now = 0): Flow => results.reduce((state, result) => onResult(state, result, now), flow);
const times = <T>(n: number, value: T): T[] => new Array<T>(n).fill(value);

describe("the in-flight limit", () => {
  it("P13: it starts at maxConcurrency, or at 1 after a restart of a failing subscription", () => {
    expect(initialFlow(10, false).limit).toBe(10);
    expect(initialFlow(10, true).limit).toBe(1);
  });

  it("P13: 429, 503 and timeouts halve it, never below 1; other failures leave it", () => {
    let flow = initialFlow(25, false);
    const seen: number[] = [];
    for (let i = 0; i < 6; i++) {
      flow = onResult(flow, "slow", 0);
      seen.push(flow.limit);
    }
    expect(seen).toEqual([12, 6, 3, 1, 1, 1]);
    expect(after(initialFlow(25, false), times(5, "failed")).limit).toBe(25);
  });

  it("P13: each success adds one, up to maxConcurrency", () => {
    const cut = after(initialFlow(4, false), ["slow", "slow"]);
    expect(after(cut, ["success"]).limit).toBe(2);
    expect(after(cut, times(10, "success")).limit).toBe(4);
  });

  it("P13: no more start than the limit permits, whatever happened before", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100 }),
        fc.array(fc.constantFrom<FlowResult>("success", "slow", "failed"), { maxLength: 60 }),
        (max, results) => {
          const flow = after(initialFlow(max, false), results);
          expect(flow.limit).toBeGreaterThanOrEqual(1);
          expect(flow.limit).toBeLessThanOrEqual(max);
          expect(mayStart(flow, allowedInFlight(flow), 1e9)).toBe(false);
          expect(mayStart(flow, allowedInFlight(flow) - 1, 1e9)).toBe(true);
        },
      ),
    );
  });

  it("P13: a changed maxConcurrency takes effect for the next delivery", () => {
    expect(withMax(initialFlow(10, false), 3)).toMatchObject({ max: 3, limit: 3 });
    expect(withMax(initialFlow(3, false), 10)).toMatchObject({ max: 10, limit: 10 });
    expect(withMax(after(initialFlow(8, false), ["slow"]), 20)).toMatchObject({ max: 20, limit: 4 });
  });
});

describe("steady failure", () => {
  it("P14: after ten failures in a row one delivery is in flight and the gap doubles from 1 s to 30 s", () => {
    let flow = after(initialFlow(10, false), times(steadyFailures - 1, "failed"));
    expect(mayStart(flow, 9, 0)).toBe(true);
    const gaps: number[] = [];
    let now = 5000;
    for (let i = 0; i < 8; i++) {
      flow = onResult(flow, "failed", now);
      const gap = mayStart(flow, 0, now) as number;
      gaps.push(gap);
      now += gap;
    }
    expect(gaps).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    expect(mayStart(flow, 0, now)).toBe(true);
    expect(mayStart(flow, 1, now)).toBe(false);
    for (let i = 0; i < 5000; i++) {
      flow = onResult(flow, "slow", now);
      now = flow.notBefore;
    }
    expect(mayStart(onResult(flow, "slow", now), 0, now)).toBe(30_000);
  });

  it("P14, CTRL-02: a hundred deliveries that fail together are one outage: the first gap is 1 s, not 30", () => {
    const burst = after(initialFlow(100, false), times(100, "slow"), 5000);
    expect(mayStart(burst, 0, 5000)).toBe(1000);
    expect(mayStart(burst, 1, 6000)).toBe(false);
    const late = onResult(burst, "failed", 5900);
    expect(mayStart(late, 0, 6000)).toBe(true);
    expect(mayStart(onResult(late, "failed", 6000), 0, 6000)).toBe(2000);
  });

  it("P14: one success restores it", () => {
    const failing = after(initialFlow(10, false), times(14, "failed"), 0);
    const restored = onResult(failing, "success", 100);
    expect(mayStart(restored, 9, 100)).toBe(true);
    expect(restored.failures).toBe(0);
  });
});

describe("the token bucket", () => {
  const rate = { count: 5, periodMs: 1000 };

  it("C6: at most `count` start at once, and then one per fraction of the period", () => {
    let bucket = fullBucket(rate, 0);
    const first = take(bucket, 10, 0);
    expect(first.taken).toBe(5);
    expect(first.waitMs).toBe(200);
    bucket = first.bucket;
    expect(take(bucket, 1, 199).taken).toBe(0);
    expect(take(bucket, 1, 200).taken).toBe(1);
    expect(take(bucket, 9, 3_600_000).taken).toBe(5);
  });

  it("C6: over any length of time no more start than the rate and one bucket permit, and waiting as told always helps", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 10_000 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 2000 }), fc.integer({ min: 1, max: 10 })), { maxLength: 80 }),
        (count, periodMs, asks) => {
          let bucket = fullBucket({ count, periodMs }, 0);
          let now = 0;
          let started = 0;
          for (const [pause, wanted] of asks) {
            now += pause;
            const result = take(bucket, wanted, now);
            bucket = result.bucket;
            started += result.taken;
            expect(started).toBeLessThanOrEqual(count + (now * count) / periodMs + 1e-6);
            if (result.taken < wanted) {
              expect(result.waitMs).toBeGreaterThan(0);
              expect(take(bucket, 1, now + result.waitMs).taken).toBe(1);
            }
          }
        },
      ),
    );
  });

  it("C6: a clock that steps back gives nothing away, and a changed rate keeps what fits", () => {
    const { bucket } = take(fullBucket(rate, 1000), 5, 1000);
    expect(take(bucket, 1, 0).taken).toBe(0);
    expect(take(take(bucket, 1, 0).bucket, 1, 1000).taken).toBe(0);
    expect(withRate(fullBucket(rate, 0), { count: 2, periodMs: 1000 }, 0).tokens).toBe(2);
  });
});
