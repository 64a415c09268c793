/**
 * Cold verbs: single messages and the contents of a queue. Nothing here hands out a message; what is removed lets its group go on.
 */
import { Fault, type FaultDetails } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";
import { lockQueues } from "./group.ts";
import { messageId, readMessageId } from "./message-id.ts";
import { readQueues } from "./queue-memory.ts";
import { holdQuotas } from "./quota.ts";
import { quotaExceeded } from "./quota-rules.ts";
import { sendResult, storedSend } from "./rows.ts";
import { queuesToLock, quotasOfSend, send } from "./send.ts";
import { keepingIn, type MessageState, STATE, type Stated, statesFrom, withLimits } from "./state.ts";
import { type Deleted, remove, sweepVerbs } from "./sweep.ts";
import { type Tally, writeTally } from "./tally.ts";
import type { MessageMeta, SendRefusal, SendResult, SendRow } from "./types.ts";

export type { MessageState } from "./state.ts";

/** A message as one may look at it without receiving it. */
export interface PeekedMessage {
  seq: number;
  messageId: string;
  state: MessageState;
  /** Cut to the asked length; `bodyBytes` is the whole. */
  body: Uint8Array;
  bodyBytes: number;
  attributes: Record<string, string> | null;
  meta: MessageMeta | null;
  groupKey: string | null;
  sentAt: number;
  deliverAt: number;
  /** Beyond every date when it never expires. */
  expiresAt: number;
  leaseUntil: number | null;
  deliveredAt: number | null;
  deadAt: number | null;
  receives: number;
  attempts: number;
  lastError: string | null;
  /** The queue that dead-lettered it here. */
  sourceNo: number | null;
}

/** Q4. `approximate` above 100,000 messages. Instants are `null` when there is none. */
export interface QueueStats {
  ready: number;
  scheduled: number;
  waiting: number;
  inflight: number;
  dead: number;
  bytes: number;
  sent: number;
  acknowledged: number;
  failed: number;
  deadLettered: number;
  expired: number;
  oldestReadyAt: number | null;
  nextScheduledAt: number | null;
  approximate: boolean;
}

/** Below this many live messages depths are exact. */
const EXACT = 100_000;
/** How many rows one page of a peek looks at for the asked state. */
const LOOKED_AT = 5_000;

interface Peeked extends Stated {
  origin: number;
  body: Uint8Array;
  body_bytes: number;
  attributes: string | null;
  meta: string | null;
  sent_at: number;
  due_at: number;
  expires_at: number;
  receipt: number | null;
  delivered_at: number | null;
  dead_at: number | null;
  receives: number;
  attempts: number;
  last_error: string | null;
  source_no: number | null;
}

const PEEKED = `m.seq, m.origin, ${STATE} AS state, m.attributes, m.meta, m.group_key, m.sent_at, m.due_at, m.expires_at, m.receipt,
  m.delivered_at, m.dead_at, m.receives, m.attempts, m.last_error, m.source_no, length(m.body) AS body_bytes`;

function peeked(row: Peeked): PeekedMessage {
  return {
    seq: row.seq,
    messageId: messageId(row.sent_at, row.origin),
    state: row.state,
    body: row.body,
    bodyBytes: row.body_bytes,
    attributes: row.attributes === null ? null : (JSON.parse(row.attributes) as Record<string, string>),
    meta: row.meta === null ? null : (JSON.parse(row.meta) as MessageMeta),
    groupKey: row.group_key === "" ? null : row.group_key,
    sentAt: row.sent_at,
    deliverAt: row.due_at,
    expiresAt: row.expires_at,
    leaseUntil: row.state === "inflight" ? row.due_at : null,
    deliveredAt: row.delivered_at,
    deadAt: row.dead_at,
    receives: row.receives,
    attempts: row.attempts,
    lastError: row.last_error,
    sourceNo: row.source_no,
  };
}

/**
 * One page of a queue's messages by number, after `after`, of one state or of all. A page looks at a bounded number of rows: it may be
 * short although more follow, which `next` says (`null` at the end). `bodyBytes` bounds each body, `null` gives it whole.
 */
