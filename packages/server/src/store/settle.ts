/**
 * Settling: what happens to leased messages, conditional on their receipts (Q8). Rows that no statement answers are told apart
 * afterwards: the receipt is not the current one, or the message is gone. A lease past the message's retention can still be
 * acknowledged; if it fails instead, the message is deleted and counted as expired.
 */
import type { Tx } from "../db/db.ts";
import { bury, type Ended, placesOf } from "./bury.ts";
import { type Grouped, groupsOf, promote, shared } from "./group.ts";
import type { HotQueue } from "./queue-memory.ts";
import { count, type Tally } from "./tally.ts";
import type { SettleResult, SettleRow } from "./types.ts";

/** `expire` is the store's own outcome, for what a claim leased and found expired. */
export type HotSettle = Omit<SettleRow, "outcome"> & { outcome: SettleRow["outcome"] | "expire" };

/** A statement's answer about one message. */
export interface Settled extends Grouped {
  seq: number;
  bytes: number;
}

/** A receipt says by its last bit whether the message stands in a group. */
const grouped = (row: HotSettle) => row.receipt % 2 === 1;

/** The queues that must be locked before `settle`: those whose groups' heads may move. */
export function queuesToLock(rows: readonly HotSettle[], queues: ReadonlyMap<number, HotQueue>): number[] {
  const nos: number[] = [];
  for (const row of rows) {
    const queue = queues.get(row.queueNo);
    if (queue === undefined) continue;
    if (grouped(row) && queue.limit !== null) nos.push(row.queueNo);
    if (row.outcome === "dead" || row.outcome === "retry") {
      const target = placesOf(queue, queues).target;
      if (target !== undefined && (grouped(row) || target.limit === null)) nos.push(target.no);
    }
  }
  return nos;
}

/** Settles every row and answers in order. The queues of `queuesToLock` are locked. */
export async function settle(
  tx: Tx,
  rows: readonly HotSettle[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
): Promise<SettleResult[]> {
  const inGroups = rows.filter((row) => grouped(row) && queues.get(row.queueNo)?.limit === 1).map((row) => row.seq);
  tx.post(
    "lock.groups",
    inGroups.map((seq) => [seq]),
  );
  // Two settlers with the same receipts and several statements each must take the rows in one order.
  if (rows.some((row) => row.outcome !== rows[0]?.outcome)) lockRows(tx, rows);

  const results = new Array<SettleResult>(rows.length);
  // A message named twice is settled twice, one after the other: the second finds what the first left.
  let round = rows.map((_, i) => i);
  while (round.length > 0) {
    const seen = new Set<number>();
    const next: number[] = [];
    const now = round.filter((i) => {
      const { seq } = rows[i] as HotSettle;
      if (seen.has(seq)) return next.push(i) < 0;
      return seen.add(seq);
    });
    await settleOnce(tx, rows, now, queues, tally, results);
    round = next;
  }
  return results;
}

function lockRows(tx: Tx, rows: readonly HotSettle[]): void {
  const seqs = [...new Set(rows.map((row) => row.seq))].sort((a, b) => a - b);
  tx.post(
    "lock.rows",
    seqs.map((seq) => [seq]),
  );
}

/** Settles rows that all name different messages. */
async function settleOnce(
  tx: Tx,
  rows: readonly HotSettle[],
  own: readonly number[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
  results: SettleResult[],
): Promise<void> {
  const at = new Map<number, number>();
  for (const i of own) at.set((rows[i] as HotSettle).seq, i);
  const touched: Grouped[] = [];
  const joined: Grouped[] = [];
  const by = (...outcomes: HotSettle["outcome"][]) =>
    own
      .map((i) => rows[i] as HotSettle)
      .filter((row) => outcomes.includes(row.outcome) && results[at.get(row.seq) as number] === undefined)
      .sort((a, b) => a.seq - b.seq);
  const answer = (seq: number, result: SettleResult) => {
    results[at.get(seq) as number] = result;
  };
  const untilOf = (row: HotSettle) => tx.now + (row.delayMs ?? 0);
  const isShared = (row: HotSettle) => Number(shared(queues.get(row.queueNo)));

  for (const x of await tx.each<Settled>(
    "settle.ack",
    by("ack").map((r) => [r.seq, r.queueNo, r.receipt]),
  )) {
    answer(x.seq, { result: "acked" });
    count(tally, x.queue_no, { live: -1, bytes: -x.bytes, acked: 1 });
    touched.push(x);
  }
  const extended = by("extend").map((r) => [r.seq, r.queueNo, r.receipt, untilOf(r)]);
  for (const x of await tx.each<Settled>("settle.extend", extended)) {
    const until = untilOf(rows[at.get(x.seq) as number] as HotSettle);
    answer(x.seq, { result: "extended", at: until });
    tx.ready(x.queue_no, until);
    touched.push(x);
  }
  const again = by("retry", "release").map((r) => {
    const undo = Number(r.outcome === "release");
    return [r.seq, r.queueNo, r.receipt, untilOf(r), undo, undo, isShared(r), r.error ?? null];
  });
  for (const x of await tx.each<Settled>("settle.retry", again)) {
    const row = rows[at.get(x.seq) as number] as HotSettle;
    answer(x.seq, { result: row.outcome === "retry" ? "retrying" : "released", at: untilOf(row) });
    if (row.outcome === "retry") count(tally, x.queue_no, { failed: 1 });
    tx.ready(x.queue_no, untilOf(row));
    touched.push(x);
  }
  const failing = by("retry", "release", "dead", "expire");
  if (failing.length > 0) {
    for (const x of await tx.each<Settled>(
      "settle.expire",
      failing.map((r) => [r.seq, r.queueNo, r.receipt, 0]),
    )) {
      answer(x.seq, { result: "expired" });
      count(tally, x.queue_no, { live: -1, bytes: -x.bytes, expired: 1 });
      touched.push(x);
    }
    const ended = by("retry", "dead").map((r): Ended => ({ ...r, lapse: false, error: r.error ?? null, againAt: againAt(tx, r, queues) }));
    joined.push(...(await bury(tx, ended, queues, tally, touched, answer)));
  }
  // Where nothing limits a group, its head stands in line whatever the others do.
  const left = touched.filter((x) => queues.get(x.queue_no)?.limit !== null);
  await promote(tx, groupsOf([...left, ...joined]), queues);

  const lost = own.filter((i) => results[i] === undefined);
  const here = new Set<number>();
  for (const { seq } of await tx.each<{ seq: number }>(
    "settle.which",
    lost.map((i) => [(rows[i] as HotSettle).seq, (rows[i] as HotSettle).queueNo]),
  ))
    here.add(seq);
  for (const i of lost) results[i] = { result: here.has((rows[i] as HotSettle).seq) ? "stale" : "gone" };
}

/** When a message is tried again that should have gone to a dead-letter queue that is no more. */
function againAt(tx: Tx, row: HotSettle, queues: ReadonlyMap<number, HotQueue>): number {
  return tx.now + Math.max(row.delayMs ?? 0, queues.get(row.queueNo)?.visibilityTimeoutMs ?? 0);
}
