/**
 * Waits for a message (W14): open ones by queue and key. Whoever deletes a wait's row ends the wait: a message, its timeout, a
 * cancellation or the run's end, exactly one of them. Locks are taken in one order everywhere: wait keys, runs by number, waits and
 * steps, queues. The lock of a key keeps a wait from opening unseen by a message that is being kept for it (W15).
 */
import { createHash } from "node:crypto";
import type { Tx } from "../db/db.ts";

/** What a wait waits for. */
export interface WaitKey {
  appNo: number;
  queueNo: number;
  key: string;
}

const lockNo = ({ appNo, queueNo, key }: WaitKey): number =>
  createHash("sha256").update(`${appNo} ${queueNo} ${key}`).digest().readInt32BE();

/** Locks keys until the transaction ends, before whatever is asked next and any run. Nothing on SQLite, which has one writer. */
export function lockWaitKeys(tx: Tx, keys: readonly WaitKey[]): void {
  tx.post(
    "lock.waits",
    [...new Set(keys.map(lockNo))].map((no) => [no]),
  );
}

/**
 * Opens a wait, or takes the earliest message kept within `lookbackMs` (W15) and answers its JSON bytes: then nothing is opened. Its
 * key and its run are locked.
 */
export async function openWait(tx: Tx, wait: WaitKey & { runNo: number; stepId: string; lookbackMs: number }): Promise<Uint8Array | null> {
  const { appNo, queueNo, key, runNo, stepId, lookbackMs } = wait;
  if (lookbackMs > 0) {
    const [kept] = await tx.query<{ no: number; message: Uint8Array }>(
      `SELECT no, message FROM kept_message WHERE app_no = :appNo AND queue_no = :queueNo AND key = :key AND kept_at >= :since
         AND until > :now ORDER BY no LIMIT 1`,
      { appNo, queueNo, key, since: tx.now - lookbackMs, now: tx.now },
    );
    if (kept !== undefined) {
      await tx.query("DELETE FROM kept_message WHERE no = :no", { no: kept.no });
      return kept.message;
    }
  }
  const [no] = await tx.sequence(1);
  await tx.query(
    `INSERT INTO wait (no, app_no, queue_no, key, run_no, step_id, created_at)
     VALUES (:no, :appNo, :queueNo, :key, :runNo, :stepId, :now)`,
    { no: no as number, appNo, queueNo, key, runNo, stepId, now: tx.now },
  );
  return null;
}

/** Closes the waits of a run, or of one step of it; answers how many were open. The run is locked. */
export async function closeWaits(tx: Tx, runNo: number, stepId?: string): Promise<number> {
  const rows = await tx.query(
    `DELETE FROM wait WHERE run_no = :runNo${stepId === undefined ? "" : " AND step_id = :stepId"} RETURNING no`,
    stepId === undefined ? { runNo } : { runNo, stepId },
  );
  return rows.length;
}

/** How many kept messages one call removes. */
const EXPIRED_AT_ONCE = 500;

/** Removes kept messages that no run took in time and counts them with their app; answers whether there may be more. */
async function expireKept(tx: Tx): Promise<boolean> {
  const rows = await tx.query<{ app_no: number }>(
    "DELETE FROM kept_message WHERE no IN (SELECT no FROM kept_message WHERE until <= :now ORDER BY until LIMIT :limit) RETURNING app_no",
    { now: tx.now, limit: EXPIRED_AT_ONCE },
  );
  const unclaimed = new Map<number, number>();
  for (const { app_no: no } of rows) unclaimed.set(no, (unclaimed.get(no) ?? 0) + 1);
  for (const [no, n] of [...unclaimed].sort(([a], [b]) => a - b))
    await tx.query("UPDATE app SET unclaimed = unclaimed + :n WHERE no = :no", { no, n });
  await tx.query("DELETE FROM resuming WHERE until <= :now", { now: tx.now });
  return rows.length === EXPIRED_AT_ONCE;
}

/** Cold verbs: kept messages. */
export const waitVerbs = { expireKept };
