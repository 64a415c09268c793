/**
 * Claiming: leases what stands in line, one message per ready group first, and fills the room that is left with the groups' next
 * messages. Cost follows what is handed out, never the backlog or the number of groups. What has expired is leased but withheld,
 * for the caller to remove in a later transaction: a claim holds heads and must not wait for locks.
 */
import type { Tx } from "../db/db.ts";
import { layOut, type Unit } from "./batch.ts";
import { type Reading, readingFrom } from "./front.ts";
import { type Arrival, arrivalsIn, type Grouped, groupsOf, letIn, lockQueues, promote, shared } from "./group.ts";
import { type HotQueue, NEVER } from "./queue-memory.ts";
import type { ClaimAsk } from "./types.ts";

/** A claimed message with attributes and meta as stored, and `origin`, of which its id is made. */
export interface StoredMessage {
  queueNo: number;
  seq: number;
  receipt: number;
  origin: number;
  body: Uint8Array;
  attributes: string | null;
  meta: string | null;
  groupKey: string | null;
  sentAt: number;
  expiresAt: number;
  leaseUntil: number;
  receives: number;
  attempts: number;
}

export interface StoredClaim {
  batches: StoredMessage[][];
  nextInMs: number | null;
}

/** A leased message that had expired: to be removed by a settle with `expire`. */
export interface Late {
  queueNo: number;
  seq: number;
  receipt: number;
}

interface Picked extends Grouped {
  seq: number;
  origin: number;
  receives: number;
  attempts: number;
  spent: number;
  sent_at: number;
  expires_at: number;
  stood_at: number;
  attributes: string | null;
  meta: string | null;
  body: Uint8Array;
}
interface Following extends Picked {
  wanted_no: number;
  wanted: string;
  due_at: number;
  final_at: number | null;
}

/** All asks of one queue in one transaction with the same batch size and lease: they are claimed together and shared out. */
interface Portion {
  queue: HotQueue;
  asks: number[];
  batchSize: number;
  batches: number;
  until: number;
  receipt: number;
  units: Unit<Picked>[];
  laid: Picked[][];
}

const UNLIMITED = 2 ** 31 - 1;

/** Claims for all asks. `draw` answers random even numbers below 2^52, each used for one portion's receipts. */
export async function claim(
  tx: Tx,
  asks: readonly ClaimAsk[],
  queues: ReadonlyMap<number, HotQueue>,
  draw: () => number,
): Promise<{ claims: StoredClaim[]; late: Late[] }> {
  const claims = asks.map((): StoredClaim => ({ batches: [], nextInMs: null }));
  const portions = portionsOf(tx, asks, queues, draw);
  if (portions.length === 0) return { claims, late: [] };
  const read = readingsOf(tx, portions);
  const nos = [...read.keys()];
  const arrivals = await arrivalsIn(
    tx,
    [...read].map(([no, { later }]) => [no, later]),
  );
  // All at once and so in one order: a second round of locks could wait in a circle with settles and sends.
  lockQueues(tx, [...nos.filter((no) => shared(queues.get(no))), ...arrivals.map((row) => row.queue_no)]);
  await letIn(tx, arrivals, queues);
  await pickHeads(tx, portions, read);
  if (tx.littered) noteFronts(tx, portions, arrivals, queues);
  await pickNext(tx, portions, queues);
  const late: Late[] = [];
  for (const portion of portions) handOut(tx, portion, asks, claims, late);
  await foretell(tx, read, portions, asks, claims, late);
  return { claims, late };
}

function portionsOf(tx: Tx, asks: readonly ClaimAsk[], queues: ReadonlyMap<number, HotQueue>, draw: () => number): Portion[] {
  const portions = new Map<string, Portion>();
  asks.forEach((ask, i) => {
    const queue = queues.get(ask.queueNo);
    if (queue === undefined || queue.paused || ask.batches < 1 || ask.batchSize < 1) return;
    const leaseMs = ask.leaseMs ?? queue.visibilityTimeoutMs;
    const key = `${ask.queueNo} ${ask.batchSize} ${leaseMs}`;
    let portion = portions.get(key);
    if (portion === undefined) {
      portion = { queue, asks: [], batchSize: ask.batchSize, batches: 0, until: tx.now + leaseMs, receipt: draw(), units: [], laid: [] };
      portions.set(key, portion);
    }
    portion.asks.push(i);
    portion.batches += ask.batches;
  });
  return [...portions.values()];
}

const mostOf = (queue: HotQueue) => queue.maxAttempts ?? UNLIMITED;
const isLate = (tx: Tx, message: Picked) => message.expires_at <= tx.now;

