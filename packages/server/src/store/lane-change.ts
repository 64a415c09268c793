/**
 * How nodes hear of lanes that another one changed: every change leaves its queue's number and its instant, and nodes read what is newer
 * than what they have seen. A transaction may commit after one that began later, so they read a little further back each time.
 */
import type { Tx } from "../db/db.ts";

/** Changes this much older than the newest that was seen are read again, in milliseconds. */
const OVERLAP_MS = 10_000;
/** Older changes may be forgotten: to a node that was away for so long every queue has changed. */
const KEPT_MS = 3_600_000;
/** How many are forgotten by one transaction. */
const FORGOTTEN = 200;

/** To be called in the transaction that makes, changes or ends a lane, or what its queue sets for it. */
export async function laneChanged(tx: Tx, queueNo: number): Promise<void> {
  await tx.query(
    `INSERT INTO lane_change (queue_no, changed_at) VALUES (:queue, :now) ON CONFLICT (queue_no) DO UPDATE
       SET changed_at = CASE WHEN lane_change.changed_at >= excluded.changed_at THEN lane_change.changed_at + 1 ELSE excluded.changed_at END`,
    { queue: queueNo, now: tx.now },
  );
}

/** A changed lane's queue and when it changed. */
export interface LaneChange {
  queueNo: number;
  at: number;
}

/** The verbs by name. */
export const laneChangeVerbs = {
  /**
   * Changes since `since`, an instant of an earlier answer, and some before it once more; `null`: none, only where to go on from. Queues
   * that ended while a node was away for long are not among them: their lanes find nothing to claim.
   */
  async laneChanges(tx: Tx, since: number | null): Promise<{ at: number; changes: LaneChange[] }> {
    if (since === null) return { at: tx.now, changes: [] };
    if (since - OVERLAP_MS < tx.now - KEPT_MS) {
      const all = await tx.query<{ no: number }>("SELECT no FROM queue");
      return { at: tx.now, changes: all.map(({ no }) => ({ queueNo: no, at: tx.now })) };
    }
    const rows = await tx.query<{ queue_no: number; changed_at: number }>(
      "SELECT queue_no, changed_at FROM lane_change WHERE changed_at > :since",
      { since: since - OVERLAP_MS },
    );
    return { at: tx.now, changes: rows.map((row) => ({ queueNo: row.queue_no, at: row.changed_at })) };
  },

  /** Forgets old changes, one at a time, lowest queue first; answers whether there may be more. */
  async forgetLaneChanges(tx: Tx): Promise<boolean> {
    const before = tx.now - KEPT_MS;
    const old = await tx.query<{ queue_no: number }>(
      "SELECT queue_no FROM lane_change WHERE changed_at < :before ORDER BY queue_no LIMIT :rows",
      { before, rows: FORGOTTEN },
    );
    for (const { queue_no: no } of old)
      await tx.query("DELETE FROM lane_change WHERE queue_no = :no AND changed_at < :before", { no, before });
    return old.length === FORGOTTEN;
  },
};