async function peekMessages(
  tx: Tx,
  queueNo: number,
  page: { state: MessageState | null; after: number | null; limit: number; bodyBytes: number | null },
): Promise<{ messages: PeekedMessage[]; next: number | null }> {
  // A part of an empty body is NULL on SQLite.
  const body = page.bodyBytes === null ? "m.body" : "coalesce(substr(m.body, 1, :cut), m.body) AS body";
  const dead = page.state === "dead" ? "AND m.dead_at IS NOT NULL" : "";
  const keeping = await keepingIn(tx, queueNo);
  const { free } = keeping;
  const params = {
    queueNo,
    after: page.after ?? 0,
    rows: page.state === null || page.state === "dead" ? page.limit : LOOKED_AT,
    now: tx.now,
    ...(page.bodyBytes === null ? {} : { cut: page.bodyBytes }),
  };
  const stated = await tx.query<Stated>(
    `SELECT m.seq, m.group_key, ${STATE} AS state FROM message AS m WHERE m.queue_no = :queueNo AND m.${ANY_QUEUE} AND m.seq > :after ${dead}
     ORDER BY m.seq LIMIT :rows`,
    { queueNo, after: params.after, rows: params.rows, now: tx.now, free },
  );
  const seen = await withLimits(tx, queueNo, keeping, stated);
  const fitting = seen.filter((row) => page.state === null || row.state === page.state).slice(0, page.limit);
  const more = seen.length === params.rows || fitting.length === page.limit;
  const last = fitting.length === page.limit ? fitting.at(-1) : seen.at(-1);
  if (fitting.length === 0) return { messages: [], next: more ? (last?.seq ?? null) : null };
  const rows = await tx.query<Peeked>(
    `SELECT ${PEEKED}, ${body} FROM message AS m WHERE m.seq IN (${fitting.map((row) => row.seq).join(", ")}) ORDER BY m.seq`,
    params.cut === undefined ? { now: tx.now, free } : { now: tx.now, free, cut: params.cut },
  );
  const states = new Map(fitting.map((row) => [row.seq, row.state]));
  const messages = rows.map((row) => peeked({ ...row, state: states.get(row.seq) ?? row.state }));
  return { messages, next: more ? (last?.seq ?? null) : null };
}

/** The number of a message of a queue by its id; `null` when there is none. */
async function seqOf(tx: Tx, queueNo: number, id: string): Promise<number | null> {
  const made = readMessageId(id);
  if (made === null) return null;
  const params = { queueNo, origin: made.origin };
  const [kept] = await tx.query<{ seq: number; sent_at: number }>(
    "SELECT m.seq, m.sent_at FROM message AS m WHERE m.seq = :origin AND m.queue_no = :queueNo AND m.origin = :origin",
    params,
  );
  const [moved] =
    kept !== undefined
      ? [kept]
      : await tx.query<{ seq: number; sent_at: number }>(
          "SELECT m.seq, m.sent_at FROM message AS m WHERE m.origin = :origin AND m.origin <> m.seq AND m.queue_no = :queueNo",
          params,
        );
  return moved === undefined || moved.sent_at !== made.sentAt ? null : moved.seq;
}

/** A message of a queue by its id, whole; `null` when there is none. */
async function getMessage(tx: Tx, queueNo: number, id: string): Promise<PeekedMessage | null> {
  const seq = await seqOf(tx, queueNo, id);
  if (seq === null) return null;
  const keeping = await keepingIn(tx, queueNo);
  const params = { seq, now: tx.now, free: keeping.free };
  const found = await tx.query<Peeked>(`SELECT ${PEEKED}, m.body FROM message AS m WHERE m.seq = :seq`, params);
  const [row] = await withLimits(tx, queueNo, keeping, found);
  return row === undefined ? null : peeked(row);
}

/** Deletes a message by its id, in whatever state it is; `false` when there is none. */
async function deleteMessage(tx: Tx, queueNo: number, id: string): Promise<boolean> {
  const seq = await seqOf(tx, queueNo, id);
  if (seq === null) return false;
  const rows = await tx.query<{ seq: number; queue_no: number; group_key: string | null }>(
    "SELECT m.seq, m.queue_no, m.group_key FROM message AS m WHERE m.seq = :seq",
    { seq },
  );
  return (await remove(tx, rows, "message.delete", (row) => [row.seq, row.queue_no], null)).length > 0;
}