/** From where each queue is read, all its portions alike. */
function readingsOf(tx: Tx, portions: readonly Portion[]): Map<number, Reading> {
  const read = new Map<number, Reading>();
  for (const { queue } of portions) if (!read.has(queue.no)) read.set(queue.no, readingFrom(queue.front, tx.now, tx.littered));
  return read;
}

/** Notes where lists began: with the first that was taken, so that it holds whether or not this is committed. */
function noteFronts(tx: Tx, portions: readonly Portion[], arrivals: readonly Arrival[], queues: ReadonlyMap<number, HotQueue>): void {
  for (const { queue } of portions) Object.assign(queue.front, { line: tx.now, later: tx.now });
  for (const { queue, units } of portions) for (const { head } of units) queue.front.line = Math.min(queue.front.line, head.stood_at);
  for (const { queue_no: no, later_at: at } of arrivals) {
    const { front } = queues.get(no) as HotQueue;
    front.later = Math.min(front.later, at);
  }
}

async function pickHeads(tx: Tx, portions: readonly Portion[], read: ReadonlyMap<number, Reading>): Promise<void> {
  // Portions of one queue go one after the other: each must see what the one before has taken.
  const rounds: Portion[][] = [];
  const seen = new Map<number, number>();
  for (const portion of portions) {
    const round = seen.get(portion.queue.no) ?? 0;
    seen.set(portion.queue.no, round + 1);
    rounds[round] ??= [];
    (rounds[round] as Portion[]).push(portion);
  }
  for (const round of rounds) {
    const byQueue = new Map(round.map((portion) => [portion.queue.no, portion]));
    const heads = await tx.each<Picked>(
      "claim.heads",
      round.map(({ queue, batches, batchSize, until, receipt }) => {
        const from = (read.get(queue.no) as Reading).line;
        return [queue.no, from, batches * batchSize, until, receipt, mostOf(queue), Number(shared(queue))];
      }),
    );
    heads.sort((a, b) => a.stood_at - b.stood_at || a.seq - b.seq);
    for (const head of heads) (byQueue.get(head.queue_no) as Portion).units.push({ head, followers: [] });
  }
}

/** Leases who may follow the heads, and in shared queues puts the next of each group into the line. */
async function pickNext(tx: Tx, portions: readonly Portion[], queues: ReadonlyMap<number, HotQueue>): Promise<void> {
  const flying = await flyingOf(tx, portions);
  const asked: { portion: Portion; at: number; row: [number, string, number, number] }[] = [];
  for (const portion of portions) {
    const open: number[] = [];
    portion.units.forEach(({ head }, i) => {
      if (head.group_key !== null && !isLate(tx, head) && (shared(portion.queue) || head.spent === 0)) open.push(i);
    });
    const room = portion.batches * portion.batchSize - portion.units.length;
    if (room <= 0 || open.length === 0) continue;
    // Twice the even share, so that groups with little behind them leave no room unused. With less room than groups, one each of some.
    const share = room <= open.length ? 1 : Math.min(Math.ceil(room / open.length) * 2, room);
    for (const i of open.slice(0, room * 2)) {
      const { head } = portion.units[i] as Unit<Picked>;
      const key = head.group_key as string;
      const free = flying.get(`${portion.queue.no} ${key}`) ?? Number.POSITIVE_INFINITY;
      const n = Math.min(share, free, shared(portion.queue) ? room : portion.batchSize - 1);
      if (n > 0) asked.push({ portion, at: i, row: [portion.queue.no, key, shared(portion.queue) ? 0 : head.seq, n] });
    }
  }
  const found = new Map<string, Following[]>();
  for (const row of await tx.each<Following>(
    "claim.next",
    asked.map(({ row }) => row),
  )) {
    const key = `${row.queue_no} ${row.wanted}`;
    // The seek runs on into the next group where a group ends.
    if (row.queue_no !== row.wanted_no || row.group_key !== row.wanted) continue;
    const list = found.get(key);
    if (list === undefined) found.set(key, [row]);
    else list.push(row);
  }
  for (const { portion, at, row } of asked) {
    const key = `${row[0]} ${row[1]}`;
    const list = found.get(key)?.sort((a, b) => a.seq - b.seq) ?? [];
    const unit = portion.units[at] as Unit<Picked>;
    portion.units[at] = { head: unit.head, followers: shared(portion.queue) ? list : inOrder(tx, list) };
  }
  const leases: number[][] = [];
  for (const portion of portions) {
    const { queue, units, batches, batchSize } = portion;
    const laid = shared(queue) ? layOut(units, 1, batches * batchSize) : layOut(units, batches, batchSize);
    for (const { followers } of laid.flat())
      for (const m of followers)
        leases.push([m.seq, portion.until, portion.receipt, m.receives, m.attempts, mostOf(queue), Number(shared(queue))]);
    portion.laid = laid.map((batch) => batch.flatMap(({ head, followers }) => [head, ...followers]));
  }
  await tx.each("claim.lease", leases);
  const turns = portions.filter(({ queue }) => shared(queue)).flatMap(({ units }) => units.map(({ head }) => head));
  await promote(tx, groupsOf(turns), queues);
}

