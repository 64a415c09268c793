/**
 * Delivery records (T12): read, tried once more, cancelled with their subscription (T14), and removed 14 days after they ended. What is
 * under way is told from the message: a record is written when an attempt ends, not when it begins.
 */
import { Fault } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { type DeliveryError, deliveryBody } from "./delivery.ts";
import { sendOwn } from "./message.ts";
import { messageId, readMessageId } from "./message-id.ts";

/** For so long records and notifications are kept after their end. */
export const KEPT_MS = 14 * 86_400_000;
/** How many rows a page looks at for the asked state, and up to how many records are counted. */
const LOOKED_AT = 5_000;
const COUNTED = 10_000;

/** A record. Times in milliseconds since 1970. */
export interface DeliveryRow {
  no: number;
  id: string;
  messageId: string;
  notificationNo: number;
  subscriptionNo: number;
  subscriptionId: string;
  topicNo: number;
  state: "pending" | "delivering" | "delivered" | "failed" | "cancelled";
  attempts: number;
  createdAt: number;
  nextAttemptAt: number | null;
  deliveredAt: number | null;
  lastStatus: number | null;
  lastError: DeliveryError | null;
  deadLetter: "stored" | "missing" | "full" | null;
}

const STATE = `CASE WHEN d.ended_at IS NOT NULL THEN d.state WHEN s.ended_at IS NOT NULL THEN 'cancelled'
  WHEN m.receipt IS NOT NULL AND m.due_at > :now THEN 'delivering' ELSE d.state END`;
const RECORD = `SELECT d.no, d.notification_no, d.subscription_no, s.id AS subscription_id, s.topic_no, s.queue_no, ${STATE} AS state,
    coalesce(m.attempts, d.attempts) AS attempts, d.created_at, d.next_attempt_at, d.delivered_at, d.last_status, d.last_error, d.dead_letter,
    n.accepted_at, n.message_group FROM delivery AS d
  JOIN topic_subscription AS s ON s.no = d.subscription_no JOIN notification AS n ON n.no = d.notification_no
  LEFT JOIN message AS m ON m.seq = d.message_no AND m.queue_no = s.queue_no AND d.ended_at IS NULL`;

const orNull = (value: unknown): number | null => (value === null ? null : Number(value));

function deliveryOf(row: Row): DeliveryRow {
  const state = row.state as DeliveryRow["state"];
  return {
    no: Number(row.no),
    id: messageId(Number(row.created_at), Number(row.no)),
    messageId: messageId(Number(row.accepted_at), Number(row.notification_no)),
    notificationNo: Number(row.notification_no),
    subscriptionNo: Number(row.subscription_no),
    subscriptionId: String(row.subscription_id),
    topicNo: Number(row.topic_no),
    state,
    attempts: Number(row.attempts),
    createdAt: Number(row.created_at),
    nextAttemptAt: state === "pending" ? orNull(row.next_attempt_at) : null,
    deliveredAt: orNull(row.delivered_at),
    lastStatus: orNull(row.last_status),
    lastError: row.last_error === null ? null : (JSON.parse(String(row.last_error)) as DeliveryError),
    deadLetter: row.dead_letter as DeliveryRow["deadLetter"],
  };
}

async function rowOf(tx: Tx, projectNo: number, id: string): Promise<Row | null> {
  const no = readMessageId(id)?.origin;
  if (no === undefined) return null;
  const [row] = await tx.query(`${RECORD} WHERE d.no = :no AND s.project_no = :projectNo`, { no, projectNo, now: tx.now });
  return row === undefined || messageId(Number(row.created_at), no) !== id.toLowerCase() ? null : row;
}

/** A record of a project by its id; `null` when there is none. */
async function findDelivery(tx: Tx, projectNo: number, id: string): Promise<DeliveryRow | null> {
  const row = await rowOf(tx, projectNo, id);
  return row === null ? null : deliveryOf(row);
}

/** The record of one notification for one subscription; `null` when there is none. */
async function deliveryFor(tx: Tx, notificationNo: number, subscriptionNo: number): Promise<DeliveryRow | null> {
  const [row] = await tx.query(`${RECORD} WHERE d.notification_no = :notificationNo AND d.subscription_no = :subscriptionNo`, {
    notificationNo,
    subscriptionNo,
    now: tx.now,
  });
  return row === undefined ? null : deliveryOf(row);
}

/** The records of one notification for the subscriptions numbered `first` to `last`. */
export async function deliveriesAmong(tx: Tx, notificationNo: number, first: number, last: number): Promise<DeliveryRow[]> {
  const rows = await tx.query(
    `${RECORD} WHERE d.notification_no = :notificationNo AND d.subscription_no >= :first AND d.subscription_no <= :last`,
    { notificationNo, first, last, now: tx.now },
  );
  return rows.map(deliveryOf);
}

/**
 * A page of a subscription's records, newest first, of one state or of all; `before` is the number that the last page ended with. A page
 * may be short although more follow, which `next` says. `total` counts up to 10,000 of all states.
 */
