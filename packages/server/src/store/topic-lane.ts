/**
 * What the deliveries of a topic subscription need to know of it, by the number of its internal queue; secrets are sealed. A queue that is
 * no subscription's internal queue never becomes one.
 */
import type { Row, Tx } from "../db/db.ts";
import {
  type RetryPolicy,
  TOPIC_SUBSCRIPTION_COLUMNS,
  type TopicSettings,
  type TopicSubscriptionError,
  type TopicSubscriptionRow,
  topicSubscriptionOf,
} from "./topic-rows.ts";

/** A subscription with what its topic lends it. `projectId` is the account of its CRN. */
export interface TopicLaneRow {
  subscription: TopicSubscriptionRow;
  topic: { no: number; name: string; fifo: boolean; projectId: string; retryPolicy: RetryPolicy | null };
  secret: string | null;
  /** Where failures go (T13): `fifo` as the queue is, `null` when there is none or it is gone. */
  deadLetter: { queueNo: number; fifo: boolean } | null;
  /** The queue that a `queue` subscription is for; `null` when it is gone. */
  target: { queueNo: number; fifo: boolean } | null;
}

const COLUMNS = TOPIC_SUBSCRIPTION_COLUMNS.split(", ")
  .map((column) => `s.${column}`)
  .join(", ");

async function laneOf(tx: Tx, row: Row): Promise<TopicLaneRow> {
  const subscription = topicSubscriptionOf(row);
  const queueOf = async (no: number | null): Promise<{ queueNo: number; fifo: boolean } | null> => {
    if (no === null) return null;
    const [queue] = await tx.query("SELECT type FROM queue WHERE no = :no", { no });
    return queue === undefined ? null : { queueNo: no, fifo: queue.type === "fifo" };
  };
  const { retryPolicy } = JSON.parse(String(row.topic_settings)) as TopicSettings;
  return {
    subscription,
    topic: {
      no: subscription.topicNo,
      name: String(row.topic_name),
      fifo: Number(row.topic_fifo) === 1,
      projectId: String(row.project_id),
      retryPolicy,
    },
    secret: row.secret === null ? null : String(row.secret),
    deadLetter: await queueOf(subscription.settings.deadLetterNo),
    target: await queueOf(subscription.targetNo),
  };
}

const LANE = `SELECT ${COLUMNS}, s.secret, t.name AS topic_name, t.fifo AS topic_fifo, t.settings AS topic_settings, p.id AS project_id
  FROM topic_subscription AS s JOIN topic AS t ON t.no = s.topic_no JOIN project AS p ON p.no = s.project_no`;

/** Every cold verb of the lanes of topic subscriptions. */
export const topicLaneVerbs = {
  /** The subscriptions, as far as they have not ended, whose internal queues these are. */
  async topicLanes(tx: Tx, queueNos: readonly number[]): Promise<TopicLaneRow[]> {
    const lanes: TopicLaneRow[] = [];
    for (const no of queueNos) {
      const [row] = await tx.query(`${LANE} WHERE s.queue_no = :no AND s.ended_at IS NULL AND t.ended_at IS NULL`, { no });
      if (row !== undefined) lanes.push(await laneOf(tx, row));
    }
    return lanes;
  },

  /**
   * Of the next `limit` queues with something in line, after the one numbered `after`, those that are internal queues of topic
   * subscriptions; `next`: go on after it. The index is walked from queue to queue: it costs what queues have something, not messages.
   */
  async waitingTopicQueues(tx: Tx, after: number, limit: number): Promise<{ queueNos: number[]; next: number | null }> {
    const next = (than: string): string =>
      `(SELECT m.queue_no FROM message AS m WHERE m.queue_no > ${than} AND m.line_at IS NOT NULL ORDER BY m.queue_no, m.line_at LIMIT 1)`;
    const rows = await tx.query<{ no: number; ours: number | null }>(
      `WITH RECURSIVE filled (no) AS (SELECT ${next(":after")} UNION ALL SELECT ${next("filled.no")} FROM filled WHERE filled.no IS NOT NULL)
       SELECT f.no, (SELECT s.no FROM topic_subscription AS s WHERE s.queue_no = f.no AND s.ended_at IS NULL) AS ours
       FROM filled AS f WHERE f.no IS NOT NULL LIMIT :limit`,
      { after, limit },
    );
    const queueNos = rows.filter(({ ours }) => ours !== null).map(({ no }) => no);
    return { queueNos, next: rows.length === limit ? (rows.at(-1)?.no ?? null) : null };
  },

  /** Which of these queues hold messages. */
  async queuesWithMessages(tx: Tx, queueNos: readonly number[]): Promise<number[]> {
    const rows = await tx.each<{ queue_no: number }>(
      "queue.waits",
      queueNos.map((no) => [no]),
    );
    return rows.map((row) => row.queue_no);
  },

  /** What fan-outs name a topic by; `null` when there never was one. An ended topic's notifications are still fanned out, to nobody. */
  async fanOutTopic(tx: Tx, no: number): Promise<{ name: string; fifo: boolean; projectId: string } | null> {
    const [row] = await tx.query(
      "SELECT t.name, t.fifo, p.id AS project_id FROM topic AS t JOIN project AS p ON p.no = t.project_no WHERE t.no = :no",
      { no },
    );
    return row === undefined ? null : { name: String(row.name), fifo: Number(row.fifo) === 1, projectId: String(row.project_id) };
  },

  /** Stores how the last deliveries of subscriptions went. */
  async saveTopicHealth(
    tx: Tx,
    rows: readonly { no: number; failing: boolean; error: Omit<TopicSubscriptionError, "at"> | null; succeeded: boolean }[],
  ): Promise<null> {
    for (const { no, failing, error, succeeded } of [...rows].sort((a, b) => a.no - b.no))
      await tx.query(
        `UPDATE topic_subscription SET failing = :failing, last_error = coalesce(:error, last_error),
           last_success_at = CASE WHEN :succeeded = 1 THEN :now ELSE last_success_at END WHERE no = :no`,
        { no, failing, error: error === null ? null : JSON.stringify({ at: tx.now, ...error }), succeeded, now: tx.now },
      );
    return null;
  },
};
