/**
 * What somebody or the clock asks of runs: to cancel (W10), to try again, to end for having taken too long (W3). Each is one
 * transaction with the wake-up that makes the run notice.
 */
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { endRun, hasEnded } from "./run-end.ts";
import { lockRun, RUN, type RunRow, runOf } from "./run-rows.ts";
import { closeWaits } from "./wait.ts";
import { carryOut, type Effects, noEffects, wakeQueueOf, wakeUp } from "./wake.ts";

/** How many runs one transaction times out. */
const TIMED_OUT_AT_ONCE = 100;

const ended = (run: RunRow): Fault => new Fault("run_ended", `the run has ended: ${run.status}`);
const gone = (): Fault => new Fault("run_not_found", "there is no such run");

/** Whether the run has been handed to an executor at least once in this attempt. */
const begun = (run: RunRow): boolean => run.startedAt !== null;

/** Whether cancelling a run that has not ended changes anything: once it was told, only while its code does not fit. */
const canCancel = (run: RunRow): boolean => run.cancelAt === null || run.reason !== null;

/**
 * Marks a locked run as cancelled; one that never began ends at once, and so does one that was told already and whose code could not
 * hear of it, for it does not fit: such a run has nobody who could clean up. Answers the run as it is now.
 */
async function cancel(tx: Tx, run: RunRow, effects: Effects): Promise<RunRow> {
  if (!canCancel(run)) return run;
  if (run.cancelAt !== null) return endRun(tx, run, { status: "cancelled", error: run.reason }, effects);
  if (!begun(run)) return endRun(tx, { ...run, cancelAt: tx.now }, { status: "cancelled" }, effects);
  await tx.query("UPDATE run SET cancel_at = :now, reason = NULL WHERE no = :no", { no: run.no, now: tx.now });
  await closeWaits(tx, run.no);
  const steps = await tx.query<{ timer_seq: number | null }>(
    `UPDATE step SET status = 'cancelled', ended_at = :now WHERE run_no = :no AND status = 'pending' RETURNING timer_seq`,
    { no: run.no, now: tx.now },
  );
  const queueNo = await wakeQueueOf(tx, run.appNo, effects);
  if (queueNo !== null) {
    for (const { timer_seq: seq } of steps) if (seq !== null) effects.removals.push({ queueNo, seq, runId: run.id });
    effects.sends.push(wakeUp(queueNo, run.id, "cancelled"));
  }
  return { ...run, cancelAt: tx.now, reason: null };
}

/** Lets a locked run go on: one that has ended as its next attempt with its completed steps, a blocked one as it stands. */
async function again(tx: Tx, run: RunRow, effects: Effects): Promise<RunRow> {
  const queueNo = await wakeQueueOf(tx, run.appNo, effects);
  if (queueNo === null) throw new Fault("app_not_found", "the run's app was deleted");
  effects.sends.push(wakeUp(queueNo, run.id, "retried"));
  if (!hasEnded(run)) {
    await tx.query("UPDATE run SET reason = NULL, status = 'queued' WHERE no = :no", { no: run.no });
    return { ...run, reason: null, status: "queued" };
  }
  await tx.query("DELETE FROM step WHERE run_no = :no AND status <> 'completed'", { no: run.no });
  const [row] = await tx.query(
    `UPDATE run SET status = 'queued', reason = NULL, attempt = attempt + 1, cancel_at = NULL, error = NULL, output = NULL,
       started_at = NULL, ended_at = NULL, timeout_at = :now + timeout_ms,
       steps = (SELECT count(*) FROM step s WHERE s.run_no = run.no),
       journal_bytes = (SELECT coalesce(sum(length(s.result)), 0) FROM step s WHERE s.run_no = run.no)
     WHERE no = :no RETURNING ${RUN}`,
    { no: run.no, now: tx.now },
  );
  if (row === undefined) throw gone();
  return runOf(row);
}

/** Whether a run can be retried: it has ended, or it is blocked. */
const isStuck = (run: RunRow): boolean => hasEnded(run) || run.reason !== null;

/** Every cold verb that steers runs. */
export const runControlVerbs = {
  /** Asks a run to end (W10); asked again it changes nothing, unless the run is blocked. Throws `run_not_found` and `run_ended`. */
  async cancelRun(tx: Tx, no: number): Promise<RunRow> {
    const run = await lockRun(tx, no);
    if (run === null) throw gone();
    if (hasEnded(run)) throw ended(run);
    const effects = noEffects();
    const cancelled = await cancel(tx, run, effects);
    await carryOut(tx, effects);
    return cancelled;
  },

  /** Retries a run that has ended or is blocked. Throws `run_not_found` and, while it goes on by itself, `run_not_ended`. */
  async retryRun(tx: Tx, no: number): Promise<RunRow> {
    const run = await lockRun(tx, no);
    if (run === null) throw gone();
    if (!isStuck(run)) throw new Fault("run_not_ended", "the run has not ended");
    const effects = noEffects();
    const next = await again(tx, run, effects);
    await carryOut(tx, effects);
    return next;
  },

  /** Cancels or retries those of several runs that it can; answers their ids. */
  async steerRuns(tx: Tx, verb: "cancel" | "retry", nos: readonly number[]): Promise<string[]> {
    const effects = noEffects();
    const done: string[] = [];
    // Runs are locked in one order everywhere.
    for (const no of [...new Set(nos)].sort((a, b) => a - b)) {
      const run = await lockRun(tx, no);
      if (run === null || (verb === "cancel" ? hasEnded(run) || !canCancel(run) : !isStuck(run))) continue;
      await (verb === "cancel" ? cancel(tx, run, effects) : again(tx, run, effects));
      done.push(run.id);
    }
    await carryOut(tx, effects);
    return done;
  },

  /** Ends runs whose time is over; answers whether there may be more, and in how many milliseconds the next one is. */
  async timeOutRuns(tx: Tx): Promise<{ more: boolean; nextInMs: number | null }> {
    const due = await tx.query<{ no: number }>(
      "SELECT no FROM run WHERE ended_at IS NULL AND timeout_at <= :now ORDER BY timeout_at LIMIT :limit",
      { now: tx.now, limit: TIMED_OUT_AT_ONCE },
    );
    const effects = noEffects();
    for (const { no } of [...due].sort((a, b) => a.no - b.no)) {
      const run = await lockRun(tx, no);
      if (run === null || hasEnded(run) || run.timeoutAt > tx.now) continue;
      const message = `the run took longer than ${Math.round(run.timeoutMs / 1000)} s`;
      await endRun(tx, run, { status: "timedOut", error: { code: "timeout", name: "TimeoutError", message } }, effects);
    }
    await carryOut(tx, effects);
    const [next] = await tx.query("SELECT min(timeout_at) AS at FROM run WHERE ended_at IS NULL");
    const at = next?.at == null ? null : Number(next.at);
    return { more: due.length === TIMED_OUT_AT_ONCE, nextInMs: at === null ? null : Math.max(0, at - tx.now) };
  },
};
