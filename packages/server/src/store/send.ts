/**
 * Sending: refuses what a queue can't take, answers a repeated deduplication id with its first message, and stores the rest. A
 * group's numbers are drawn under its queue's lock, so that their order is the order of the commits; all others need no order.
 */
import type { Tx } from "../db/db.ts";
import { groupsOf, promote } from "./group.ts";
import { expiryOf, groupKeyIn, type HotQueue } from "./queue-memory.ts";
import { countSent } from "./quota.ts";
import { createAdmission } from "./quota-rules.ts";
import { count, type Tally } from "./tally.ts";
import type { SendRefusal } from "./types.ts";

/** A message to store, with attributes and meta as stored: JSON texts. `delayMs` `null` takes the queue's. */
export interface StoredSend {
  queueNo: number;
  body: Uint8Array;
  attributes: string | null;
  meta: string | null;
  groupKey: string | null;
  dedupId: string | null;
  delayMs: number | null;
  together?: number;
}

/** As `SendResult`, with what the message id is made of. */
export type StoredResult = { seq: number; sentAt: number; deduplicated: boolean; deliverAt: number } | { refused: SendRefusal };

/** The queues that must be locked before `send`: those where groups or a limit are involved. */
export function queuesToLock(rows: readonly StoredSend[], queues: ReadonlyMap<number, HotQueue>): number[] {
  const nos: number[] = [];
  for (const row of rows) {
    const queue = queues.get(row.queueNo);
    if (queue !== undefined && (row.groupKey !== null || queue.limit === null || queue.maxBytes !== null)) nos.push(row.queueNo);
  }
  return nos;
}

const sizeOf = (row: StoredSend) => row.body.length + (row.attributes === null ? 0 : Buffer.byteLength(row.attributes));

/** The projects whose quotas sends of clients count against. */
export const quotasOfSend = (rows: readonly StoredSend[], queues: ReadonlyMap<number, HotQueue>): (number | null)[] =>
  rows.map(({ queueNo }) => queues.get(queueNo)?.quotaOf ?? null);

/**
 * Stores what can be stored and answers every row in order. The queues of `queuesToLock` are locked. `quotas`: what is left of the quotas
 * that clients' sends count against, held; empty for what the server sends itself.
 */
