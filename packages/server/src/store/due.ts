/** Sleeps, waits and pauses of runs whose time is over: found and ended when the code can be told, as an execution begins or asks. */
import type { Row, Tx } from "../db/db.ts";
import { type StepRow, stepOf } from "./run-rows.ts";
import type { Effects } from "./wake.ts";

/**
 * Ends sleeps and waits of a locked run whose time is over, and lets retries begin; takes their wake-ups back, but for the one by which the
 * run is executed: its code learns of it now.
 */
export async function endDue(
  tx: Tx,
  { queueNo, runId, heldSeq }: { queueNo: number; runId: string; heldSeq: number },
  due: readonly StepRow[],
  effects: Effects,
): Promise<void> {
  for (const step of due) {
    if (step.timerSeq !== null && step.timerSeq !== heldSeq) effects.removals.push({ queueNo, seq: step.timerSeq, runId });
    if (step.type === "wait")
      await tx.query("DELETE FROM wait WHERE run_no = :runNo AND step_id = :id", { runNo: step.runNo, id: step.id });
    const ends = step.status === "pending" ? "status = 'completed', ended_at = :now, result = :result, " : "";
    await tx.query(`UPDATE step SET ${ends}timer_seq = NULL WHERE run_no = :runNo AND id = :id`, {
      runNo: step.runNo,
      id: step.id,
      ...(ends === "" ? {} : { now: tx.now, result: step.type === "wait" ? new TextEncoder().encode("null") : null }),
    });
  }
}

/** The steps of runs whose sleep, wait or pause is over, by run, in the order in which it was over. */
export async function dueByRun(tx: Tx, runNos: readonly number[]): Promise<Map<number, StepRow[]>> {
  const byRun = new Map<number, StepRow[]>();
  for (const row of await tx.each<Row>(
    "step.due",
    runNos.map((no) => [no]),
  )) {
    const step = stepOf(row);
    const list = byRun.get(step.runNo);
    if (list === undefined) byRun.set(step.runNo, [step]);
    else list.push(step);
  }
  for (const steps of byRun.values()) steps.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0) || a.position - b.position);
  return byRun;
}
