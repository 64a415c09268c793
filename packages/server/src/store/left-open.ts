/**
 * What a lane's former owner may still have open at the endpoint: leased messages, by how recently they were handed out. They lie in
 * three ranges of the line's indexes: leases of messages that stand for themselves or as heads, of those that stepped away, and last
 * attempts. Followers of an ordered group are in their head's request.
 */
import type { Tx } from "../db/db.ts";

/** How many leased messages are looked at: beyond that no lane may have requests anyway. */
const MOST = 1_000;

export interface LeftOpenAsk {
  queueNo: number;
  /** Messages of one request, at most. */
  batchSize: number;
  /** A request is over when its messages were handed out longer ago than this, in milliseconds. */
  openMs: number;
  /** The longest lease that the lane takes, in milliseconds: what stands in line beyond it is not leased but scheduled. */
  leaseMs: number;
  /** Counts only what was handed out before this instant; `null`: before now. */
  before: number | null;
}

/**
 * How many requests may be open, and the instant of the count. Messages that one claim handed out share a receipt and were laid out in as
 * few batches as hold them; a group's message may have had a request of its own.
 */
export async function leftOpen(
  tx: Tx,
  { queueNo, batchSize, openMs, leaseMs, before }: LeftOpenAsk,
): Promise<{ requests: number; at: number }> {
  const range = (index: string): string => `SELECT m.receipt AS receipt FROM message m WHERE ${index}
    AND m.dead_at IS NULL AND m.receipt IS NOT NULL AND m.delivered_at > :since AND m.delivered_at <= :before`;
  const mine = "m.queue_no = :queue AND";
  const rows = await tx.query<{ receipt: number; n: number }>(
    `SELECT x.receipt AS receipt, count(*) AS n FROM (SELECT y.receipt FROM (
       ${range(`${mine} m.line_at > :now AND m.line_at <= :latest`)}
       UNION ALL ${range(`${mine} m.later_at > :now AND m.later_at <= :latest`)}
       UNION ALL ${range(`${mine} m.final_at > :now AND m.final_at <= :latest`)}) AS y LIMIT ${MOST}) AS x GROUP BY x.receipt`,
    { queue: queueNo, now: tx.now, latest: tx.now + leaseMs, since: tx.now - openMs, before: before ?? tx.now },
  );
  const requests = rows.reduce((sum, { receipt, n }) => sum + (receipt % 2 === 1 ? Number(n) : Math.ceil(Number(n) / batchSize)), 0);
  return { requests, at: tx.now };
}
