/**
 * Effects under a lease: a verb that does something for a message settles it in the same transaction. It asks first whether the lease
 * holds, and if it is over by the end all is undone: so a message has its effect once, and is gone with it.
 */
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { isElsewhere } from "./elsewhere.ts";
import type { SettleResult } from "./types.ts";

/** A message under a lease. */
export interface Held {
  queueNo: number;
  seq: number;
  receipt: number;
}

/** Which of these leases hold, by message number. Of one on another database that is seen when it is settled there. */
export async function heldOf(tx: Tx, rows: readonly Held[]): Promise<Set<number>> {
  const found = await tx.each<{ seq: number; queue_no: number; receipt: number }>(
    "message.held",
    rows.map(({ seq }) => [seq]),
  );
  const leases = new Map(found.map((row) => [row.seq, row]));
  const held = rows.filter(
    ({ seq, queueNo, receipt }) => isElsewhere(queueNo) || (leases.get(seq)?.queue_no === queueNo && leases.get(seq)?.receipt === receipt),
  );
  return new Set(held.map(({ seq }) => seq));
}

/** Throws `receipt_mismatch` unless every message was settled as asked: its lease ended while the transaction was under way. */
export function demandSettled(results: readonly SettleResult[]): void {
  if (results.some(({ result }) => result !== "acked" && result !== "extended"))
    throw new Fault("receipt_mismatch", "a message's lease ended meanwhile");
}