async function listDeliveries(
  tx: Tx,
  subscriptionNo: number,
  page: { state: DeliveryRow["state"] | null; before: number | null; limit: number },
): Promise<{ deliveries: DeliveryRow[]; next: number | null; total: number }> {
  // One more than asked for says whether anything follows.
  const rows = page.state === null ? page.limit + 1 : LOOKED_AT;
  const seen = await tx.query<{ no: number; state: string }>(
    `SELECT d.no, ${STATE} AS state FROM (SELECT * FROM delivery AS e WHERE e.subscription_no = :subscriptionNo AND e.no < :before
       ORDER BY e.subscription_no DESC, e.no DESC LIMIT :rows) AS d JOIN topic_subscription AS s ON s.no = d.subscription_no
     LEFT JOIN message AS m ON m.seq = d.message_no AND m.queue_no = s.queue_no ORDER BY d.no DESC`,
    { subscriptionNo, before: page.before ?? Number.MAX_SAFE_INTEGER, rows, now: tx.now },
  );
  const all = seen.filter(({ state }) => page.state === null || state === page.state);
  const fitting = all.slice(0, page.limit);
  const last = all.length > page.limit ? fitting.at(-1) : seen.at(-1);
  const more = all.length > page.limit || seen.length === rows;
  const deliveries: DeliveryRow[] = [];
  for (const { no } of fitting) {
    const [row] = await tx.query(`${RECORD} WHERE d.no = :no`, { no, now: tx.now });
    if (row !== undefined) deliveries.push(deliveryOf(row));
  }
  const [count] = await tx.query(
    "SELECT count(*) AS n FROM (SELECT 1 AS one FROM delivery AS d WHERE d.subscription_no = :subscriptionNo LIMIT :most) AS c",
    { subscriptionNo, most: COUNTED },
  );
  return { deliveries, next: more && last !== undefined ? last.no : null, total: Number(count?.n ?? 0) };
}

/**
 * Tries a delivery that has ended once more, with fresh attempts. Throws `delivery_not_found`, `delivery_pending` while it has not ended,
 * `subscription_not_found` when its subscription has.
 */
async function redeliver(tx: Tx, projectNo: number, id: string): Promise<DeliveryRow> {
  const row = await rowOf(tx, projectNo, id);
  if (row === null) throw new Fault("delivery_not_found", "there is no such delivery");
  const no = Number(row.no);
  const restarted = await tx.query(
    `UPDATE delivery SET state = 'pending', attempts = 0, ended_at = NULL, delivered_at = NULL, dead_letter = NULL, next_attempt_at = :now
     WHERE no = :no AND ended_at IS NOT NULL AND EXISTS (SELECT 1 FROM topic_subscription AS s WHERE s.no = delivery.subscription_no
       AND s.ended_at IS NULL) RETURNING no`,
    { no, now: tx.now },
  );
  if (restarted.length === 0) {
    if (row.state === "cancelled") throw new Fault("subscription_not_found", "the delivery's subscription has ended");
    const [ended] = await tx.query("SELECT no FROM delivery WHERE no = :no AND ended_at IS NOT NULL", { no });
    if (ended !== undefined) throw new Fault("subscription_not_found", "the delivery's subscription has ended");
    throw new Fault("delivery_pending", "the delivery has not ended: it is tried by itself");
  }
  const body = deliveryBody(no, Number(row.notification_no), Number(row.created_at));
  const groupKey = row.message_group as string | null;
  const [sent] = await sendOwn(tx, [
    { queueNo: Number(row.queue_no), body, attributes: null, meta: null, groupKey, dedupId: null, delayMs: null },
  ]);
  const seq = sent !== undefined && "seq" in sent ? sent.seq : null;
  await tx.query("UPDATE delivery SET message_no = :seq WHERE no = :no", { no, seq });
  return (await findDelivery(tx, projectNo, id)) as DeliveryRow;
}

/** Writes down up to `limit` deliveries that ended with their subscription (T14); answers how many. */
async function cancelDeliveries(tx: Tx, limit: number): Promise<number> {
  const rows = await tx.query(
    `UPDATE delivery SET state = 'cancelled', next_attempt_at = NULL, ended_at = :now WHERE ended_at IS NULL AND no IN (
       SELECT d.no FROM topic_subscription AS s JOIN delivery AS d ON d.subscription_no = s.no
       WHERE s.ended_at IS NOT NULL AND d.ended_at IS NULL LIMIT :limit) RETURNING no`,
    { now: tx.now, limit },
  );
  return rows.length;
}

/** Removes up to `limit` records that ended 14 days ago; answers how many. */
async function sweepDeliveries(tx: Tx, limit: number): Promise<number> {
  const rows = await tx.query(
    `DELETE FROM delivery WHERE no IN (SELECT d.no FROM delivery AS d WHERE d.ended_at <= :until ORDER BY d.ended_at LIMIT :limit)
     RETURNING no`,
    { until: tx.now - KEPT_MS, limit },
  );
  return rows.length;
}

/**
 * Of the next `limit` notifications after `after` that were accepted 14 days ago, removes those that no record names any more. Answers
 * the number to go on after, `null` at the end.
 */
async function sweepNotifications(tx: Tx, after: number, limit: number): Promise<number | null> {
  const old = await tx.query<{ no: number }>(
    "SELECT n.no FROM notification AS n WHERE n.no > :after AND n.accepted_at <= :until ORDER BY n.no LIMIT :limit",
    { after, until: tx.now - KEPT_MS, limit },
  );
  const last = old.at(-1)?.no;
  if (last === undefined) return null;
  await tx.query(
    `DELETE FROM notification WHERE no > :after AND no <= :last AND accepted_at <= :until AND state = 'complete'
       AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.notification_no = notification.no)`,
    { after, last, until: tx.now - KEPT_MS },
  );
  return old.length === limit ? last : null;
}

/** Every cold verb of records. */
export const deliveryRecordVerbs = {
  findDelivery,
  deliveryFor,
  listDeliveries,
  redeliver,
  cancelDeliveries,
  sweepDeliveries,
  sweepNotifications,
};
