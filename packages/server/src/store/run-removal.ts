/**
 * The removal of runs that are over: those that ended long ago, and those of deleted apps, whose end it is. Bit by bit, so that no
 * transaction is long. Invariant: nobody waits for a run that is not there any more.
 */
import type { Tx } from "../db/db.ts";
import { holdRuns } from "./execution.ts";
import { inList } from "./in-list.ts";
import { hasEnded, tellParent } from "./run-end.ts";
import { RUN, type RunRow, runOf } from "./run-rows.ts";
import { carryOut, noEffects } from "./wake.ts";

/** How long a run that ended is kept. */
const KEPT_MS = 30 * 86_400_000;
/** How many runs one transaction removes. */
const REMOVED_AT_ONCE = 200;

/** Removes runs with all that belongs to them: what is still being recorded of one is waited for, and what comes later finds no run. */
async function remove(tx: Tx, nos: readonly number[]): Promise<void> {
  await holdRuns(tx, nos);
  const list = inList("no", nos);
  for (const [table, column] of [
    ["step", "run_no"],
    ["wait", "run_no"],
    ["run", "no"],
  ] as const)
    await tx.query(`DELETE FROM ${table} WHERE ${column} IN (${list.text})`, list.params);
}

/** Removes runs of a deleted app; answers how many. Runs of other apps that wait for one of them learn that it never ends by itself. */
async function removeOf(tx: Tx, appNo: number): Promise<number> {
  const rows = await tx.query(`SELECT ${RUN} FROM run WHERE app_no = :appNo ORDER BY no LIMIT :limit`, { appNo, limit: REMOVED_AT_ONCE });
  const runs = rows.map(runOf);
  if (runs.length === 0) return 0;
  const effects = noEffects();
  const awaited = runs.filter((run): run is RunRow & { parent: object } => run.parent !== null && !hasEnded(run));
  for (const run of awaited.sort((a, b) => a.parent.no - b.parent.no)) {
    const error = { code: "app_not_found", name: "RunEnded", message: `run ${run.id} is over, for its app was deleted` };
    await tellParent(tx, { ...run, status: "failed", error }, null, effects);
  }
  await remove(
    tx,
    runs.map(({ no }) => no),
  );
  await carryOut(tx, effects);
  return runs.length;
}

/** Cold verbs: the removal of runs. */
export const runRemovalVerbs = {
  /** Removes runs that ended 30 days ago, and those of deleted apps, bit by bit; answers whether there may be more right now. */
  async removeRuns(tx: Tx): Promise<boolean> {
    const old = await tx.query<{ no: number }>(
      "SELECT no FROM run WHERE ended_at IS NOT NULL AND ended_at <= :until ORDER BY ended_at LIMIT :limit",
      { until: tx.now - KEPT_MS, limit: REMOVED_AT_ONCE },
    );
    if (old.length > 0) {
      await remove(
        tx,
        old.map(({ no }) => no),
      );
      return true;
    }
    const [removal] = await tx.query<{ app_no: number }>("SELECT app_no FROM app_removal ORDER BY app_no LIMIT 1");
    if (removal === undefined) return false;
    const { app_no: appNo } = removal;
    if ((await removeOf(tx, appNo)) === 0) await tx.query("DELETE FROM app_removal WHERE app_no = :appNo", { appNo });
    return true;
  },
};
