import type { Outcome } from "@millrace/contract/wire";
import { describe, expect, it } from "vitest";
import { ezghDefaults } from "../queue/settings.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { leaseMs, ordered, readFailure, settleRows } from "./rules.ts";

const message = (seq: number, groupKey: string | null, attempts = 1): ClaimedMessage => ({
  seq,
  receipt: 100 + seq,
  messageId: `m${seq}`,
  body: new Uint8Array(),
  attributes: null,
  meta: null,
  groupKey,
  sentAt: 0,
  expiresAt: 0,
  leaseUntil: 0,
  receives: attempts,
  attempts,
});
const ack: Outcome = { kind: "ack" };
const retry: Outcome = { kind: "retry", delayMs: null };
const fifo = { no: 7, type: "fifo" as const, settings: ezghDefaults };
const middle = () => 0.5;

describe("what a delivery means for its messages", () => {
  it("P8, LEASE-09: the lease is the longer of the queue's visibility timeout and the request's timeout plus 30 s", () => {
    expect(leaseMs({ visibilityTimeoutMs: 5_000 }, { timeoutSeconds: 60 })).toBe(90_000);
    expect(leaseMs({ visibilityTimeoutMs: 43_200_000 }, { timeoutSeconds: 60 })).toBe(43_200_000);
  });

  it("P10, FIFO-04: a failed message takes the later ones of its group with it, refunded and behind it, and no other group", () => {
    const batch = [message(1, "a"), message(2, "b"), message(3, "a"), message(4, "b"), message(5, "a")];
    const rows = settleRows(fifo, batch, { outcomes: [ack, ack, retry, ack, ack], error: null }, middle);
    expect(rows.map(({ seq, outcome, delayMs }) => [seq, outcome, delayMs])).toEqual([
      [1, "ack", undefined],
      [2, "ack", undefined],
      [3, "retry", 1000],
      [4, "ack", undefined],
      [5, "release", 1000],
    ]);
  });

  it("P10: when a whole batch fails, each group's head alone is charged, and its followers wait as long as it", () => {
    const batch = [message(1, "a", 3), message(2, "b"), message(3, "a"), message(4, "b")];
    const rows = settleRows(fifo, batch, readFailure({ class: "timeout", message: "no answer" }, 4), middle);
    expect(rows.map(({ outcome, delayMs }) => [outcome, delayMs])).toEqual([
      ["retry", 4000],
      ["retry", 1000],
      ["release", 4000],
      ["release", 1000],
    ]);
  });

  it("P10: a dead-lettered head holds nothing back", () => {
    const dead: Outcome = { kind: "dead-letter", reason: "refused" };
    const rows = settleRows(fifo, [message(1, "a"), message(2, "a")], { outcomes: [dead, ack], error: null }, middle);
    expect(rows.map(({ outcome }) => outcome)).toEqual(["dead", "ack"]);
  });

  it("P10, Q10, Q19: groups hold back on a standard queue only where they are in order, and messages without a group never", () => {
    const queue = (groupConcurrency: number | null) => ({
      no: 7,
      type: "standard" as const,
      settings: { ...ezghDefaults, groupConcurrency },
    });
    expect([ordered(queue(1)), ordered(queue(2)), ordered(queue(null)), ordered(fifo)]).toEqual([true, false, false, true]);
    const outcomes = [retry, ack, retry, ack];
    const batch = [message(1, "a"), message(2, "a"), message(3, null), message(4, null)];
    const result = (limit: number | null) => settleRows(queue(limit), batch, { outcomes, error: null }, middle).map((row) => row.outcome);
    expect(result(1)).toEqual(["retry", "release", "retry", "ack"]);
    expect(result(5)).toEqual(["retry", "ack", "retry", "ack"]);
  });

  it("P11: the wait doubles with the attempts spent, within the queue's own bounds when it has some", () => {
    const delays = (settings: typeof ezghDefaults) =>
      [1, 2, 3, 7, 1100].map(
        (attempts) =>
          settleRows({ ...fifo, settings }, [message(1, null, attempts)], { outcomes: [retry], error: null }, middle)[0]?.delayMs,
      );
    expect(delays(ezghDefaults)).toEqual([1000, 2000, 4000, 60_000, 60_000]);
    expect(delays({ ...ezghDefaults, retryBackoffMinMs: 5_000, retryBackoffMaxMs: 12_000 })).toEqual([
      5000, 10_000, 12_000, 12_000, 12_000,
    ]);
  });

  it("P12: what the endpoint asks for wins over the schedule", () => {
    const rows = settleRows(fifo, [message(1, "a", 9)], { outcomes: [{ kind: "retry", delayMs: 7_000 }], error: "HTTP 429" }, middle);
    expect(rows).toEqual([{ queueNo: 7, seq: 1, receipt: 101, outcome: "retry", delayMs: 7_000, error: "HTTP 429" }]);
  });

  it("P13: only a timeout among the failures asks for less", () => {
    const slow = (of: "timeout" | "connection" | "refused" | "tls") => readFailure({ class: of, message: "x".repeat(300) }, 1);
    expect(slow("timeout").slowDown).toBe(true);
    expect([slow("connection").slowDown, slow("refused").slowDown, slow("tls").slowDown]).toEqual([false, false, false]);
    expect(slow("tls").error).toHaveLength(200);
  });
});
