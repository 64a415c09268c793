/**
 * Reading a run's journal: its steps in the order in which they were first recorded, in pages of bounded size, for a journal may have
 * 64 MiB. A page's bounds are its steps' positions.
 */
import type { Row, Tx } from "../db/db.ts";
import { STEP, type StepRow, stepOf } from "./run-rows.ts";

/** A page; `next` is the position after which the following one begins, `null` at the end. */
export interface JournalRows {
  steps: StepRow[];
  next: number | null;
}

/** Steps of a run after a position, of about `bytes` together and one at least. `-1` begins at the beginning. */
export async function readJournal(tx: Tx, runNo: number, after: number, bytes: number): Promise<JournalRows> {
  const sizes = await tx.query<{ position: number; size: number }>(
    `SELECT position, coalesce(length(result), 0) + coalesce(octet_length(error), 0) + 200 AS size FROM step
     WHERE run_no = :runNo AND position > :after ORDER BY position`,
    { runNo, after },
  );
  let sum = 0;
  let upto = sizes.length;
  for (const [i, { size }] of sizes.entries()) {
    sum += Number(size);
    if (sum <= bytes || i === 0) continue;
    upto = i;
    break;
  }
  const last = sizes[upto - 1];
  if (last === undefined) return { steps: [], next: null };
  const rows = await tx.query<Row>(
    `SELECT ${STEP} FROM step WHERE run_no = :runNo AND position > :after AND position <= :upto ORDER BY position`,
    { runNo, after, upto: last.position },
  );
  return { steps: rows.map(stepOf), next: upto < sizes.length ? Number(last.position) : null };
}
