/**
 * The hot statements, one text for both engines (see `Statement` in `db/db.ts`). The line's rules are in `docs/storage.md`.
 * Groups are sought by comparing rows with the index's own order and a LIMIT, and keyed writes name their numbers: with plain
 * equalities PostgreSQL may walk the primary key instead, which reads a whole backlog.
 */
import type { Statement, Statements } from "../db/db.ts";
import { NEVER } from "./queue-memory.ts";
import { topicStatements } from "./topic-statements.ts";
import { workflowStatements } from "./workflow-statements.ts";

/** A column as a condition on it needs it beside the message's number: served by no index, else PostgreSQL may prefer that one. */
const LATER_AT = `coalesce(message.later_at, ${NEVER})`;
const EXPIRES_AT = "message.expires_at + 0";
/** The rows a lease still holds. */
const HELD = "message.seq = :seq AND message.queue_no = :q AND message.receipt = :receipt AND message.due_at > $now";
/** The rows whose lease holds, or whose last attempt has lapsed. */
const ENDED = `message.seq = :seq AND message.queue_no = :q AND message.receipt = :receipt
  AND ((:lapse = 0 AND message.due_at > $now) OR (:lapse = 1 AND message.final_at <= $now))`;
const BYTES = "length(message.body) + coalesce(octet_length(message.attributes), 0) AS bytes";
const WHO = `message.seq AS seq, message.queue_no AS queue_no, message.group_key AS group_key, ${BYTES}`;
/** What dead-lettering sets besides the place. */
const RESTART = "receipt = NULL, later_at = NULL, held_key = NULL, final_at = NULL";

/** The members of a group that are present, after `seq`, in order. */
const members = (columns: string, seq: string, limit: string) => `SELECT ${columns} FROM message AS m
  WHERE (m.queue_no, m.group_key, m.seq) > (:q, :g, ${seq}) AND m.group_key IS NOT NULL AND m.dead_at IS NULL AND m.later_at IS NULL
  ORDER BY m.queue_no, m.group_key, m.seq LIMIT ${limit}`;
/** The head of a group: its lowest present number. */
const head = (columns: string) =>
  `SELECT s.* FROM (${members(`m.seq, m.queue_no, m.group_key${columns}`, "0", "1")}) AS s WHERE s.queue_no = :q AND s.group_key = :g`;

/** How many of those who were away and are due, or whose last lease has lapsed, are looked at to tell a group's states. */
const LOOKED_AT = 500;

/** What a claim reads of a message; attempts and receives already count it. */
const CLAIMED = `m.seq, m.queue_no, m.origin, m.group_key, m.receives + 1 AS receives, m.attempts + 1 AS attempts, m.attempts AS spent,
  m.sent_at, m.expires_at`;
/** A lease in an ordered group or without one moves the place in the line; in other groups the message steps away until the lease ends. */
const lease = (
  from: string,
) => `due_at = ${from}until, receives = ${from}receives, attempts = ${from}attempts, held_key = message.group_key,
  receipt = ${from}receipt + CASE WHEN message.group_key IS NULL THEN 0 ELSE 1 END, delivered_at = $now,
  final_at = CASE WHEN ${from}attempts >= ${from}most THEN ${from}until END,
  later_at = CASE WHEN ${from}shared = 1 AND message.group_key IS NOT NULL THEN CASE WHEN ${from}attempts >= ${from}most THEN ${NEVER} ELSE ${from}until END END`;

const LINE: Statement = {
  kind: "select",
  params: { q: "int", line: "bigint", later: "bigint", until: "bigint" },
  select: `SELECT :q AS queue_no, (SELECT m.line_at FROM message AS m WHERE m.queue_no = :q AND m.line_at >= :line AND m.line_at <= :until
      ORDER BY m.line_at LIMIT 1) AS line_at, (SELECT m.later_at FROM message AS m
      WHERE m.queue_no = :q AND m.later_at >= :later AND m.later_at <= :until ORDER BY m.later_at LIMIT 1) AS later_at`,
};

