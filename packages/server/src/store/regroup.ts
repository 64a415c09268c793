/**
 * Laying a queue's line anew when `groups.concurrency` changes (Q19): what a group means decides who stands in line and who is away.
 * One transaction over the whole queue, since claims by the old rule and by the new one must not mix.
 */
import type { Tx } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";
import { lockQueues, promote } from "./group.ts";
import { type HotQueue, NEVER } from "./queue-memory.ts";

const CHUNK = 1000;

/** To be called in the transaction that changes the setting, after the change. `limit` is the new one: 1, 2 to 1,000 or `null`. */
export async function regroup(tx: Tx, queueNo: number, limit: number | null): Promise<void> {
  lockQueues(tx, [queueNo]);
  const params = { queueNo, now: tx.now, common: Number(limit === null), shared: Number(limit !== 1) };
  await tx.query(
    `UPDATE message SET group_key = CASE WHEN :common = 1 THEN coalesce(group_key, '') ELSE nullif(group_key, '') END
     WHERE queue_no = :queueNo AND ${ANY_QUEUE}`,
    { queueNo, common: params.common },
  );
  await tx.query(
    `UPDATE message SET
       line_at = CASE WHEN group_key IS NOT NULL THEN NULL WHEN final_at IS NULL THEN due_at ELSE ${NEVER} END,
       later_at = CASE WHEN group_key IS NULL THEN NULL WHEN :shared = 1 AND final_at IS NOT NULL THEN ${NEVER}
         WHEN due_at > :now AND (:shared = 1 OR receives = 0) THEN due_at END,
       held_key = CASE WHEN :shared = 1 AND (receipt IS NULL OR due_at <= :now) THEN NULL WHEN receives > 0 THEN group_key END
     WHERE queue_no = :queueNo AND ${ANY_QUEUE} AND dead_at IS NULL`,
    { queueNo, now: params.now, shared: params.shared },
  );
  const groups = await tx.query<{ group_key: string }>(
    `SELECT DISTINCT group_key FROM message WHERE queue_no = :queueNo AND group_key IS NOT NULL AND dead_at IS NULL AND later_at IS NULL`,
    { queueNo },
  );
  const queues = new Map([[queueNo, { no: queueNo, limit } as HotQueue]]);
  for (let from = 0; from < groups.length; from += CHUNK)
    await promote(
      tx,
      groups.slice(from, from + CHUNK).map((row): [number, string] => [queueNo, row.group_key]),
      queues,
    );
  tx.ready(queueNo, tx.now);
}
