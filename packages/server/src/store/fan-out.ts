/**
 * The fan-out of notifications: which members a version has, and the deliveries of a stretch of them. Deliveries, their messages and the
 * cursor `walked` are one transaction that only whoever still finds the cursor where it was can commit: killed at whatever point, on
 * however many nodes, every match gets exactly one record (T3).
 */
import type { Tx } from "../db/db.ts";
import { type Content, deliveryBody } from "./delivery.ts";
import { lockQueues } from "./group.ts";
import { type HotQueue, readQueues } from "./queue-memory.ts";
import { queuesToLock, type StoredResult, type StoredSend, send } from "./send.ts";
import { type Tally, writeTally } from "./tally.ts";

/** A member of a topic at some version. `filter` is a policy's JSON text, `null` lets everything pass. */
export interface MemberRow {
  subscriptionNo: number;
  subscriptionId: string;
  protocol: "webhook" | "queue";
  /** Its internal queue, and the queue that a `queue` subscription is for, FIFO or not. */
  queueNo: number;
  targetNo: number | null;
  targetFifo: boolean;
  filter: string | null;
  scope: "attributes" | "message";
  /** Valid for versions from `since` to before `until`. */
  since: number;
  until: number | null;
}

/** One whom a notification reaches. `content` is what a queue subscription's queue gets. */
export interface Match {
  subscriptionNo: number;
  queueNo: number;
  content: Content | null;
}

/** A stretch of one notification's fan-out: everybody after `walked` up to `upto`. `last`: nobody comes after them. */
export interface Stretch {
  no: number;
  topicNo: number;
  fifo: boolean;
  groupId: string | null;
  walked: number;
  upto: number;
  last: boolean;
  matches: Match[];
}

/** `moved`: this call made the deliveries; `waits`: an earlier notification of the FIFO topic comes first; `lost`: somebody else was here. */
export interface StretchResult {
  result: "moved" | "waits" | "lost";
  delivered: number;
}

const MEMBERS = `SELECT m.subscription_no, s.id, s.protocol, s.queue_no, s.target_no, q.type AS target_type, m.filter, m.scope,
    m.since, m.until FROM membership AS m JOIN topic_subscription AS s ON s.no = m.subscription_no LEFT JOIN queue AS q ON q.no = s.target_no
  WHERE m.topic_no = :topicNo`;

interface StoredMember {
  subscription_no: number;
  id: string;
  protocol: MemberRow["protocol"];
  queue_no: number;
  target_no: number | null;
  target_type: string | null;
  filter: string | null;
  scope: MemberRow["scope"];
  since: number;
  until: number | null;
}

const memberOf = (row: StoredMember): MemberRow => ({
  subscriptionNo: row.subscription_no,
  subscriptionId: row.id,
  protocol: row.protocol,
  queueNo: row.queue_no,
  targetNo: row.target_no,
  targetFifo: row.target_type === "fifo",
  filter: row.filter,
  scope: row.scope,
  since: row.since,
  until: row.until,
});

/** Up to `limit` members of a topic at a version, by number after `after`. */
async function readMembers(tx: Tx, topicNo: number, version: number, after: number, limit: number): Promise<MemberRow[]> {
  const rows = await tx.query<StoredMember>(
    `${MEMBERS} AND m.subscription_no > :after AND m.since <= :version AND (m.until IS NULL OR m.until > :version)
     ORDER BY m.topic_no, m.subscription_no LIMIT :limit`,
    { topicNo, version, after, limit },
  );
  return rows.map(memberOf);
}

/** The end of a membership, which its subscription and its beginning tell from others. */
export interface MemberEnd {
  subscriptionNo: number;
  since: number;
  until: number;
}

/**
 * What changed in a topic's members after version `from` up to `to`: who came, also those who left again, and who left of
 * those before; `null` when either is more than `limit`.
 */
async function changedMembers(
  tx: Tx,
  topicNo: number,
  from: number,
  to: number,
  limit: number,
): Promise<{ came: MemberRow[]; went: MemberEnd[] } | null> {
  const given = { topicNo, from, to, limit: limit + 1 };
  const came = await tx.query<StoredMember>(`${MEMBERS} AND m.since > :from AND m.since <= :to LIMIT :limit`, given);
  const went = await tx.query<{ subscription_no: number; since: number; until: number }>(
    `SELECT m.subscription_no, m.since, m.until FROM membership AS m
     WHERE m.topic_no = :topicNo AND m.until > :from AND m.until <= :to AND m.since <= :from LIMIT :limit`,
    given,
  );
  if (came.length > limit || went.length > limit) return null;
  return {
    came: came.map(memberOf),
    went: went.map(({ subscription_no: subscriptionNo, since, until }) => ({ subscriptionNo, since, until })),
  };
}

/** Makes the deliveries of stretches, one result each. Stretches of one FIFO topic come in the order of their notifications. */
async function fanOut(tx: Tx, stretches: readonly Stretch[]): Promise<StretchResult[]> {
  const results = stretches.map((): StretchResult => ({ result: "lost", delivered: 0 }));
  lockQueues(
    tx,
    stretches.filter(({ fifo }) => fifo).map(({ topicNo }) => topicNo),
  );
  const held = await heldUp(tx, stretches);
  const free = stretches.filter((stretch) => !held.has(stretch.no));
  for (const [i, stretch] of stretches.entries()) if (held.has(stretch.no)) (results[i] as StretchResult).result = "waits";
  const moved = new Set(
    (
      await tx.each<{ no: number }>(
        "notification.move",
        free.map((s) => [...[s.no, s.walked, s.upto, s.matches.length], ...[s.last ? "complete" : "fanning_out", s.last ? tx.now : null]]),
      )
    ).map(({ no }) => no),
  );
  const going = stretches.filter(({ no }) => moved.has(no));
  const delivered = await deliver(tx, going);
  for (const [i, stretch] of stretches.entries())
    if (moved.has(stretch.no)) results[i] = { result: "moved", delivered: delivered.get(stretch.no) ?? 0 };
  return results;
}

