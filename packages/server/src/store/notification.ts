/**
 * Verbs of notifications: accepting what is published (T3) and what its fan-out has come to (T4). A notification is stored once, with the
 * version of the topic's members that it is for; whom it reaches is decided later, and by nothing else. On a FIFO topic the order of the
 * numbers is the order of the commits (T18).
 */
import { Fault } from "@millrace/contract";
import type { NotificationAttribute } from "@millrace/contract/wire";
import type { Row, Tx } from "../db/db.ts";
import { lockQueues } from "./group.ts";
import { messageId, readMessageId } from "./message-id.ts";
import { countSent, holdQuotas } from "./quota.ts";
import { createAdmission, quotaExceeded } from "./quota-rules.ts";

/** For how long a FIFO topic remembers a deduplication id (T3). */
const DEDUPLICATION_MS = 300_000;

/** What is published: `message` is text in UTF-8, with `structure` `json` an object of payloads by protocol. */
export interface Publication {
  topicNo: number;
  message: Uint8Array;
  structure: "json" | null;
  subject: string | null;
  attributes: Record<string, NotificationAttribute> | null;
  /** On FIFO topics only, and always there. */
  groupId: string | null;
  /** On FIFO topics only. */
  dedupId: string | null;
  traceparent: string | null;
}

/** What became of a publication; `version` and `members` are the topic's at that instant. A repeat answers the first id. */
export type Accepted =
  | { no: number; messageId: string; acceptedAt: number; deduplicated: boolean; version: number; members: number }
  | { refused: "topic_not_found" | "quota_exceeded" };

/** A notification as its fan-out and its deliveries need it. `walked`: the last subscription that was decided on. */
export interface Notification {
  no: number;
  messageId: string;
  topicNo: number;
  version: number;
  /** How many members the topic had at that version. */
  members: number;
  walked: number;
  acceptedAt: number;
  groupId: string | null;
  subject: string | null;
  attributes: Record<string, NotificationAttribute> | null;
  structure: "json" | null;
  traceparent: string | null;
  message: Uint8Array;
}

/** T4, with `members`: how many subscriptions it was held against. Instants in milliseconds since 1970. */
export interface FanOutState {
  no: number;
  messageId: string;
  topicNo: number;
  state: "accepted" | "fanning_out" | "complete";
  acceptedAt: number;
  completedAt: number | null;
  subject: string | null;
  members: number;
  matched: number;
  delivered: number;
  failed: number;
  cancelled: number;
  pending: number;
}

/** A notification of a row of `notification.read`. */
export function notificationOf(row: Row): Notification {
  return {
    no: Number(row.no),
    messageId: messageId(Number(row.accepted_at), Number(row.no)),
    topicNo: Number(row.topic_no),
    version: Number(row.version),
    members: Number(row.members),
    walked: Number(row.walked),
    acceptedAt: Number(row.accepted_at),
    groupId: row.message_group as string | null,
    subject: row.subject as string | null,
    attributes: row.attributes === null ? null : (JSON.parse(String(row.attributes)) as Record<string, NotificationAttribute>),
    structure: row.structure as "json" | null,
    traceparent: row.traceparent as string | null,
    message: row.message as Uint8Array,
  };
}

interface TopicNow {
  no: number;
  version: number;
  members: number;
  fifo: number;
  quota_of: number | null;
}