/**
 * Deletes up to `limit` messages of a queue, all or the dead ones, and none sent after `uptoSeq` (`null`: the caller's first step,
 * which draws the bound). The caller goes on until `done`. What a send's deduplication id stands for is not forgotten (Q11).
 */
async function purge(
  tx: Tx,
  queueNo: number,
  scope: "all" | "dead",
  uptoSeq: number | null,
  limit: number,
): Promise<{ purged: number; uptoSeq: number; done: boolean }> {
  const upto = uptoSeq ?? ((await tx.sequence(1))[0] as number);
  const dead = scope === "dead" ? "AND m.dead_at IS NOT NULL" : "";
  const rows = await tx.query<{ seq: number; queue_no: number; group_key: string | null }>(
    `SELECT m.seq, m.queue_no, m.group_key FROM message AS m WHERE m.queue_no = :queueNo AND m.${ANY_QUEUE} AND m.seq <= :upto ${dead}
     ORDER BY ${scope === "dead" ? "m.dead_at, m.seq" : "m.queue_no, m.seq"} LIMIT :limit`,
    { queueNo, upto, limit },
  );
  const gone: Deleted[] = await remove(tx, rows, "message.delete", (row) => [row.seq, row.queue_no], null);
  return { purged: gone.length, uptoSeq: upto, done: rows.length < limit };
}

/** A queue's depths and counts (Q4). */
async function stats(tx: Tx, queueNo: number): Promise<QueueStats> {
  const [sums] = await tx.query<Record<"live" | "dead" | "bytes" | "sent" | "acked" | "failed" | "buried" | "expired", number>>(
    `SELECT coalesce(sum(live), 0) AS live, coalesce(sum(dead), 0) AS dead, coalesce(sum(bytes), 0) AS bytes, coalesce(sum(sent), 0) AS sent,
     coalesce(sum(acked), 0) AS acked, coalesce(sum(failed), 0) AS failed, coalesce(sum(buried), 0) AS buried,
     coalesce(sum(expired), 0) AS expired FROM tally WHERE queue_no = :queueNo`,
    { queueNo },
  );
  const total = sums ?? { live: 0, dead: 0, bytes: 0, sent: 0, acked: 0, failed: 0, buried: 0, expired: 0 };
  const exact = total.live <= EXACT;
  const keeping = await keepingIn(tx, queueNo);
  const counted = await tx.query<{ state: MessageState; n: number }>(
    `SELECT s.state, count(*) AS n FROM (${statesFrom(keeping)}) AS s GROUP BY s.state`,
    { queueNo, now: tx.now, most: exact ? EXACT : EXACT / 10, ...keeping.params },
  );
  const depth = { ready: 0, scheduled: 0, waiting: 0, inflight: 0, dead: 0 };
  for (const { state, n } of counted) depth[state] = n;
  if (!exact) depth.ready = Math.max(0, total.live - depth.scheduled - depth.waiting - depth.inflight);
  const [line] = await tx.query<{ oldest: number | null; next: number | null; later: number | null }>(
    `SELECT (SELECT m.due_at FROM message AS m WHERE m.queue_no = :queueNo AND m.line_at <= :now ORDER BY m.line_at, m.seq LIMIT 1) AS oldest,
     (SELECT m.line_at FROM message AS m WHERE m.queue_no = :queueNo AND m.line_at > :now AND m.receipt IS NULL
       ORDER BY m.line_at LIMIT 1) AS next,
     (SELECT m.later_at FROM message AS m WHERE m.queue_no = :queueNo AND m.later_at > :now AND m.receipt IS NULL
       ORDER BY m.later_at LIMIT 1) AS later`,
    { queueNo, now: tx.now },
  );
  const next = [line?.next, line?.later].filter((at): at is number => at != null);
  return {
    ...depth,
    dead: total.dead,
    bytes: total.bytes,
    sent: total.sent,
    acknowledged: total.acked,
    failed: total.failed,
    deadLettered: total.buried,
    expired: total.expired,
    oldestReadyAt: line?.oldest ?? null,
    nextScheduledAt: next.length === 0 ? null : Math.min(...next),
    approximate: !exact,
  };
}

