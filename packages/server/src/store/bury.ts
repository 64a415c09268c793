/**
 * Dead-lettering: a message that ran out of attempts or was refused goes to the dead-letter queue, to its queue's own list or away,
 * in one statement, so that it is in exactly one place at any instant (Q13). If the dead-letter queue is no more, the message stays
 * and is tried again: it is never destroyed.
 */
import type { Tx } from "../db/db.ts";
import { type Grouped, groupsOf, lockHeads, shared } from "./group.ts";
import { expiryOf, groupKeyIn, type HotQueue, NEVER } from "./queue-memory.ts";
import type { Settled } from "./settle.ts";
import { count, type Tally } from "./tally.ts";
import type { SettleResult } from "./types.ts";

/** A message whose attempts are over. `lapse`: by its last lease ending. `againAt`: when to try again if it cannot leave. */
export interface Ended {
  queueNo: number;
  seq: number;
  receipt: number;
  lapse: boolean;
  error: string | null;
  againAt: number;
}

/** What stands as the reason on a message that had nowhere to go. */
export const NO_TARGET = "the dead-letter queue does not exist";

/** Where a queue's dead letters go; `target` is the dead-letter queue, missing when it is no more. */
export function placesOf(
  queue: HotQueue,
  queues: ReadonlyMap<number, HotQueue>,
): { place: "list" | "drop" | "queue"; target: HotQueue | undefined } {
  const place = queue.deadLetter ?? "list";
  const target = place === "queue" && queue.deadLetterNo !== null ? queues.get(queue.deadLetterNo) : undefined;
  return { place, target };
}

/**
 * Buries what has truly ended and answers each by number. Adds to `touched` the groups that were left, and answers the groups that
 * were joined: the heads of both may have changed.
 */
export async function bury(
  tx: Tx,
  ended: readonly Ended[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
  touched: Grouped[],
  answer: (seq: number, result: SettleResult) => void,
): Promise<Grouped[]> {
  const list: Ended[] = [];
  const drop: Ended[] = [];
  const stay: Ended[] = [];
  const move: { row: Ended; target: HotQueue }[] = [];
  for (const row of ended) {
    const queue = queues.get(row.queueNo);
    if (queue === undefined) continue;
    const { place, target } = placesOf(queue, queues);
    if (place === "list") list.push(row);
    else if (place === "drop") drop.push(row);
    else if (target === undefined) stay.push(row);
    else move.push({ row, target });
  }
  const key = (row: Ended) => [row.seq, row.queueNo, row.receipt, Number(row.lapse)];

  const listed = list.map((row) => {
    const queue = queues.get(row.queueNo) as HotQueue;
    return [...key(row), row.error, queue.internal ? NEVER : tx.now + queue.retentionMs];
  });
  for (const x of await tx.each<Settled>("bury.list", listed)) {
    answer(x.seq, { result: "dead" });
    count(tally, x.queue_no, { live: -1, dead: 1, failed: 1, buried: 1 });
    touched.push(x);
  }
  for (const x of await tx.each<Settled>("bury.drop", drop.map(key))) {
    answer(x.seq, { result: "dropped" });
    count(tally, x.queue_no, { live: -1, bytes: -x.bytes, failed: 1, buried: 1 });
    touched.push(x);
  }
  const stayed = stay.map((row) => [...key(row), row.againAt, Number(shared(queues.get(row.queueNo))), row.error ?? NO_TARGET]);
  const stayAt = new Map(stay.map((row) => [row.seq, row.againAt]));
  for (const x of await tx.each<Settled>("bury.stay", stayed)) {
    const at = stayAt.get(x.seq) as number;
    answer(x.seq, { result: "retrying", at });
    count(tally, x.queue_no, { failed: 1 });
    tx.ready(x.queue_no, at);
    touched.push(x);
  }
  const joined: Grouped[] = [];
  if (move.length === 0) return joined;
  const seqs = await tx.sequence(move.length);
  const targetOf = new Map(move.map(({ row, target }) => [row.seq, target]));
  const moved = move.map(({ row, target }, i) => [
    ...key(row),
    row.error,
    target.no,
    seqs[i] as number,
    expiryOf(target, tx.now),
    Number(target.limit === null),
  ]);
  for (const x of await tx.each<Settled & { was: number }>("bury.move", moved)) {
    const target = targetOf.get(x.was) as HotQueue;
    answer(x.was, { result: "dead" });
    count(tally, x.queue_no, { live: -1, bytes: -x.bytes, failed: 1, buried: 1 });
    count(tally, target.no, { live: 1, bytes: x.bytes });
    tx.ready(target.no, tx.now);
    const source = queues.get(x.queue_no) as HotQueue;
    touched.push({ queue_no: x.queue_no, group_key: groupKeyIn(source, x.group_key) });
    joined.push({ queue_no: target.no, group_key: groupKeyIn(target, x.group_key) });
  }
  // A claim of the target may hold these heads: what it leases must be seen before they are put in line again.
  lockHeads(tx, groupsOf(joined));
  return joined;
}