/** Stores publications; answers each in order. What refuses one is a topic that is no more, or its project's quota. */
async function publishNotifications(tx: Tx, rows: readonly Publication[]): Promise<Accepted[]> {
  const nos = [...new Set(rows.map((row) => row.topicNo))].sort((a, b) => a - b).map((no) => [no]);
  // A change of members waits for this transaction: whoever sees its version sees what was published before it.
  await tx.each("lock.topics", nos);
  const topics = new Map((await tx.each<TopicNow>("topic.read", nos)).map((topic) => [topic.no, topic]));
  const quotas = await holdQuotas(
    tx,
    [...topics.values()].map((topic) => topic.quota_of),
  );
  lockQueues(
    tx,
    [...topics.values()].filter(({ fifo }) => fifo === 1).map(({ no }) => no),
  );
  const numbers = await tx.sequence(rows.length);
  const over = await beyondQuota(tx, rows, topics, quotas);
  const first = await firstOf(tx, rows, numbers, topics, over);
  const counted: (number | null)[] = [];
  const inserts: (string | number | null | Uint8Array)[][] = [];
  const accepted = rows.map((row, i): Accepted => {
    const topic = topics.get(row.topicNo);
    if (topic === undefined) return { refused: "topic_not_found" };
    if (over.has(i)) return { refused: "quota_exceeded" };
    const no = numbers[i] as number;
    const { version, members } = topic;
    const known = first.get(i);
    if (known !== undefined) {
      return { no: known.no, messageId: messageId(known.at, known.no), acceptedAt: known.at, deduplicated: true, version, members };
    }
    counted.push(topic.quota_of);
    const [state, completed] = members === 0 ? ["complete", tx.now] : ["accepted", null];
    const attributes = row.attributes === null ? null : JSON.stringify(row.attributes);
    inserts.push([
      ...[no, row.topicNo, version, members, state, completed, row.groupId, row.dedupId],
      ...[row.subject, attributes, row.structure, row.traceparent, row.message],
    ] as (string | number | null | Uint8Array)[]);
    return { no, messageId: messageId(tx.now, no), acceptedAt: tx.now, deduplicated: false, version, members };
  });
  tx.post("notification.insert", inserts);
  countSent(tx, counted);
  return accepted;
}

/** As `publishNotifications` for one request: when nothing could be stored it throws the first refusal, so that nothing is remembered of it. */
async function publishTogether(tx: Tx, rows: readonly Publication[]): Promise<Accepted[]> {
  const accepted = await publishNotifications(tx, rows);
  const [first] = accepted;
  if (first === undefined || !("refused" in first) || accepted.some((each) => !("refused" in each))) return accepted;
  throw first.refused === "quota_exceeded" ? quotaExceeded(tx.now) : new Fault(first.refused, "there is no such topic");
}

/** The publications that go beyond what is left of their projects' quotas. A repeat stores nothing, so it needs no room. */
async function beyondQuota(
  tx: Tx,
  rows: readonly Publication[],
  topics: ReadonlyMap<number, TopicNow>,
  quotas: ReadonlyMap<number, number>,
): Promise<Set<number>> {
  const over = new Set<number>();
  if (quotas.size === 0) return over;
  const projectOf = (i: number): number | null => topics.get((rows[i] as Publication).topicNo)?.quota_of ?? null;
  const asked = rows.flatMap(({ topicNo, dedupId }, i) => (dedupId === null || projectOf(i) === null ? [] : [[topicNo, dedupId]]));
  const remembered = await tx.each<First & { until: number }>("send.first", asked);
  const stored = new Set(remembered.filter(({ until }) => until > tx.now).map((row) => `${row.queue_no} ${row.key}`));
  const admission = createAdmission(quotas, { projectOf, together: () => 0, fresh: () => 1 });
  rows.forEach(({ topicNo, dedupId }, i) => {
    const key = dedupId === null ? null : `${topicNo} ${dedupId}`;
    if (key !== null && stored.has(key)) return;
    if (!admission.admits(i)) over.add(i);
    else {
      admission.takes(i);
      if (key !== null) stored.add(key);
    }
  });
  return over;
}

interface First {
  key: string;
  queue_no: number;
  seq: number;
  sent_at: number;
}