export async function send(
  tx: Tx,
  rows: readonly StoredSend[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
  quotas: ReadonlyMap<number, number> = new Map(),
): Promise<StoredResult[]> {
  const results = new Array<StoredResult>(rows.length);
  const room = await roomOf(tx, rows, queues, tally);
  const quotaOf = (row: StoredSend): number | null => (quotas.size === 0 ? null : (queues.get(row.queueNo)?.quotaOf ?? null));
  /** Under what a row is remembered, where it matters whether it is a repeat before it is stored. */
  const keyOfRow = (row: StoredSend): string | null => {
    const bounded = room.has(row.queueNo) || quotaOf(row) !== null;
    return !bounded || row.dedupId === null || queues.get(row.queueNo)?.deduplicationWindowMs === 0
      ? null
      : `${row.queueNo} ${row.dedupId}`;
  };
  const known = await knownIn(tx, rows, keyOfRow);
  const open: number[] = [];
  const opened = new Set<string>();
  const held = new Set<string>();
  const admission = createAdmission(quotas, {
    projectOf: (i) => quotaOf(rows[i] as StoredSend),
    together: (i) => rows[i]?.together ?? 0,
    fresh(first, n) {
      const keys = rows.slice(first, first + n).map((row, i) => keyOfRow(row) ?? i);
      return new Set(keys.filter((key) => typeof key === "number" || !(known.has(key) || opened.has(key)))).size;
    },
  });
  rows.forEach((row, i) => {
    const queue = queues.get(row.queueNo);
    const left = room.get(row.queueNo);
    const key = keyOfRow(row);
    const first = key === null ? undefined : known.get(key);
    // A repeat stores nothing, so it needs no room: neither that of an earlier send nor that of a row before it.
    const repeats = key !== null && opened.has(key);
    if (queue === undefined) results[i] = { refused: "queue_not_found" };
    else if (first !== undefined) results[i] = first;
    else if (!repeats && !admission.admits(i)) results[i] = { refused: "quota_exceeded" };
    else if (left !== undefined && !repeats && (left < sizeOf(row) || held.has(`${row.queueNo} ${row.groupKey}`))) {
      results[i] = { refused: "backlog_full" };
      // What comes after it in its group may be smaller, but must not pass it.
      if (queue.limit === 1 && row.groupKey !== null) held.add(`${row.queueNo} ${row.groupKey}`);
    } else {
      if (!repeats) {
        if (left !== undefined) room.set(row.queueNo, left - sizeOf(row));
        admission.takes(i);
      }
      if (key !== null) opened.add(key);
      open.push(i);
    }
  });
  if (open.length === 0) return results;

  const keyOf = (i: number) => groupKeyIn(queues.get((rows[i] as StoredSend).queueNo) as HotQueue, (rows[i] as StoredSend).groupKey);
  const dueOf = (i: number): number => {
    const row = rows[i] as StoredSend;
    return tx.now + (row.delayMs ?? (queues.get(row.queueNo) as HotQueue).delayMs);
  };
  // A group that has a head already needs no other; a group's first message due now becomes one.
  const present = open.filter((i) => dueOf(i) <= tx.now).map((i) => ({ queue_no: (rows[i] as StoredSend).queueNo, group_key: keyOf(i) }));
  const [seqs, heads] = await Promise.all([
    tx.sequence(
      open.length,
      open.every((i) => keyOf(i) === null),
    ),
    tx.each<{ queue_no: number; group_key: string }>("send.headed", groupsOf(present)),
  ]);
  const headed = new Set(heads.map((head) => `${head.queue_no} ${head.group_key}`));
  const seqOf = new Map(open.map((i, k) => [i, seqs[k] as number]));
  const repeated = await repeats(tx, rows, open, seqOf, dueOf, queues);

  const fresh = open.filter((i) => !repeated.has(i));
  const turns: { queue_no: number; group_key: string | null }[] = [];
  const inserts = fresh.map((i) => {
    const row = rows[i] as StoredSend;
    const queue = queues.get(row.queueNo) as HotQueue;
    const due = dueOf(i);
    const seq = seqOf.get(i) as number;
    const groupKey = keyOf(i);
    let line: number | null = due;
    let later: number | null = null;
    if (groupKey !== null) {
      const group = `${row.queueNo} ${groupKey}`;
      if (due > tx.now) [line, later] = [null, due];
      else if (headed.has(group)) line = null;
      else {
        headed.add(group);
        if (queue.limit !== 1 && queue.limit !== null) {
          line = null;
          turns.push({ queue_no: row.queueNo, group_key: groupKey });
        }
      }
    }
    count(tally, row.queueNo, { live: 1, sent: 1, bytes: sizeOf(row) });
    tx.ready(row.queueNo, due);
    results[i] = { seq, sentAt: tx.now, deduplicated: false, deliverAt: due };
    return [seq, row.queueNo, line, later, due, expiryOf(queue, due), groupKey, row.attributes, row.meta, row.body];
  });
  tx.post("send.insert", inserts);
  if (quotas.size > 0)
    countSent(
      tx,
      fresh.map((i) => quotaOf(rows[i] as StoredSend)),
    );
  await promote(tx, groupsOf(turns), queues);
  for (const [i, first] of repeated) results[i] = first;
  return results;
}

/** The bytes that queues with a limit may still take. */
async function roomOf(
  tx: Tx,
  rows: readonly StoredSend[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
): Promise<Map<number, number>> {
  const limited = new Set<number>();
  for (const row of rows) if (queues.get(row.queueNo)?.maxBytes != null) limited.add(row.queueNo);
  const room = new Map<number, number>();
  for (const { queue_no: no, bytes } of await tx.each<{ queue_no: number; bytes: number }>(
    "send.bytes",
    [...limited].map((no) => [no]),
  ))
    room.set(no, (queues.get(no)?.maxBytes as number) - bytes - (tally.get(no)?.bytes ?? 0));
  return room;
}

/** The first messages that rows with a key repeat. Their queue or quota is held, so that of clients' sends nothing changes until `repeats`. */
async function knownIn(tx: Tx, rows: readonly StoredSend[], keyOf: (row: StoredSend) => string | null): Promise<Map<string, StoredResult>> {
  const asked = new Map<string, [number, string]>();
  for (const row of rows) {
    const key = keyOf(row);
    if (key !== null && row.dedupId !== null) asked.set(key, [row.queueNo, row.dedupId]);
  }
  const known = new Map<string, StoredResult>();
  for (const row of await tx.each<First>("send.first", [...asked.values()]))
    if (row.until > tx.now) known.set(`${row.queue_no} ${row.key}`, resultOf(row));
  return known;
}

/** What is remembered of a send. */
interface First {
  queue_no: number;
  key: string;
  seq: number;
  sent_at: number;
  deliver_at: number;
  until: number;
}

const resultOf = (first: First): StoredResult => ({
  seq: first.seq,
  sentAt: first.sent_at,
  deduplicated: true,
  deliverAt: first.deliver_at,
});

/** Q11: claims the deduplication ids of `open` and answers what their first messages were, for the rows that are not first. */
async function repeats(
  tx: Tx,
  rows: readonly StoredSend[],
  open: readonly number[],
  seqOf: ReadonlyMap<number, number>,
  dueOf: (i: number) => number,
  queues: ReadonlyMap<number, HotQueue>,
): Promise<Map<number, StoredResult>> {
  const firstOf = new Map<string, number>();
  const followers: [number, string][] = [];
  const claims: [number, string, number, number, number][] = [];
  for (const i of open) {
    const { queueNo, dedupId } = rows[i] as StoredSend;
    const windowMs = (queues.get(queueNo) as HotQueue).deduplicationWindowMs;
    if (dedupId === null || windowMs === 0) continue;
    const key = `${queueNo} ${dedupId}`;
    if (firstOf.has(key)) followers.push([i, key]);
    else {
      firstOf.set(key, i);
      claims.push([queueNo, dedupId, seqOf.get(i) as number, dueOf(i), tx.now + windowMs]);
    }
  }
  const repeated = new Map<number, StoredResult>();
  if (claims.length === 0) return repeated;
  claims.sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1));
  const taken = new Set<string>();
  for (const row of await tx.each<{ queue_no: number; key: string }>("send.dedup", claims)) taken.add(`${row.queue_no} ${row.key}`);
  const lost = claims.filter(([no, key]) => !taken.has(`${no} ${key}`)).map(([no, key]): [number, string] => [no, key]);
  for (const row of await tx.each<First>("send.first", lost))
    repeated.set(firstOf.get(`${row.queue_no} ${row.key}`) as number, resultOf(row));
  for (const [i, key] of followers) {
    const first = firstOf.get(key) as number;
    const seq = seqOf.get(first) as number;
    repeated.set(i, repeated.get(first) ?? { seq, sentAt: tx.now, deduplicated: true, deliverAt: dueOf(first) });
  }
  return repeated;
}
