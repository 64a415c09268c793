/**
 * Exact counts of each queue, kept in the transaction that changes them. A queue has one row per slot; only their sum means anything,
 * so that writers at the same time don't wait for each other.
 */
import type { Tx } from "../db/db.ts";

/** What a transaction adds to a queue's counts: messages alive and dead, their bytes, and what happened to messages. */
export interface TallyChange {
  live?: number;
  dead?: number;
  bytes?: number;
  sent?: number;
  acked?: number;
  failed?: number;
  buried?: number;
  expired?: number;
}

/** The changes of one transaction by queue. */
export type Tally = Map<number, Required<TallyChange>>;

/** Adds to what the transaction changes of a queue. */
export function count(tally: Tally, queueNo: number, change: TallyChange): void {
  let sum = tally.get(queueNo);
  if (sum === undefined) {
    sum = { live: 0, dead: 0, bytes: 0, sent: 0, acked: 0, failed: 0, buried: 0, expired: 0 };
    tally.set(queueNo, sum);
  }
  for (const name in change) sum[name as keyof TallyChange] += change[name as keyof TallyChange] ?? 0;
}

/** Writes the changes, lowest queue first so that two writers never wait in a circle. Comes last in a transaction. */
export function writeTally(tx: Tx, tally: Tally): void {
  const rows = [...tally].sort(([a], [b]) => a - b);
  tx.post(
    "tally.add",
    rows.map(([no, c]) => [no, tx.slot, c.live, c.dead, c.bytes, c.sent, c.acked, c.failed, c.buried, c.expired]),
  );
}
