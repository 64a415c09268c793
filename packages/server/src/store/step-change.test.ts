import type { StepRecord, StepStatus } from "@millrace/contract/wire";
import { describe, expect, it } from "vitest";
import type { StepRow } from "./run-rows.ts";
import { decideStep } from "./step-change.ts";

const now = 1_000_000;
const at = { now, protocol: "1.2", cancelled: false };
const stored = (type: StepRow["type"], status: StepStatus, attempt = 1): StepRow => ({
  runNo: 1,
  id: "s",
  position: 0,
  type,
  status,
  attempt,
  dueAt: null,
  timerSeq: null,
  childId: null,
  startedAt: 0,
  endedAt: null,
  endedOrder: null,
  error: null,
  result: null,
});
const done: StepRecord = { type: "run", id: "s", status: "completed", attempt: 2, result: "1" };
const failure = { name: "E", message: "m" };

describe("what a record changes", () => {
  it.each(["completed", "failed", "cancelled"] as const)("W6: nothing of a step that is %s", (status) => {
    expect(decideStep(done, stored("run", status), at)).toEqual({ kind: "same" });
  });

  it("W8: another type under an id is a mismatch that names both", () => {
    const decision = decideStep({ type: "sleep", id: "s", status: "pending", forMs: 1 }, stored("run", "completed"), at);
    expect(decision).toMatchObject({ kind: "mismatch", message: expect.stringMatching(/"s".*run.*sleep/) });
  });

  it("WF-03: a sleep's end is fixed when it is first recorded", () => {
    const sleep: StepRecord = { type: "sleep", id: "s", status: "pending", forMs: 60_000 };
    expect(decideStep(sleep, undefined, at)).toMatchObject({ kind: "change", change: { status: "pending", dueAt: now + 60_000 } });
    expect(decideStep(sleep, stored("sleep", "pending"), { ...at, now: now + 30_000 })).toEqual({ kind: "same" });
    expect(decideStep({ ...sleep, forMs: undefined, until: now - 1 }, undefined, at)).toMatchObject({ change: { status: "completed" } });
  });

  it("W7: a failed try waits for its pause; told again it changes nothing, and the next try goes on", () => {
    const again: StepRecord = { type: "run", id: "s", status: "retrying", attempt: 2, error: failure, delayMs: 5_000 };
    expect(decideStep(again, stored("run", "retrying", 1), at)).toMatchObject({
      kind: "change",
      change: { isNew: false, status: "retrying", attempt: 2, dueAt: now + 5_000 },
    });
    expect(decideStep(again, stored("run", "retrying", 2), at)).toEqual({ kind: "same" });
  });

  it("W10: after a cancellation what would wait is cancelled, and what was carried out is kept", () => {
    const cancelled = { ...at, cancelled: true };
    expect(decideStep({ type: "sleep", id: "s", status: "pending", forMs: 1 }, undefined, cancelled)).toMatchObject({
      change: { status: "cancelled" },
    });
    expect(decideStep(done, undefined, cancelled)).toMatchObject({ change: { status: "completed" } });
  });

  it("W6: only from protocol 1.2 on may a step wait for a message", () => {
    const wait: StepRecord = { type: "wait", id: "s", status: "pending", queueId: "q", key: "k", timeoutMs: 1_000 };
    expect(decideStep(wait, undefined, { ...at, protocol: "1.1" })).toMatchObject({
      change: { status: "failed", error: { code: "protocol_unsupported" } },
    });
    expect(decideStep(wait, undefined, { ...at, protocol: "1.10" })).toMatchObject({ change: { status: "pending", dueAt: now + 1_000 } });
  });
});
