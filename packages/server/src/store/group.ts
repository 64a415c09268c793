/**
 * Groups in the line. Of a group's present members the lowest number, its head, stands in line for all of them; who is scheduled,
 * and in a shared queue (Q19 other than 1) also who is leased or waits for a retry, is away until `later_at` and then joins again.
 * In an ordered queue the head stands for the group through leases and retries too: from the latest of their ends.
 * On PostgreSQL whoever moves a head holds the queue's lock, taken before any row.
 */
import type { Tx } from "../db/db.ts";
import type { HotQueue } from "./queue-memory.ts";

/** A message's place in a group, as the statements answer it. `group_key` is `null` outside of groups. */
export interface Grouped {
  queue_no: number;
  group_key: string | null;
}

/** How many arrivals one claim lets in, per queue. */
const ARRIVALS = 500;

/** Q19: in a shared queue a group has no order. */
export const shared = (queue: HotQueue | undefined): boolean => queue !== undefined && queue.limit !== 1;

/** Takes the locks of queues, lowest first, before whatever is asked next; nothing on SQLite. */
export function lockQueues(tx: Tx, nos: Iterable<number>): void {
  tx.post(
    "lock.queues",
    [...new Set(nos)].map((no) => [no]),
  );
}

/** The different groups among messages. */
export function groupsOf(messages: Iterable<Grouped>): [number, string][] {
  const groups = new Map<string, [number, string]>();
  for (const { queue_no: no, group_key: key } of messages) if (key !== null) groups.set(`${no} ${key}`, [no, key]);
  return [...groups.values()];
}

/** Locks the heads of groups, so that a claim under way is over and its leases are seen. The queues' locks are held already. */
export function lockHeads(tx: Tx, groups: readonly [number, string][]): void {
  tx.post("lock.heads", groups);
}

/** Puts the heads of groups into the line where nothing keeps them out: at the end of it, or when what keeps an ordered group ends. */
export async function promote(tx: Tx, groups: readonly [number, string][], queues: ReadonlyMap<number, HotQueue>): Promise<void> {
  const ordered: [number, string][] = [];
  const others: [number, string, number | null][] = [];
  for (const [no, key] of groups) {
    const queue = queues.get(no);
    if (queue === undefined) continue;
    if (queue.limit === 1) ordered.push([no, key]);
    else others.push([no, key, queue.limit]);
  }
  const moved = await tx.each<{ queue_no: number; at: number }>("group.promote", ordered);
  moved.push(...(await tx.each<{ queue_no: number; at: number }>("group.turn", others)));
  for (const { queue_no: no, at } of moved) tx.ready(no, at);
}

/** Someone who was away and is due now. */
export interface Arrival extends Grouped {
  seq: number;
  later_at: number;
}

/**
 * Who of queues was away and is due now, as far as one claim lets them in: pairs of a queue and the instant to read from. Those named may be
 * gone once their queues are locked.
 */
export function arrivalsIn(tx: Tx, from: readonly (readonly [number, number])[]): Promise<Arrival[]> {
  return tx.each<Arrival>(
    "group.arrivals",
    from.map(([no, later]) => [no, later, ARRIVALS]),
  );
}

/**
 * Lets arrivals join their groups again, unless somebody else did. One that comes before its group's head takes the head's place in
 * the line. Their queues are locked.
 */
export async function letIn(tx: Tx, due: readonly Arrival[], queues: ReadonlyMap<number, HotQueue>): Promise<void> {
  if (due.length === 0) return;
  const groups = groupsOf(due);
  lockHeads(tx, groups);
  const heads = new Map<string, { seq: number; line_at: number | null }>();
  for (const head of await tx.each<Grouped & { seq: number; line_at: number | null }>("group.head", groups))
    heads.set(`${head.queue_no} ${head.group_key}`, head);
  const joined = await tx.each<Omit<Arrival, "later_at">>(
    "group.join",
    due.map((row) => [row.seq]),
  );
  const first = new Map<string, (typeof joined)[number]>();
  for (const row of joined) {
    const key = `${row.queue_no} ${row.group_key}`;
    const known = first.get(key);
    if (known === undefined || row.seq < known.seq) first.set(key, row);
  }
  const places: [number, number | null][] = [];
  const lined: Grouped[] = [];
  for (const [key, row] of first) {
    const head = heads.get(key);
    if (head !== undefined && row.seq < head.seq) places.push([head.seq, null], [row.seq, head.line_at]);
    if (head === undefined || shared(queues.get(row.queue_no))) lined.push(row);
  }
  await tx.each("group.stand", places);
  await promote(tx, groupsOf(lined), queues);
}
