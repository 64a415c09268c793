/**
 * Cold verbs of run results whose queue is on another database (W17): they are kept in the transaction that ends the run, sent there by
 * whoever does that duty, under a key that sends them once, and taken from here afterwards.
 */
import type { Tx } from "../db/db.ts";
import { dropResult, type KeptResult, nextDueAt, pauseAfter, takeDue } from "./run-result.ts";

/** Every cold verb of placed results. */
export const placedResultVerbs = {
  /**
   * Up to `limit` results that are due, of each group the earliest, and in how many milliseconds more are. Each is due again after a
   * pause, unless it is closed. Those that were tried for 24 hours are dropped.
   */
  async duePlacedResults(tx: Tx, limit: number): Promise<{ results: KeptResult[]; nextInMs: number | null }> {
    const results: KeptResult[] = [];
    for (const row of await takeDue(tx, "elsewhere", limit)) {
      if (row.until <= tx.now) await placedResultVerbs.closePlacedResult(tx, row.no, row.appNo);
      else {
        await tx.query("UPDATE run_result SET next_at = :nextAt WHERE no = :no", { no: row.no, nextAt: tx.now + pauseAfter(row.tries) });
        results.push(row);
      }
    }
    const at = await nextDueAt(tx, "elsewhere");
    return { results, nextInMs: at === null ? null : Math.max(0, at - tx.now) };
  },

  /** Takes a result away: it was sent, or (`unsentOf` the app) its queue is gone, which is counted. */
  async closePlacedResult(tx: Tx, no: number, unsentOf: number | null): Promise<null> {
    const gone = await tx.query("DELETE FROM run_result WHERE no = :no RETURNING no", { no });
    if (gone.length > 0 && unsentOf !== null) await dropResult(tx, unsentOf);
    return null;
  },
};
