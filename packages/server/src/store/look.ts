/** What executions ask while they are carried out: whether they are still their runs', and what happened to these meanwhile (W10). */
import type { Tx } from "../db/db.ts";
import { inList } from "./in-list.ts";
import type { Handout } from "./report.ts";

/** What an execution is told that asks: whether its run is to be cancelled, and which steps others ended that its code does not know of. */
export interface Look {
  cancelled: boolean;
  ended: string[];
}

/** How many ended steps one look tells of. */
const TOLD_AT_ONCE = 100;

/** Looks at executions for those who carry them out; `null`: the run is not theirs any more. */
async function lookAtExecutions(tx: Tx, fences: readonly Handout[]): Promise<(Look | null)[]> {
  const list = inList(
    "no",
    fences.map(({ runNo }) => runNo),
  );
  const rows = await tx.query(
    `SELECT no, id, cancel_at, ended_at, execution_seq, execution_receipt FROM run WHERE no IN (${list.text})`,
    list.params,
  );
  const byNo = new Map(rows.map((row) => [Number(row.no), row]));
  const mine = fences.filter(({ runNo, seq, receipt }) => {
    const row = byNo.get(runNo);
    return row !== undefined && row.ended_at === null && Number(row.execution_seq) === seq && Number(row.execution_receipt) === receipt;
  });
  // Whoever ended a step has sent a wake-up, which stands behind the one that is being carried out.
  const others = await tx.each<{ group_key: string }>(
    "wake.others",
    mine.map(({ queueNo, runNo, seq }) => [queueNo, String(byNo.get(runNo)?.id), seq]),
  );
  const woken = new Set(others.map(({ group_key: id }) => id));
  const ended = await endedSteps(
    tx,
    mine.map(({ runNo }) => runNo).filter((no) => woken.has(String(byNo.get(no)?.id))),
  );
  const looks = new Map(
    mine.map((fence): [Handout, Look] => {
      const steps = ended.get(fence.runNo) ?? [];
      return [fence, { cancelled: byNo.get(fence.runNo)?.cancel_at !== null, ended: steps.slice(0, TOLD_AT_ONCE) }];
    }),
  );
  return fences.map((fence) => looks.get(fence) ?? null);
}

/** The steps of runs that others ended and that no execution was shown, in the order of their ends. */
async function endedSteps(tx: Tx, runNos: readonly number[]): Promise<Map<number, string[]>> {
  const ended = new Map<number, string[]>();
  if (runNos.length === 0) return ended;
  const list = inList("no", runNos);
  const rows = await tx.query<{ run_no: number; id: string }>(
    `SELECT run_no, id FROM step WHERE run_no IN (${list.text}) AND ended_order IS NULL AND status NOT IN ('pending', 'retrying')
     ORDER BY run_no, ended_at, position`,
    list.params,
  );
  for (const { run_no: no, id } of rows) ended.set(Number(no), [...(ended.get(Number(no)) ?? []), id]);
  return ended;
}

/** Cold verbs: looks at executions. */
export const lookVerbs = { lookAtExecutions };
