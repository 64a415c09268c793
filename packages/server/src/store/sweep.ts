/**
 * Sweeps: what time alone decides. Each call does a bounded part in one transaction and answers how much, so that the caller goes on
 * while it gets what it asked for. Indexes lead to the due rows: a backlog costs nothing.
 */
import type { Tx } from "../db/db.ts";
import { bury, type Ended, placesOf } from "./bury.ts";
import { type Grouped, groupsOf, lockHeads, lockQueues, promote } from "./group.ts";
import { readQueues } from "./queue-memory.ts";
import type { Settled } from "./settle.ts";
import { count, type Tally, writeTally } from "./tally.ts";
import type { SettleResult } from "./types.ts";

interface Due extends Grouped {
  seq: number;
}
/** What the deleting statements answer. */
export interface Deleted extends Settled {
  dead_at: number | null;
  line_at: number | null;
  held_key: string | null;
}

/** The error of a message whose last attempt was never answered. */
const LAPSED = "the lease of the last attempt ended without an answer";

/** Dead-letters up to `limit` messages whose last attempt lapsed (Q13); deletes those whose retention has ended too (Q8). */
export async function sweepLapsed(tx: Tx, limit: number): Promise<number> {
  const due = await tx.each<Due & { receipt: number }>("sweep.lapsed", [[limit]]);
  if (due.length === 0) return 0;
  const queues = await readQueues(
    tx,
    due.map((row) => row.queue_no),
  );
  const locks = due.flatMap((row) => {
    const queue = queues.get(row.queue_no);
    const target = queue && placesOf(queue, queues).target;
    if (row.group_key === null && target?.limit !== null) return [];
    return target === undefined ? [row.queue_no] : [row.queue_no, target.no];
  });
  lockQueues(tx, locks);
  lockHeads(tx, groupsOf(due));
  const tally: Tally = new Map();
  const touched: Grouped[] = [];
  let done = 0;
  const answered = new Set<number>();
  const answer = (seq: number, _result: SettleResult) => {
    answered.add(seq);
    done++;
  };
  const rows = due.sort((a, b) => a.seq - b.seq);
  for (const x of await tx.each<Settled>(
    "settle.expire",
    rows.map((r) => [r.seq, r.queue_no, r.receipt, 1]),
  )) {
    answer(x.seq, { result: "expired" });
    count(tally, x.queue_no, { live: -1, bytes: -x.bytes, expired: 1 });
    touched.push(x);
  }
  const ended = rows
    .filter((row) => !answered.has(row.seq))
    .map((row): Ended => ({ queueNo: row.queue_no, seq: row.seq, receipt: row.receipt, lapse: true, error: LAPSED, againAt: tx.now }));
  const joined = await bury(tx, ended, queues, tally, touched, answer);
  await promote(tx, groupsOf([...touched, ...joined]), queues);
  writeTally(tx, tally);
  return done;
}

/** Deletes up to `limit` messages whose retention has ended (Q18), except what is leased: that may still be acknowledged (Q8). */
export async function sweepExpired(tx: Tx, limit: number): Promise<number> {
  const due = await tx.each<Due>("sweep.expired", [[limit]]);
  const gone = await remove(tx, due, "sweep.delete", (row) => [row.seq], "expired");
  return gone.length;
}

/** Deletes messages that a statement confirms, counts them, and lets their groups go on. Answers what was deleted. */
export async function remove(
  tx: Tx,
  due: readonly Due[],
  statement: "sweep.delete" | "message.delete",
  rowOf: (row: Due) => number[],
  as: "expired" | null,
): Promise<Deleted[]> {
  if (due.length === 0) return [];
  const queues = await readQueues(
    tx,
    due.map((row) => row.queue_no),
  );
  const inGroups = due.filter((row) => row.group_key !== null);
  lockQueues(
    tx,
    inGroups.map((row) => row.queue_no),
  );
  lockHeads(tx, groupsOf(inGroups));
  const tally: Tally = new Map();
  const rows = [...due].sort((a, b) => a.seq - b.seq).map(rowOf);
  const gone = await tx.each<Deleted>(statement, rows);
  for (const x of gone)
    count(tally, x.queue_no, { [x.dead_at === null ? "live" : "dead"]: -1, bytes: -x.bytes, ...(as === null ? {} : { [as]: 1 }) });
  // Only who stood in line or was handed out kept others waiting.
  const kept = gone.filter((x) => x.dead_at === null && (x.line_at !== null || x.held_key !== null));
  await promote(tx, groupsOf(kept), queues);
  writeTally(tx, tally);
  return gone;
}

/** Forgets up to `limit` deduplication ids whose window has ended (Q11). */
export async function sweepDedup(tx: Tx, limit: number): Promise<number> {
  const due = await tx.each<{ queue_no: number; key: string }>("sweep.dedup", [[limit]]);
  const gone = await tx.each(
    "dedup.delete",
    due.map((row) => [row.queue_no, row.key]),
  );
  return gone.length;
}

/** The sweeps by name. */
export const sweepVerbs = { sweepLapsed, sweepExpired, sweepDedup };
