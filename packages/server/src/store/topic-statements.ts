/** The hot statements of topics: accepting publications, moving their fan-out on, and the records of deliveries. See `Statement` in `db/db.ts`. */
import type { Statement } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";

/** What a fan-out and its deliveries need of a notification. */
const CONTENT = `n.no, n.topic_no, n.version, n.members, n.walked, n.accepted_at, n.message_group, n.subject, n.attributes, n.structure,
  n.traceparent, n.message`;

/** The statements by name. */
export const topicStatements = {
  "lock.topics": {
    kind: "text",
    params: { topic: "int" },
    text: "SELECT t.no FROM topic AS t WHERE t.no = ANY($1::int[]) ORDER BY t.no FOR SHARE",
  },
  "topic.read": {
    kind: "select",
    params: { topic: "int" },
    select: `SELECT t.no, t.version, t.members, t.fifo,
        (SELECT q.project_no FROM quota AS q WHERE q.project_no = t.project_no) AS quota_of
      FROM topic AS t WHERE t.no = :topic AND t.ended_at IS NULL`,
  },
  "notification.insert": {
    kind: "insert",
    params: {
      no: "bigint",
      topic: "int",
      version: "bigint",
      members: "int",
      state: "text",
      completed: "bigint",
      g: "text",
      dedup: "text",
      subject: "text",
      attributes: "text",
      structure: "text",
      traceparent: "text",
      message: "bytea",
    },
    into: `notification (no, topic_no, version, members, state, walked, matched, accepted_at, completed_at, message_group, dedup_id,
      subject, attributes, structure, traceparent, message)`,
    values:
      ":no, :topic, :version, :members, :state, 0, 0, $now, :completed, :g, :dedup, :subject, :attributes, :structure, :traceparent, :message",
  },
  "notification.read": {
    kind: "select",
    params: { no: "bigint" },
    select: `SELECT ${CONTENT} FROM notification AS n WHERE n.no = :no`,
  },
  "notification.move": {
    kind: "write",
    table: "notification",
    params: { no: "bigint", walked: "int", upto: "int", matched: "int", state: "text", completed: "bigint" },
    head: "UPDATE notification SET walked = :upto, matched = notification.matched + :matched, state = :state, completed_at = :completed",
    where: "notification.no = :no AND notification.walked = :walked AND notification.state <> 'complete'",
    returning: "notification.no AS no",
  },
  "notification.front": {
    kind: "select",
    params: { topic: "int", most: "int" },
    select: `SELECT n.no, n.topic_no, n.walked FROM notification AS n WHERE n.topic_no = :topic AND n.message_group IS NOT NULL
      AND n.state <> 'complete' ORDER BY n.topic_no, n.no LIMIT :most`,
  },

  "queue.waits": {
    kind: "select",
    params: { q: "int" },
    select: `SELECT m.queue_no FROM message AS m WHERE m.queue_no = :q AND m.${ANY_QUEUE} ORDER BY m.queue_no, m.seq LIMIT 1`,
  },

  "delivery.insert": {
    kind: "insert",
    params: {
      no: "bigint",
      notification: "bigint",
      subscription: "int",
      state: "text",
      attempts: "int",
      message: "bigint",
      next: "bigint",
      delivered: "bigint",
      ended: "bigint",
    },
    into: "delivery (no, notification_no, subscription_no, state, attempts, message_no, created_at, next_attempt_at, delivered_at, ended_at)",
    values: ":no, :notification, :subscription, :state, :attempts, :message, $now, :next, :delivered, :ended",
  },
  "delivery.held": {
    kind: "select",
    params: { seq: "bigint", q: "int", receipt: "bigint" },
    select: "SELECT m.seq FROM message AS m WHERE m.seq = :seq AND m.queue_no = :q AND m.receipt = :receipt AND m.due_at > $now LIMIT 1",
  },
  "delivery.settle": {
    kind: "write",
    table: "delivery",
    params: {
      no: "bigint",
      state: "text",
      attempts: "int",
      next: "bigint",
      delivered: "bigint",
      ended: "bigint",
      status: "int",
      error: "text",
      dead: "text",
    },
    head: `UPDATE delivery SET state = :state, attempts = :attempts, next_attempt_at = :next, delivered_at = :delivered, ended_at = :ended,
      last_status = :status, last_error = coalesce(:error, delivery.last_error), dead_letter = :dead`,
    where: "delivery.no = :no AND delivery.ended_at IS NULL",
  },
} as const satisfies Record<string, Statement>;