/** Sends in the caller's transaction; a client's sends go by its project's quota. */
async function sendRows(tx: Tx, rows: readonly SendRow[], ofClient: boolean): Promise<SendResult[]> {
  const queues = await readQueues(
    tx,
    rows.map((row) => row.queueNo),
  );
  const stored = rows.map(storedSend);
  const quotas = ofClient ? await holdQuotas(tx, quotasOfSend(stored, queues)) : undefined;
  lockQueues(tx, queuesToLock(stored, queues));
  const tally: Tally = new Map();
  const results = await send(tx, stored, queues, tally, quotas);
  writeTally(tx, tally);
  return results.map(sendResult);
}

const refusal = (tx: Tx, refused: SendRefusal, message: string, details?: FaultDetails): Fault =>
  refused === "quota_exceeded" ? quotaExceeded(tx.now, details) : new Fault(refused, message, details);

/** Sends all rows or none: a client's send under an idempotency key. Throws `queue_not_found`, `backlog_full` or `quota_exceeded`. */
async function sendMessages(tx: Tx, rows: SendRow[]): Promise<SendResult[]> {
  const results = await sendRows(tx, rows, true);
  results.forEach((result, index) => {
    if (!("refused" in result)) return;
    const message = result.refused === "backlog_full" ? "The queue is full." : "There is no such queue.";
    throw refusal(tx, result.refused, message, { path: `messages.${index}`, index });
  });
  return results;
}

async function sendSome(tx: Tx, rows: readonly SendRow[], ofClient: boolean): Promise<SendResult[]> {
  const results = await sendRows(tx, rows, ofClient);
  const refused = results.flatMap((result) => ("refused" in result ? [result.refused] : []));
  if (refused[0] !== undefined && refused.length === results.length) throw refusal(tx, refused[0], "Nothing could be stored.");
  return results;
}

/** Sends what can be sent for a client, and answers each row; when nothing could be stored it throws the first refusal. */
const sendEach = (tx: Tx, rows: SendRow[]): Promise<SendResult[]> => sendSome(tx, rows, true);

/** As `sendEach` for the server itself, in the transaction of what it is sent for: it goes by no quota. */
export const sendOwn = (tx: Tx, rows: readonly SendRow[]): Promise<SendResult[]> => sendSome(tx, rows, false);

/** Up to `limit` messages of a queue by number, of one state or of all, after the first `offset`; bodies cut to `bodyBytes`. */
async function listMessages(
  tx: Tx,
  queueNo: number,
  page: { state: MessageState | null; offset: number; limit: number; bodyBytes: number },
): Promise<PeekedMessage[]> {
  const { state, offset, limit } = page;
  const keeping = await keepingIn(tx, queueNo);
  // Of a state that only the clock knows, no more than the first 100,000 messages are looked at.
  const seqs =
    state === null || state === "dead"
      ? await tx.query<{ seq: number }>(
          `SELECT m.seq FROM message AS m WHERE m.queue_no = :queueNo AND m.${ANY_QUEUE} ${state === null ? "" : "AND m.dead_at IS NOT NULL"}
           ORDER BY m.queue_no, m.seq LIMIT :limit OFFSET :offset`,
          { queueNo, limit, offset },
        )
      : await tx.query<{ seq: number }>(
          `SELECT s.seq FROM (${statesFrom(keeping)}) AS s WHERE s.state = :state ORDER BY s.seq LIMIT :rows OFFSET :offset`,
          { queueNo, now: tx.now, most: EXACT, state, rows: limit, offset, ...keeping.params },
        );
  if (seqs.length === 0) return [];
  const rows = await tx.query<Peeked>(
    `SELECT ${PEEKED}, coalesce(substr(m.body, 1, :cut), m.body) AS body FROM message AS m WHERE m.seq IN (${seqs.map(({ seq }) => seq).join(", ")})
     ORDER BY m.seq`,
    { now: tx.now, free: keeping.free, cut: page.bodyBytes },
  );
  return (await withLimits(tx, queueNo, keeping, rows)).map(peeked);
}

export { moveDeadLetters } from "./move.ts";

/** Cold verbs: message. */
export const messageVerbs = {
  peekMessages,
  listMessages,
  getMessage,
  messageSeq: seqOf,
  deleteMessage,
  purge,
  stats,
  sendMessages,
  sendEach,
  ...sweepVerbs,
};
