/**
 * The end of a run (W3, W17), as one change with all that it entails: open waits close, the step of a waiting parent ends, the result
 * message is written. What has ended stays as it is until somebody retries it.
 */
import { protocolLimits, type RunError } from "@millrace/contract/wire";
import type { Tx } from "../db/db.ts";
import { resultOf } from "./run-result.ts";
import { type EndStatus, lockRun, type RunRow } from "./run-rows.ts";
import { writeRuns } from "./run-writes.ts";
import { closeWaits } from "./wait.ts";
import { type Effects, freePlace, wakeQueueOf, wakeUp } from "./wake.ts";

/** How a run ends. `output` is JSON bytes, of a completed run alone. */
export interface RunEnd {
  status: EndStatus;
  output?: Uint8Array | null;
  error?: RunError | null;
}

/** Whether a run has ended. */
export const hasEnded = (run: RunRow): boolean => run.endedAt !== null;

/** Ends what a run still waits for. */
async function endWaiting(tx: Tx, run: RunRow, effects: Effects): Promise<void> {
  const { no } = run;
  await closeWaits(tx, no);
  const left = await tx.query<{ timer_seq: number | null }>(
    `UPDATE step SET status = 'cancelled', ended_at = :now WHERE run_no = :no AND status IN ('pending', 'retrying') RETURNING timer_seq`,
    { no, now: tx.now },
  );
  if (left.every(({ timer_seq: seq }) => seq === null)) return;
  const queueNo = await wakeQueueOf(tx, run.appNo, effects);
  if (queueNo !== null) for (const { timer_seq: seq } of left) if (seq !== null) effects.removals.push({ queueNo, seq, runId: run.id });
}

/**
 * Ends a locked run that has not ended, and adds to `effects` what follows from it. Answers the run as it is now. `waiting`: it may wait
 * for something.
 */
export async function endRun(tx: Tx, run: RunRow, end: RunEnd, effects: Effects, waiting = true): Promise<RunRow> {
  const { status, output = null, error = null } = end;
  if (waiting) {
    writeRuns(tx, effects.writes);
    await endWaiting(tx, run, effects);
  }
  const told = error === null ? null : JSON.stringify(error);
  effects.writes.ended.push([run.no, status, told, Number(output !== null), output ?? new Uint8Array()]);
  freePlace(effects, run);
  const ended: RunRow = { ...run, status, reason: null, error, endedAt: tx.now };
  await tellParent(tx, ended, output, effects);
  const result = await resultOf(tx, ended, output, effects.memory);
  if (result !== null) effects.results.push(result);
  return ended;
}

/** What the end of a run is to the step that waits for it: `null` when it completed. */
function errorFor(run: RunRow, outputBytes: number): RunError | null {
  const bound = protocolLimits.payloadBytes;
  const message = `the output of run ${run.id} has ${outputBytes} bytes, a step takes ${bound.toLocaleString("en")}`;
  if (outputBytes > bound) return { code: "limit_exceeded", name: "LimitExceeded", message };
  if (run.status === "completed") return null;
  const error = run.error ?? { code: run.status, name: "RunEnded", message: `run ${run.id} ended ${run.status}` };
  // Whatever its code threw on the cancellation, the parent can tell it from a failure.
  return run.status === "cancelled" ? { ...error, code: "cancelled" } : error;
}

/** Ends the step of the parent that waits for this run, which has ended or is about to be removed, and wakes it. */
export async function tellParent(tx: Tx, run: RunRow, output: Uint8Array | null, effects: Effects): Promise<void> {
  if (run.parent === null) return;
  const parent = await lockRun(tx, run.parent.no);
  if (parent === null || hasEnded(parent)) return;
  const error = errorFor(run, output?.length ?? 0);
  const result = error === null ? output : null;
  const [step] = await tx.query(
    `UPDATE step SET status = :status, result = :result, error = :error, ended_at = :now
     WHERE run_no = :no AND id = :id AND status = 'pending' AND child_id = :child RETURNING id`,
    {
      no: parent.no,
      id: run.parent.stepId,
      child: run.id,
      status: error === null ? "completed" : "failed",
      result,
      error: error === null ? null : JSON.stringify(error),
      now: tx.now,
    },
  );
  if (step === undefined) return;
  await tx.query("UPDATE run SET journal_bytes = journal_bytes + :bytes WHERE no = :no", { no: parent.no, bytes: result?.length ?? 0 });
  const queueNo = await wakeQueueOf(tx, parent.appNo, effects);
  if (queueNo !== null) effects.sends.push(wakeUp(queueNo, parent.id, "child"));
}
