/**
 * Cold verbs of push consumers (C1): what a lane needs of a queue that has a `consumerPath`. The path is a setting of the queue; a
 * column of its own finds the queues that have one.
 */
import { Fault } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { servingChanged } from "./environment.ts";
import type { QueueRow, QueueSettings } from "./types.ts";

/** What the engine needs of a push consumer. */
export interface ConsumerRow {
  queueNo: number;
  queueName: string;
  resourceName: string;
  environmentNo: number;
  environmentId: string;
  settings: QueueSettings;
  /** The last delivery that was noted failed. */
  failing: boolean;
  /** Milliseconds until the queue has something to claim, as far as is known; `null`: nothing. */
  nextInMs: number | null;
}

const SELECT = `SELECT (SELECT MIN(m.line_at) FROM message m WHERE m.queue_no = q.no AND m.line_at IS NOT NULL) AS line_at,
  (SELECT MIN(m.later_at) FROM message m WHERE m.queue_no = q.no AND m.later_at IS NOT NULL) AS later_at,
  q.no AS no, q.name AS name, q.resource_name AS resource_name, q.settings AS settings, q.consumer_failing AS failing, e.no AS environment_no,
  e.id AS environment_id
  FROM queue q JOIN environment e ON e.project_no = q.project_no AND e.slug = q.environment`;

function consumerOf(row: Row, now: number): ConsumerRow {
  const dues = [row.line_at, row.later_at].flatMap((at) => (at === null || at === undefined ? [] : [Number(at)]));
  return {
    queueNo: Number(row.no),
    queueName: String(row.name),
    resourceName: String(row.resource_name),
    environmentNo: Number(row.environment_no),
    environmentId: String(row.environment_id),
    settings: JSON.parse(String(row.settings)) as QueueSettings,
    failing: Number(row.failing) === 1,
    nextInMs: dues.length === 0 ? null : Math.max(0, Math.min(...dues) - now),
  };
}

/** To be called where a queue is made or changed: keeps the column, and a queue at one managed consumer (P1). */
export async function placeConsumer(tx: Tx, before: QueueRow | null, queue: QueueRow): Promise<void> {
  const path = queue.settings.consumerPath;
  if (path !== null && (before?.settings.consumerPath ?? null) === null) {
    const [taken] = await tx.query("SELECT no FROM subscription WHERE queue_no = :no", { no: queue.no });
    if (taken !== undefined) throw new Fault("subscription_exists", "the queue has a subscription: delete it first");
  }
  if (path !== (before?.settings.consumerPath ?? null))
    await tx.query("UPDATE queue SET consumer_path = :path, consumer_failing = 0 WHERE no = :no", { no: queue.no, path });
  if (path !== null || (before?.settings.consumerPath ?? null) !== null) await servingChanged(tx);
}

/** Every cold verb of push consumers. */
export const consumerVerbs = {
  /** A queue's push consumer; `null` when the queue is gone or has none. */
  async loadConsumer(tx: Tx, queueNo: number): Promise<ConsumerRow | null> {
    const [row] = await tx.query(`${SELECT} WHERE q.no = :queueNo AND q.consumer_path IS NOT NULL`, { queueNo });
    return row === undefined ? null : consumerOf(row, tx.now);
  },

  /** Up to `limit` push consumers by queue number, after the queue numbered `after`. */
  async listConsumers(tx: Tx, after: number, limit: number): Promise<ConsumerRow[]> {
    const rows = await tx.query(`${SELECT} WHERE q.no > :after AND q.consumer_path IS NOT NULL ORDER BY q.no LIMIT :limit`, {
      after,
      limit,
    });
    return rows.map((row) => consumerOf(row, tx.now));
  },

  /** Remembers whether a consumer's deliveries fail, so that a restart begins gently (P13). */
  async saveConsumerHealth(tx: Tx, queueNo: number, failing: boolean): Promise<null> {
    await tx.query("UPDATE queue SET consumer_failing = :failing WHERE no = :queueNo AND consumer_path IS NOT NULL", { queueNo, failing });
    return null;
  },
};