/** Every hot statement by name; the name begins with the verb that owns it. */
export const statements = {
  ...topicStatements,
  ...workflowStatements,

  "queue.read": {
    kind: "select",
    params: { no: "int" },
    select: `SELECT k.no, k.type, k.settings, (SELECT q.project_no FROM quota AS q WHERE q.project_no = k.project_no) AS quota_of
      FROM queue AS k WHERE k.no = :no`,
  },
  "lock.quotas": {
    kind: "text",
    params: { no: "int" },
    text: "SELECT q.project_no FROM quota AS q WHERE q.project_no = ANY($1::int[]) ORDER BY q.project_no FOR NO KEY UPDATE",
  },
  "quota.read": {
    kind: "select",
    params: { no: "int" },
    select: "SELECT q.project_no, q.max_per_day, q.day, q.sent FROM quota AS q WHERE q.project_no = :no",
  },
  "quota.add": {
    kind: "write",
    table: "quota",
    params: { project_no: "int", today: "int", added: "int" },
    head: "UPDATE quota SET sent = CASE WHEN day = :today THEN sent ELSE 0 END + :added, day = :today",
    where: "quota.project_no = :project_no",
  },
  "lock.queues": {
    kind: "text",
    params: { q: "int" },
    text: "SELECT pg_advisory_xact_lock(7401, t.q) FROM (SELECT r.q FROM {rows} ORDER BY r.q) AS t",
  },
  "fence.hold": {
    kind: "text",
    params: { slot: "int" },
    text: "SELECT pg_advisory_xact_lock_shared(7403, t.slot) FROM (SELECT r.slot FROM {rows} ORDER BY r.slot) AS t",
  },
  "fence.read": {
    kind: "select",
    params: { slot: "int" },
    select: "SELECT k.no AS slot, k.token FROM slot AS k WHERE k.no = :slot",
  },
  "slot.lock": {
    kind: "text",
    params: { slot: "int" },
    text: "SELECT pg_advisory_xact_lock(7403, t.slot) FROM (SELECT r.slot FROM {rows} ORDER BY r.slot) AS t",
  },
  "slot.try": {
    kind: "text",
    params: { slot: "int" },
    text: `SELECT t.slot AS no FROM (SELECT r.slot AS slot, pg_try_advisory_xact_lock(7403, r.slot) AS held FROM {rows}) AS t WHERE t.held`,
  },
  "slot.pass": {
    kind: "text",
    params: { slot: "int", node: "text" },
    text: `UPDATE slot SET node_id = r.node, token = slot.token + 1 FROM {rows} WHERE slot.no = r.slot AND slot.no = ANY($1::int[])
      RETURNING slot.no, slot.token`,
  },
  "lock.rows": {
    kind: "text",
    params: { seq: "bigint" },
    text: "SELECT m.seq FROM message AS m WHERE m.seq = ANY($1::bigint[]) ORDER BY m.seq FOR NO KEY UPDATE",
  },
  "lock.groups": {
    kind: "text",
    params: { seq: "bigint" },
    text: `SELECT m.seq FROM message AS m WHERE m.seq = ANY(ARRAY(SELECT x.seq FROM (SELECT DISTINCT w.queue_no AS "q", w.group_key AS "g"
      FROM message AS w WHERE w.seq = ANY($1::bigint[]) AND w.group_key IS NOT NULL) AS r CROSS JOIN LATERAL (${head("")}) AS x))
      ORDER BY m.seq FOR NO KEY UPDATE`,
  },
  "lock.heads": {
    kind: "text",
    params: { q: "int", g: "text" },
    text: `SELECT m.seq FROM message AS m WHERE m.seq = ANY(ARRAY(SELECT x.seq FROM {rows} CROSS JOIN LATERAL (${head("")}) AS x))
      ORDER BY m.seq FOR NO KEY UPDATE`,
  },

  "send.dedup": {
    kind: "insert",
    params: { q: "int", key: "text", seq: "bigint", deliver: "bigint", until: "bigint" },
    into: "dedup (queue_no, key, seq, sent_at, deliver_at, until)",
    values: ":q, :key, :seq, $now, :deliver, :until",
    conflict: `ON CONFLICT (queue_no, key) DO UPDATE SET seq = excluded.seq, sent_at = excluded.sent_at, deliver_at = excluded.deliver_at,
      until = excluded.until WHERE dedup.until <= excluded.sent_at`,
    answer: { queue_no: "q", key: "key" },
  },
  "send.first": {
    kind: "select",
    params: { q: "int", key: "text" },
    select: "SELECT d.queue_no, d.key, d.seq, d.sent_at, d.deliver_at, d.until FROM dedup AS d WHERE d.queue_no = :q AND d.key = :key",
  },
  "send.bytes": {
    kind: "select",
    params: { q: "int" },
    select: "SELECT :q AS queue_no, coalesce(sum(t.bytes), 0) AS bytes FROM tally AS t WHERE t.queue_no = :q",
  },
  "send.headed": { kind: "select", params: { q: "int", g: "text" }, select: head("") },
  "send.insert": {
    kind: "insert",
    params: {
      seq: "bigint",
      q: "int",
      line: "bigint",
      later: "bigint",
      due: "bigint",
      expires: "bigint",
      g: "text",
      attributes: "text",
      meta: "text",
      body: "bytea",
    },
    into: `message (seq, queue_no, origin, line_at, later_at, due_at, sent_at, expires_at, group_key, attributes, meta, body,
      receives, attempts)`,
    values: ":seq, :q, :seq, :line, :later, :due, $now, :expires, :g, :attributes, :meta, :body, 0, 0",
  },

  "group.head": { kind: "select", params: { q: "int", g: "text" }, select: head(", m.line_at") },
  "group.flying": {
    kind: "select",
    params: { q: "int", g: "text", most: "int" },
    select: `SELECT :q AS queue_no, :g AS group_key, count(*) AS n FROM (SELECT 1 AS one FROM message AS b
      WHERE b.queue_no = :q AND b.held_key = :g AND b.due_at > $now LIMIT :most) AS c`,
  },
  "group.promote": {
    kind: "take",
    params: { q: "int", g: "text" },
    pick: `SELECT a.seq, {greatest}($now, a.due_at, coalesce((SELECT max(b.due_at) FROM message AS b
      WHERE b.queue_no = :q AND b.held_key = :g), 0)) AS at, :q AS queue_no FROM (${head(", m.due_at, m.final_at")}) AS a
      WHERE a.final_at IS NULL`,
    carry: [],
    set: "line_at = due.at",
  },
  "group.turn": {
    kind: "take",
    params: { q: "int", g: "text", most: "int" },
    pick: `SELECT h.seq, $now AS at, :q AS queue_no FROM (${head(", m.line_at")}) AS h WHERE h.line_at IS NULL AND (:most IS NULL OR
      (SELECT count(*) FROM (SELECT 1 AS one FROM message AS b WHERE b.queue_no = :q AND b.held_key = :g AND b.due_at > $now LIMIT :most) AS c)
        < :most)`,
    carry: [],
    set: "line_at = due.at",
  },
  "group.arrivals": {
    kind: "select",
    params: { q: "int", from: "bigint", n: "int" },
    select: `SELECT m.seq, m.queue_no, m.group_key, m.later_at FROM message AS m
      WHERE m.queue_no = :q AND m.later_at >= :from AND m.later_at <= $now ORDER BY m.later_at LIMIT :n`,
  },
  "group.join": {
    kind: "write",
    params: { seq: "bigint" },
    head: "UPDATE message SET later_at = NULL, held_key = NULL",
    where: `message.seq = :seq AND ${LATER_AT} <= $now`,
    returning: "message.seq AS seq, message.queue_no AS queue_no, message.group_key AS group_key",
  },
  "group.stand": {
    kind: "write",
    params: { seq: "bigint", line: "bigint" },
    head: "UPDATE message SET line_at = :line",
    where: "message.seq = :seq",
  },

  "state.last": {
    kind: "select",
    params: { q: "int", g: "text", n: "int" },
    select: `SELECT :g AS group_key, max(d.seq) AS seq FROM (SELECT u.seq FROM (
      SELECT p.seq FROM (${members("m.seq, m.queue_no, m.group_key", "0", ":n")}) AS p WHERE p.queue_no = :q AND p.group_key = :g
      UNION ALL
      SELECT a.seq FROM (SELECT m.seq, m.group_key FROM message AS m WHERE m.queue_no = :q AND m.later_at <= $now
        ORDER BY m.later_at LIMIT ${LOOKED_AT}) AS a WHERE a.group_key = :g
      UNION ALL
      SELECT f.seq FROM (SELECT m.seq, m.queue_no, m.group_key FROM message AS m WHERE m.final_at <= $now
        ORDER BY m.final_at LIMIT ${LOOKED_AT}) AS f WHERE f.queue_no = :q AND f.group_key = :g
    ) AS u ORDER BY u.seq LIMIT :n) AS d`,
  },

  "claim.heads": {
    kind: "take",
    params: { q: "int", from: "bigint", n: "int", until: "bigint", receipt: "bigint", most: "int", shared: "int" },
    pick: `SELECT ${CLAIMED}, m.line_at AS stood_at{also} FROM message AS m
      WHERE m.queue_no = :q AND m.line_at >= :from AND m.line_at <= $now ORDER BY m.line_at, m.seq LIMIT :n {skipLocked}`,
    carry: ["until", "receipt", "most", "shared"],
    set: `line_at = CASE WHEN due.shared = 1 AND message.group_key IS NOT NULL THEN NULL WHEN due.attempts >= due.most THEN ${NEVER} ELSE due.until END,
      ${lease("due.")}`,
    also: "attributes, meta, body",
  },
  "claim.next": {
    kind: "select",
    params: { q: "int", g: "text", head: "bigint", n: "int" },
    select: members(`${CLAIMED}, :q AS wanted_no, :g AS wanted, m.due_at, m.final_at, m.attributes, m.meta, m.body`, ":head", ":n"),
  },
  "claim.lease": {
    kind: "write",
    params: {
      seq: "bigint",
      until: "bigint",
      receipt: "bigint",
      receives: "int",
      attempts: "int",
      most: "int",
      shared: "int",
    },
    head: `UPDATE message SET ${lease(":")}`,
    where: "message.seq = :seq",
  },
  "claim.line": LINE,

  "settle.ack": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint" },
    head: "DELETE FROM message",
    where: HELD,
    returning: WHO,
  },
  "settle.retry": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", at: "bigint", undo: "int", anyway: "int", shared: "int", error: "text" },
    head: `UPDATE message SET receipt = NULL, due_at = :at, final_at = NULL, attempts = attempts - :undo,
      last_error = coalesce(:error, last_error), line_at = CASE WHEN group_key IS NULL THEN :at END,
      later_at = CASE WHEN :shared = 1 AND group_key IS NOT NULL THEN :at END, held_key = CASE WHEN :shared = 1 THEN NULL ELSE held_key END`,
    where: `${HELD} AND ${EXPIRES_AT} > $now AND (message.final_at IS NULL OR :anyway = 1)`,
    returning: WHO,
  },
  "settle.extend": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", at: "bigint" },
    head: `UPDATE message SET due_at = :at, final_at = CASE WHEN final_at IS NOT NULL THEN :at END,
      line_at = CASE WHEN group_key IS NULL AND final_at IS NULL THEN :at ELSE line_at END,
      later_at = CASE WHEN later_at IS NOT NULL AND final_at IS NULL THEN :at ELSE later_at END`,
    where: HELD,
    returning: WHO,
  },
  "settle.expire": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", lapse: "int" },
    head: "DELETE FROM message",
    where: `${ENDED} AND ${EXPIRES_AT} <= $now`,
    returning: WHO,
  },
  "settle.which": {
    kind: "select",
    params: { seq: "bigint", q: "int" },
    select: "SELECT m.seq FROM message AS m WHERE m.seq = :seq AND m.queue_no = :q LIMIT 1",
  },
  "bury.list": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", lapse: "int", error: "text", expires: "bigint" },
    head: `UPDATE message SET ${RESTART}, line_at = NULL, dead_at = $now, expires_at = :expires, last_error = coalesce(:error, last_error)`,
    where: ENDED,
    returning: WHO,
  },
  "bury.drop": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", lapse: "int" },
    head: "DELETE FROM message",
    where: ENDED,
    returning: WHO,
  },
  "bury.move": {
    kind: "write",
    params: {
      seq: "bigint",
      q: "int",
      receipt: "bigint",
      lapse: "int",
      error: "text",
      to: "int",
      fresh: "bigint",
      expires: "bigint",
      common: "int",
    },
    head: `UPDATE message SET ${RESTART}, source_no = queue_no, queue_no = :to, seq = :fresh, due_at = $now, expires_at = :expires,
      group_key = CASE WHEN :common = 1 THEN coalesce(group_key, '') ELSE nullif(group_key, '') END,
      line_at = CASE WHEN :common = 1 OR nullif(group_key, '') IS NOT NULL THEN NULL ELSE $now END,
      receives = 0, attempts = 0, last_error = coalesce(:error, last_error)`,
    where: ENDED,
    returning: `:seq AS was, :fresh AS seq, :q AS queue_no, nullif(message.group_key, '') AS group_key, ${BYTES}`,
  },
  "bury.stay": {
    kind: "write",
    params: { seq: "bigint", q: "int", receipt: "bigint", lapse: "int", at: "bigint", shared: "int", error: "text" },
    head: `UPDATE message SET receipt = NULL, due_at = :at, final_at = NULL, last_error = :error,
      line_at = CASE WHEN group_key IS NULL THEN :at END, later_at = CASE WHEN :shared = 1 AND group_key IS NOT NULL THEN :at END,
      held_key = CASE WHEN :shared = 1 THEN NULL ELSE held_key END`,
    where: ENDED,
    returning: WHO,
  },

  "sweep.lapsed": {
    kind: "select",
    params: { n: "int" },
    select: `SELECT m.seq, m.queue_no, m.group_key, m.receipt FROM message AS m WHERE m.final_at <= $now ORDER BY m.final_at LIMIT :n`,
  },
  "sweep.expired": {
    kind: "select",
    params: { n: "int" },
    select: `SELECT m.seq, m.queue_no, m.group_key FROM message AS m
      WHERE m.expires_at <= $now AND (m.receipt IS NULL OR m.due_at <= $now) ORDER BY m.expires_at LIMIT :n`,
  },
  "sweep.delete": {
    kind: "write",
    params: { seq: "bigint" },
    head: "DELETE FROM message",
    where: `message.seq = :seq AND ${EXPIRES_AT} <= $now AND (message.receipt IS NULL OR message.due_at <= $now)`,
    returning: `${WHO}, message.dead_at AS dead_at, message.line_at AS line_at, message.held_key AS held_key`,
  },
  "sweep.dedup": {
    kind: "select",
    params: { n: "int" },
    select: "SELECT d.queue_no, d.key FROM dedup AS d WHERE d.until <= $now ORDER BY d.until LIMIT :n",
  },
  "dedup.delete": {
    kind: "write",
    table: "dedup",
    params: { q: "int", key: "text" },
    head: "DELETE FROM dedup",
    where: "dedup.queue_no = :q AND dedup.key = :key AND dedup.until <= $now",
    returning: "dedup.queue_no AS queue_no, dedup.key AS key",
  },
  "message.delete": {
    kind: "write",
    params: { seq: "bigint", q: "int" },
    head: "DELETE FROM message",
    where: "message.seq = :seq AND message.queue_no = :q",
    returning: `${WHO}, message.dead_at AS dead_at, message.line_at AS line_at, message.held_key AS held_key`,
  },
  "redrive.read": {
    kind: "select",
    params: { seq: "bigint", q: "int" },
    select:
      "SELECT m.seq, m.queue_no, m.group_key, m.source_no, m.dead_at FROM message AS m WHERE m.seq = :seq AND m.queue_no = :q LIMIT 1",
  },
  "redrive.move": {
    kind: "write",
    params: { seq: "bigint", fresh: "bigint", q: "int", to: "int", expires: "bigint", common: "int", dead: "int" },
    head: `UPDATE message SET ${RESTART}, queue_no = :to, seq = :fresh, dead_at = NULL, due_at = $now, expires_at = :expires,
      group_key = CASE WHEN :common = 1 THEN coalesce(group_key, '') ELSE nullif(group_key, '') END,
      line_at = CASE WHEN :common = 1 OR nullif(group_key, '') IS NOT NULL THEN NULL ELSE $now END, receives = 0, attempts = 0`,
    where: `message.seq = :seq AND message.queue_no = :q AND ((:dead = 1 AND message.dead_at IS NOT NULL)
      OR (:dead = 0 AND message.dead_at IS NULL AND (message.receipt IS NULL OR message.due_at <= $now)))`,
    returning: `:seq AS was, :fresh AS seq, nullif(message.group_key, '') AS group_key, ${BYTES}`,
  },

  "tally.add": {
    kind: "insert",
    params: {
      q: "int",
      slot: "int",
      live: "bigint",
      dead: "bigint",
      bytes: "bigint",
      sent: "bigint",
      acked: "bigint",
      failed: "bigint",
      buried: "bigint",
      expired: "bigint",
    },
    into: "tally (queue_no, slot, live, dead, bytes, sent, acked, failed, buried, expired)",
    values: ":q, :slot, :live, :dead, :bytes, :sent, :acked, :failed, :buried, :expired",
    conflict: `ON CONFLICT (queue_no, slot) DO UPDATE SET live = tally.live + excluded.live, dead = tally.dead + excluded.dead,
      bytes = tally.bytes + excluded.bytes, sent = tally.sent + excluded.sent, acked = tally.acked + excluded.acked,
      failed = tally.failed + excluded.failed, buried = tally.buried + excluded.buried, expired = tally.expired + excluded.expired`,
  },
} as const satisfies Statements;

/** The names of the hot statements. */
export type StatementName = keyof typeof statements;
