import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffMs, ezghBackoff, retryAfterMs } from "./retry.ts";

describe("backoff", () => {
  const queue = (visibilitySeconds: number) =>
    ezghBackoff({ visibilityTimeoutMs: visibilitySeconds * 1000, retryBackoffMinMs: null, retryBackoffMaxMs: null });

  it("P11, ANS-11: the delay is min(visibility, 2^(n-1) s) within 20 %, never above the visibility timeout and never 0", () => {
    for (const visibility of [30, 43_200]) {
      for (const n of [...Array.from({ length: 40 }, (_, i) => i + 1), 100, 1100]) {
        const ideal = Math.min(2 ** (n - 1), 1e12) * 1000;
        let seed = 1;
        for (let sample = 0; sample < 10_000; sample++) {
          seed = (seed * 48_271) % 2_147_483_647;
          const delay = backoffMs(n, seed / 2_147_483_647, queue(visibility));
          if (!(Number.isInteger(delay) && delay > 0 && delay <= visibility * 1000)) expect.fail(`n=${n}: ${delay}`);
          if (delay < Math.floor(Math.min(visibility * 1000, ideal * 0.8)) || delay > ideal * 1.2) expect.fail(`n=${n}: ${delay}`);
        }
      }
    }
  });

  it("P11, ANS-11: the jitter is uniform: each tenth of its range gets its share of an even draw", () => {
    const counts = new Array<number>(10).fill(0);
    for (let i = 0; i < 10_000; i++) {
      const delay = backoffMs(4, i / 10_000, queue(43_200));
      const tenth = Math.floor((delay / 8000 - 0.8) / 0.04);
      counts[Math.min(9, tenth)] = (counts[Math.min(9, tenth)] ?? 0) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(20);
  });

  it("P11: the cap comes after the jitter, so that a capped delay never exceeds the visibility timeout and a lucky one may stay below", () => {
    expect(backoffMs(6, 0.999, queue(30))).toBe(30_000);
    expect(backoffMs(6, 0, queue(30))).toBe(25_600);
    expect(backoffMs(1, 0.5, queue(1))).toBe(1000);
    expect(backoffMs(1, 0.999, queue(1))).toBe(1000);
  });

  it("P11: bounds of the queue's own take the place of 1 s and the visibility timeout", () => {
    const own = ezghBackoff({ visibilityTimeoutMs: 30_000, retryBackoffMinMs: 5000, retryBackoffMaxMs: 900_000 });
    expect(backoffMs(1, 0.5, own)).toBe(5000);
    expect(backoffMs(3, 0.5, own)).toBe(20_000);
    expect(backoffMs(12, 0.5, own)).toBe(900_000);
    expect(ezghBackoff({ visibilityTimeoutMs: 30_000, retryBackoffMinMs: 2000, retryBackoffMaxMs: null })).toEqual({
      firstMs: 2000,
      maxMs: 30_000,
    });
  });
});

describe("Retry-After", () => {
  const now = Date.UTC(2026, 9, 13, 17, 0, 0);
  const after = (value: string | string[] | undefined): number | null => retryAfterMs(value, now, 30_000);

  it("P12: whole seconds, at most the bound", () => {
    expect(after("0")).toBe(0);
    expect(after("7")).toBe(7000);
    expect(after(" 7 ")).toBe(7000);
    expect(after("30")).toBe(30_000);
    expect(after("31")).toBe(30_000);
    expect(after("9".repeat(60))).toBe(30_000);
    expect(after(["3", "9"])).toBe(3000);
  });

  it("P12: an HTTP date in each of its three forms", () => {
    expect(after("Tue, 13 Oct 2026 17:00:09 GMT")).toBe(9000);
    expect(after("Tuesday, 13-Oct-26 17:00:09 GMT")).toBe(9000);
    expect(after("Tue Oct 13 17:00:09 2026")).toBe(9000);
    expect(after("Tue, 13 Oct 2026 18:00:00 GMT")).toBe(30_000);
    expect(retryAfterMs("Sun Nov  1 00:00:00 2026", Date.UTC(2026, 9, 31, 23, 59, 59), 30_000)).toBe(1000);
  });

  it("P12: a negative, past, unreadable or absent value counts as none", () => {
    for (const value of [
      undefined,
      "",
      "-1",
      "+5",
      "1.5",
      "1e3",
      "0x10",
      "soon",
      "NaN",
      "Tue, 13 Oct 2026 16:59:59 GMT",
      "Mon, 13 Oct 1975 17:00:00 GMT",
      "Wednesday, 13-Oct-99 17:00:00 GMT",
      "Tue, 13 Oct 2026 17:00:09 +0000",
      "Tue, 13 Foo 2026 17:00:09 GMT",
      "Tue, 31 Feb 2027 17:00:09 GMT",
      "2026-10-13T17:00:09Z",
      "9".repeat(65),
    ]) {
      expect(after(value), String(value)).toBeNull();
    }
  });

  it("P12: whatever the header holds, the delay is null or within bounds", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), (value) => {
        const delay = after(value);
        expect(delay === null || (delay >= 0 && delay <= 30_000)).toBe(true);
      }),
    );
  });
});