/** How many more of each group may be leased, the heads counted already. */
async function flyingOf(tx: Tx, portions: readonly Portion[]): Promise<Map<string, number>> {
  const groups: [number, string, number][] = [];
  for (const { queue, units } of portions)
    if (queue.limit !== null && queue.limit > 1)
      for (const { head } of units) if (head.group_key !== null) groups.push([queue.no, head.group_key, queue.limit]);
  const free = new Map<string, number>();
  for (const row of await tx.each<{ queue_no: number; group_key: string; n: number }>("group.flying", groups)) {
    const limit = groups.find(([no]) => no === row.queue_no)?.[2] as number;
    free.set(`${row.queue_no} ${row.group_key}`, limit - row.n);
  }
  return free;
}

/** Q9, P10: who may follow a head in order. The first that is leased, waits or has been attempted before ends the run. */
function inOrder(tx: Tx, list: readonly Following[]): Following[] {
  const run: Following[] = [];
  for (const message of list) {
    if (message.due_at > tx.now || message.final_at !== null || message.spent > 0) break;
    if (!isLate(tx, message)) run.push(message);
  }
  return run;
}

/** Shares a portion's messages out to its asks. In shared queues a group is bound to no batch. */
function handOut(tx: Tx, portion: Portion, asks: readonly ClaimAsk[], claims: StoredClaim[], late: Late[]): void {
  const { queue, batchSize, until } = portion;
  let batches = portion.laid;
  if (shared(queue)) {
    const all = batches.flat();
    batches = [];
    for (let from = 0; from < all.length; from += batchSize) batches.push(all.slice(from, from + batchSize));
  }
  const messages: StoredMessage[][] = [];
  for (const batch of batches) {
    const kept: StoredMessage[] = [];
    for (const m of batch) {
      const receipt = portion.receipt + (m.group_key === null ? 0 : 1);
      if (isLate(tx, m)) late.push({ queueNo: queue.no, seq: m.seq, receipt });
      else kept.push(toStored(m, receipt, until));
    }
    if (kept.length > 0) messages.push(kept.sort((a, b) => a.seq - b.seq));
  }
  for (const i of portion.asks) {
    const ask = asks[i] as ClaimAsk;
    (claims[i] as StoredClaim).batches = messages.splice(0, ask.batches);
  }
  if (batches.length > 0) tx.ready(queue.no, until);
}

function toStored(m: Picked, receipt: number, leaseUntil: number): StoredMessage {
  return {
    queueNo: m.queue_no,
    seq: m.seq,
    receipt,
    origin: m.origin,
    body: m.body,
    attributes: m.attributes,
    meta: m.meta,
    groupKey: m.group_key === "" ? null : m.group_key,
    sentAt: m.sent_at,
    expiresAt: m.expires_at,
    leaseUntil,
    receives: m.receives,
    attempts: m.attempts,
  };
}

/** Answers the asks that were not filled when there will be more, as far as it is known now. */
async function foretell(
  tx: Tx,
  read: ReadonlyMap<number, Reading>,
  portions: readonly Portion[],
  asks: readonly ClaimAsk[],
  claims: readonly StoredClaim[],
  late: readonly Late[],
): Promise<void> {
  const hungry = portions
    .flatMap((portion) => portion.asks)
    .filter((i) => {
      const { batches, batchSize } = asks[i] as ClaimAsk;
      return (claims[i] as StoredClaim).batches.reduce((sum, batch) => sum + batch.length, 0) < batches * batchSize;
    });
  const nextAt = new Map<number, number>();
  const nos = new Set(hungry.map((i) => (asks[i] as ClaimAsk).queueNo));
  for (const row of await tx.each<{ queue_no: number; line_at: number | null; later_at: number | null }>(
    "claim.line",
    [...read].filter(([no]) => nos.has(no)).map(([no, { line, later, until }]) => [no, line, later, until]),
  ))
    nextAt.set(row.queue_no, Math.min(row.line_at ?? NEVER, row.later_at ?? NEVER, (read.get(row.queue_no) as Reading).until));
  for (const { queueNo } of late) nextAt.set(queueNo, tx.now);
  for (const i of hungry) {
    const at = nextAt.get((asks[i] as ClaimAsk).queueNo) ?? NEVER;
    (claims[i] as StoredClaim).nextInMs = at >= NEVER ? null : Math.max(0, at - tx.now);
  }
}