/**
 * The notifications that must wait: of a FIFO topic, all but the first whose fan-out is open, and what comes right after it here. The
 * topics are locked, so that nobody else moves them meanwhile.
 */
async function heldUp(tx: Tx, stretches: readonly Stretch[]): Promise<Set<number>> {
  const most = new Map<number, number>();
  for (const { fifo, topicNo } of stretches) if (fifo) most.set(topicNo, (most.get(topicNo) ?? 0) + 1);
  const open = new Map<number, { no: number; walked: number }[]>();
  for (const row of await tx.each<{ no: number; topic_no: number; walked: number }>("notification.front", [...most])) {
    const front = open.get(row.topic_no);
    if (front === undefined) open.set(row.topic_no, [row]);
    else front.push(row);
  }
  const held = new Set<number>();
  for (const { no, topicNo, fifo, walked, last } of stretches) {
    if (!fifo) continue;
    const front = open.get(topicNo)?.sort((a, b) => a.no - b.no) ?? [];
    if (front[0]?.no !== no || front[0].walked !== walked) held.add(no);
    else if (last) front.shift();
    else open.delete(topicNo);
  }
  return held;
}

/** One match on its way: straight into its queue, or, when that is not to be or is refused, into the internal queue, to be tried later. */
interface Leg {
  stretch: Stretch;
  match: Match;
  no: number;
  direct: StoredSend | null;
  waiting: StoredSend;
}

/** Stores messages and records of all matches; answers how many queues of each notification have theirs already. */
async function deliver(tx: Tx, stretches: readonly Stretch[]): Promise<Map<number, number>> {
  const matches = stretches.flatMap((stretch) => stretch.matches.map((match) => ({ stretch, match })));
  const delivered = new Map<number, number>();
  if (matches.length === 0) return delivered;
  const numbers = await tx.sequence(matches.length);
  const queues = await readQueues(
    tx,
    matches.flatMap(({ match }) => (match.content === null ? [match.queueNo] : [match.queueNo, match.content.queueNo])),
  );
  const behind = await inOrder(tx, matches, queues);
  const legs = matches.map(({ stretch, match }, i): Leg => {
    const no = numbers[i] as number;
    const body = deliveryBody(no, stretch.no, tx.now);
    const rest = { attributes: null, meta: null, dedupId: null, delayMs: null };
    const waiting: StoredSend = { queueNo: match.queueNo, body, groupKey: stretch.groupId, ...rest };
    const direct = match.content === null || behind.has(match.queueNo) ? null : { ...match.content, delayMs: null };
    return { stretch, match, no, direct, waiting };
  });
  const sends = legs.flatMap(({ direct, waiting }) => (direct === null ? [waiting] : [direct, waiting]));
  lockQueues(tx, queuesToLock(sends, queues));
  const tally: Tally = new Map();
  // An internal queue ends with its subscription: what it would have got is cancelled (T14).
  const alive = legs.filter(({ match }) => queues.has(match.queueNo));

  const straight = alive.filter(({ direct }) => direct !== null);
  const sent = await send(
    tx,
    straight.map(({ direct }) => direct as StoredSend),
    queues,
    tally,
  );
  const arrived = new Set(straight.filter((_, i) => !("refused" in (sent[i] as StoredResult))));
  for (const { stretch } of arrived) delivered.set(stretch.no, (delivered.get(stretch.no) ?? 0) + 1);
  const queued = alive.filter((leg) => !arrived.has(leg));
  const stored = await send(
    tx,
    queued.map(({ waiting }) => waiting),
    queues,
    tally,
  );
  const messageOf = new Map(queued.map(({ no }, i) => [no, stored[i]]));
  const records = legs.map((leg): (string | number | null)[] => {
    const own = [leg.no, leg.stretch.no, leg.match.subscriptionNo];
    if (arrived.has(leg)) return [...own, "delivered", 1, null, null, tx.now, tx.now];
    const message = messageOf.get(leg.no);
    if (message === undefined || "refused" in message) return [...own, "cancelled", 0, null, null, null, tx.now];
    return [...own, "pending", 0, message.seq, message.deliverAt, null, null];
  });
  tx.post("delivery.insert", records);
  writeTally(tx, tally);
  return delivered;
}

/**
 * The internal queues of a FIFO topic's queue subscriptions that its notifications must pass through (T18): what waits there already comes
 * first, and a queue with a limit may refuse one notification and take the next.
 */
async function inOrder(
  tx: Tx,
  matches: readonly { stretch: Stretch; match: Match }[],
  queues: ReadonlyMap<number, HotQueue>,
): Promise<Set<number>> {
  const through = new Set<number>();
  const asked = new Set<number>();
  for (const { stretch, match } of matches) {
    if (!stretch.fifo || match.content === null) continue;
    if (queues.get(match.content.queueNo)?.maxBytes == null) asked.add(match.queueNo);
    else through.add(match.queueNo);
  }
  const waits = await tx.each<{ queue_no: number }>(
    "queue.waits",
    [...asked].map((no) => [no]),
  );
  for (const { queue_no: no } of waits) through.add(no);
  return through;
}

/** Every cold verb of the fan-out. */
export const fanOutVerbs = { readMembers, changedMembers, fanOut };
