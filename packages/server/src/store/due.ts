/** Sleeps, waits and pauses of runs whose time is over: found and ended when the code can be told, as an execution begins or asks. */
import type { Tx } from "../db/db.ts";
import { inList } from "./in-list.ts";
import { STEP, type StepRow, stepOf } from "./run-rows.ts";
import type { Effects } from "./wake.ts";

/** The steps of runs whose sleep, wait or pause is over. */
async function dueSteps(tx: Tx, runNos: readonly number[]): Promise<StepRow[]> {
  const list = inList("no", runNos);
  const rows = await tx.query(
    `SELECT ${STEP} FROM step WHERE run_no IN (${list.text}) AND status IN ('pending', 'retrying') AND due_at <= :now
       AND (status = 'pending' OR timer_seq IS NOT NULL) ORDER BY run_no, due_at, position`,
    { ...list.params, now: tx.now },
  );
  return rows.map(stepOf);
}

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

/** As `dueSteps`, by run. */
export async function dueByRun(tx: Tx, runNos: readonly number[]): Promise<Map<number, StepRow[]>> {
  const byRun = new Map<number, StepRow[]>();
  if (runNos.length === 0) return byRun;
  for (const step of await dueSteps(tx, runNos)) {
    const list = byRun.get(step.runNo);
    if (list === undefined) byRun.set(step.runNo, [step]);
    else list.push(step);
  }
  return byRun;
}