/** The first publications that rows repeat, by row. A topic's number stands for a queue's in the memory of deduplication ids. */
async function firstOf(
  tx: Tx,
  rows: readonly Publication[],
  numbers: readonly number[],
  topics: ReadonlyMap<number, TopicNow>,
  over: ReadonlySet<number>,
): Promise<Map<number, { no: number; at: number }>> {
  const owner = new Map<string, number>();
  const claims: [number, string, number, number, number][] = [];
  const repeats: [number, string][] = [];
  rows.forEach(({ topicNo, dedupId }, i) => {
    if (dedupId === null || !topics.has(topicNo) || over.has(i)) return;
    const key = `${topicNo} ${dedupId}`;
    if (owner.has(key)) repeats.push([i, key]);
    else {
      owner.set(key, i);
      claims.push([topicNo, dedupId, numbers[i] as number, tx.now, tx.now + DEDUPLICATION_MS]);
    }
  });
  const found = new Map<number, { no: number; at: number }>();
  if (claims.length === 0) return found;
  claims.sort(([a, x], [b, y]) => a - b || (x < y ? -1 : 1));
  const taken = new Set((await tx.each<First>("send.dedup", claims)).map((row) => `${row.queue_no} ${row.key}`));
  const lost = claims.filter(([no, key]) => !taken.has(`${no} ${key}`)).map(([no, key]) => [no, key]);
  for (const row of await tx.each<First>("send.first", lost))
    found.set(owner.get(`${row.queue_no} ${row.key}`) as number, { no: row.seq, at: row.sent_at });
  for (const [i, key] of repeats) {
    const original = owner.get(key) as number;
    found.set(i, found.get(original) ?? { no: numbers[original] as number, at: tx.now });
  }
  return found;
}

/** Up to `limit` notifications, by number after `after`, whose fan-out is not complete, from before `olderThanMs` ago: oldest first. */
async function openNotifications(tx: Tx, after: number, limit: number, olderThanMs: number): Promise<Notification[]> {
  const rows = await tx.query<{ no: number }>(
    `SELECT n.no FROM notification AS n WHERE n.state <> 'complete' AND n.no > :after AND n.accepted_at <= :until ORDER BY n.no LIMIT :limit`,
    { after, limit, until: tx.now - olderThanMs },
  );
  return readNotifications(
    tx,
    rows.map(({ no }) => no),
  );
}

/** The notifications of these numbers that are there, by number. */
async function readNotifications(tx: Tx, nos: readonly number[]): Promise<Notification[]> {
  const rows = await tx.each(
    "notification.read",
    nos.map((no) => [no]),
  );
  return rows.map(notificationOf).sort((a, b) => a.no - b.no);
}

/** What a publication has come to (T4); `null` when the project has none of this id. */
async function fanOutState(tx: Tx, projectNo: number, id: string): Promise<FanOutState | null> {
  const origin = readMessageId(id)?.origin;
  if (origin === undefined) return null;
  const [row] = await tx.query(
    `SELECT n.no, n.topic_no, n.members, n.state, n.matched, n.accepted_at, n.completed_at, n.subject FROM notification AS n
     JOIN topic AS t ON t.no = n.topic_no WHERE n.no = :origin AND t.project_no = :projectNo`,
    { origin, projectNo },
  );
  if (row === undefined || messageId(Number(row.accepted_at), origin) !== id.toLowerCase()) return null;
  const counts = { delivered: 0, failed: 0, cancelled: 0, pending: 0 };
  for (const { state, n } of await tx.query<{ state: keyof typeof counts; n: number }>(
    `SELECT CASE WHEN d.ended_at IS NULL AND s.ended_at IS NOT NULL THEN 'cancelled' ELSE d.state END AS state, count(*) AS n
     FROM delivery AS d JOIN topic_subscription AS s ON s.no = d.subscription_no WHERE d.notification_no = :origin GROUP BY 1`,
    { origin },
  ))
    counts[state] = Number(n);
  return {
    no: origin,
    messageId: id.toLowerCase(),
    topicNo: Number(row.topic_no),
    state: row.state as FanOutState["state"],
    acceptedAt: Number(row.accepted_at),
    completedAt: row.completed_at === null ? null : Number(row.completed_at),
    subject: row.subject as string | null,
    members: Number(row.members),
    matched: Number(row.matched),
    ...counts,
  };
}

/** The notification of an id as it was published. Throws `notification_not_found`. */
async function findNotification(tx: Tx, projectNo: number, id: string): Promise<Notification> {
  const state = await fanOutState(tx, projectNo, id);
  const [found] = state === null ? [] : await readNotifications(tx, [state.no]);
  if (found === undefined) throw new Fault("notification_not_found", "There is no such notification.");
  return found;
}

/** Every cold verb of notifications. */
export const notificationVerbs = {
  publishNotifications,
  publishTogether,
  openNotifications,
  readNotifications,
  fanOutState,
  findNotification,
};
