/**
 * Judging leases anew when a queue's limit of attempts changes (DLQ-07). Whether a lease is its message's last is written down when
 * it is handed out; with another limit in force it must say what that one says. Only what is in flight is read: a backlog costs nothing.
 */
import type { Tx } from "../db/db.ts";
import { groupsOf, lockHeads, lockQueues, promote } from "./group.ts";
import { type HotQueue, NEVER } from "./queue-memory.ts";

const UNLIMITED = 2 ** 31 - 1;

/** The leased rows of a queue, each by an index of its own: those outside of groups stand in line until their lease ends. */
const IN_FLIGHT = ["group_key IS NULL AND line_at > :now", "held_key IS NOT NULL"];

/** To be called in the transaction that changes the setting. `limit` is Q19's, `maxAttempts` the new one. */
export async function relimit(tx: Tx, queueNo: number, limit: number | null, maxAttempts: number | null): Promise<void> {
  lockQueues(tx, [queueNo]);
  const most = maxAttempts ?? UNLIMITED;
  const freed = await tx.query<{ group_key: string | null; due_at: number }>(
    `UPDATE message SET final_at = NULL, line_at = CASE WHEN group_key IS NULL THEN due_at ELSE line_at END,
       later_at = CASE WHEN later_at IS NULL THEN NULL ELSE due_at END
     WHERE queue_no = :queueNo AND final_at > :now AND attempts < :most RETURNING group_key, due_at`,
    { queueNo, now: tx.now, most },
  );
  for (const row of freed) tx.ready(queueNo, row.due_at);
  // Of a shared group nobody who is leased stands in line; in an ordered one the head does, until all leases of the group end.
  if (limit === 1) {
    const groups = groupsOf(freed.map((row) => ({ ...row, queue_no: queueNo })));
    lockHeads(tx, groups);
    await promote(tx, groups, new Map([[queueNo, { no: queueNo, limit } as HotQueue]]));
  }
  if (maxAttempts === null) return;
  for (const leased of IN_FLIGHT)
    await tx.query(
      `UPDATE message SET final_at = due_at, line_at = CASE WHEN line_at IS NULL THEN NULL ELSE ${NEVER} END,
         later_at = CASE WHEN later_at IS NULL THEN NULL ELSE ${NEVER} END
       WHERE queue_no = :queueNo AND ${leased} AND receipt IS NOT NULL AND due_at > :now AND final_at IS NULL AND attempts >= :most`,
      { queueNo, now: tx.now, most },
    );
}
