/**
 * Idempotency keys (Q12): the key is stored in the transaction of its effect, so that neither is ever there without the other. A
 * second transaction with the key waits for the first on PostgreSQL and comes after it on SQLite.
 */
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import type { IdempotencyKey } from "./types.ts";

/** How long an answer is kept. */
export const IDEMPOTENCY_MS = 48 * 3_600_000;

/** What the first request under a key was answered; `null` when there was none. Throws `idempotency_conflict` for another request. */
export async function kept<Result>(tx: Tx, { scope, key, hash }: IdempotencyKey): Promise<{ result: Result } | null> {
  const [row] = await tx.query<{ hash: string; answer: string | null }>(
    "SELECT hash, answer FROM idempotency WHERE scope = :scope AND key = :key AND until > :now",
    { scope, key, now: tx.now },
  );
  if (row === undefined) return null;
  if (row.hash !== hash) throw new Fault("idempotency_conflict", "This Idempotency-Key came with another request before.");
  return { result: (row.answer === null ? undefined : JSON.parse(row.answer)) as Result };
}

/** Runs `effect` unless the key's answer is known. Throws `idempotency_conflict` for another request under the same key. */
export async function once<Result>(
  tx: Tx,
  { scope, key, hash }: IdempotencyKey,
  effect: () => Promise<Result>,
): Promise<{ result: Result; replayed: boolean }> {
  const params = { scope, key, hash, until: tx.now + IDEMPOTENCY_MS, now: tx.now };
  const own = await tx.query(
    `INSERT INTO idempotency (scope, key, hash, answer, until) VALUES (:scope, :key, :hash, NULL, :until)
     ON CONFLICT (scope, key) DO UPDATE SET hash = excluded.hash, answer = NULL, until = excluded.until WHERE idempotency.until <= :now
     RETURNING hash`,
    params,
  );
  if (own.length === 0) {
    const first = await kept<Result>(tx, { scope, key, hash });
    if (first === null) throw new Fault("idempotency_in_progress", "The first request with this Idempotency-Key is still running.");
    return { ...first, replayed: true };
  }
  const result = await effect();
  const answer = result === undefined ? null : JSON.stringify(result);
  await tx.query("UPDATE idempotency SET answer = :answer WHERE scope = :scope AND key = :key", { scope, key, answer });
  return { result, replayed: false };
}
