/**
 * Cold verbs of topic subscriptions: their rows, sealed secrets and settings. One comes into being with the internal queue that its
 * deliveries wait in, and ends with it; an endpoint is subscribed to a topic once (TOPIC-05). Every verb locks the topic's row first,
 * after the counter if it needs one. Answers hold no secret but those of `topicSecret`, sealed.
 */
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { nextNo } from "./identity.ts";
import { laneChanged } from "./lane-change.ts";
import { join, leave, lockTopic, refilter } from "./membership.ts";
import { sendOwn } from "./message.ts";
import { type NewQueue, queueVerbs } from "./queue.ts";
import {
  TOPIC_COLUMNS,
  TOPIC_SUBSCRIPTION_COLUMNS,
  type TopicRow,
  type TopicSubscriptionRow,
  type TopicSubscriptionSettings,
  topicOf,
  topicSubscriptionOf,
} from "./topic-rows.ts";

/** A new subscription; ids are drawn by the caller. `queue` is its internal queue, but for what follows from the topic. */
export interface NewTopicSubscription
  extends Pick<TopicSubscriptionRow, "id" | "topicNo" | "protocol" | "endpoint" | "targetNo" | "settings"> {
  /** Sealed; `null` for a queue, whose messages nobody signs. */
  secret: string | null;
  /** How many subscriptions its topic may have. */
  most: number;
  queue: Pick<NewQueue, "id" | "resourceName" | "environment" | "settings">;
}

/** A subscription with the topic it belongs to. */
export interface Subscribed {
  topic: TopicRow;
  subscription: TopicSubscriptionRow;
}

/** The body of a message that stands for a handshake, in an internal queue. */
export const HANDSHAKE = "confirmation";

/** For so long a handshake can be answered (T6), and for so long no other one is sent. */
const CONFIRMABLE_MS = 3 * 86_400_000;
const HANDSHAKE_PAUSE_MS = 60_000;

const gone = (): Fault => new Fault("subscription_not_found", "there is no such topic subscription");
const notOurs = (): Fault =>
  new Fault("invalid_token", "token: must be that of a link sent less than three days ago, to a subscription that has not ended");

/** Whether two values are the same JSON, in whatever order their keys stand. */
const sameJson = (a: unknown, b: unknown): boolean => isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));

async function rowBy(tx: Tx, column: "no" | "id", value: number | string): Promise<TopicSubscriptionRow | null> {
  const [row] = await tx.query(
    `SELECT ${TOPIC_SUBSCRIPTION_COLUMNS} FROM topic_subscription WHERE ${column} = :value AND ended_at IS NULL`,
    { value },
  );
  return row === undefined ? null : topicSubscriptionOf(row);
}

/** The subscription under its topic's lock; `null` when either has ended. */
async function locked(tx: Tx, column: "no" | "id", value: number | string): Promise<Subscribed | null> {
  const before = await rowBy(tx, column, value);
  const topic = before === null ? null : await lockTopic(tx, before.topicNo);
  // What was read before the lock may have changed until it was had.
  const subscription = topic === null ? null : await rowBy(tx, column, value);
  return topic === null || subscription === null ? null : { topic, subscription };
}

async function written(tx: Tx, no: number): Promise<TopicSubscriptionRow> {
  const row = await rowBy(tx, "no", no);
  if (row === null) throw gone();
  return row;
}

/** Puts a handshake into the subscription's internal queue. */
async function shake(tx: Tx, topic: TopicRow, { no, queueNo }: { no: number; queueNo: number }): Promise<void> {
  await tx.query("UPDATE topic_subscription SET confirmable_until = :until, updated_at = :now WHERE no = :no", {
    no,
    until: tx.now + CONFIRMABLE_MS,
    now: tx.now,
  });
  const body = new TextEncoder().encode(HANDSHAKE);
  const groupKey = topic.fifo ? HANDSHAKE : null;
  await sendOwn(tx, [{ queueNo, body, attributes: null, meta: null, groupKey, dedupId: null, delayMs: null }]);
}

/** Ends a subscription with its internal queue. Its topic is locked, or has ended. */
export async function endSubscription(tx: Tx, subscription: TopicSubscriptionRow): Promise<void> {
  const { no } = subscription;
  const ended = await tx.query("UPDATE topic_subscription SET ended_at = :now WHERE no = :no AND ended_at IS NULL RETURNING no", {
    no,
    now: tx.now,
  });
  // Another node was there first.
  if (ended.length === 0) return;
  if (subscription.state === "confirmed") await leave(tx, subscription);
  await tx.query("UPDATE topic SET subscriptions = subscriptions - 1 WHERE no = :topicNo", { topicNo: subscription.topicNo });
  await queueVerbs.deleteQueue(tx, subscription.queueNo);
}

/** Every cold verb of topic subscriptions. */
export const topicSubscriptionVerbs = {
  /**
   * Subscribes an endpoint, or answers the same subscription that there is (`made: false`). A webhook is `pending` and its handshake
   * on the way; a queue is confirmed. Throws `topic_not_found`, `queue_not_found`, `subscription_exists`, `limit_reached`.
   */
  async createTopicSubscription(tx: Tx, given: NewTopicSubscription): Promise<Subscribed & { made: boolean }> {
    const { topicNo, protocol, endpoint, targetNo, settings } = given;
    const no = await nextNo(tx);
    const topic = await lockTopic(tx, topicNo);
    if (topic === null) throw new Fault("topic_not_found", "there is no such topic");
    const hash = createHash("sha256").update(endpoint).digest("hex");
    const [same] = await tx.query(
      `SELECT ${TOPIC_SUBSCRIPTION_COLUMNS} FROM topic_subscription
       WHERE topic_no = :topicNo AND protocol = :protocol AND endpoint_hash = :hash AND ended_at IS NULL`,
      { topicNo, protocol, hash },
    );
    if (same !== undefined) {
      const subscription = topicSubscriptionOf(same);
      if (sameJson(subscription.settings, settings)) return { topic, subscription, made: false };
      throw new Fault("subscription_exists", `the topic subscribes this endpoint with other settings: update ${subscription.id}`);
    }
    if (topic.subscriptions >= given.most)
      throw new Fault("limit_reached", `a topic has at most ${given.most.toLocaleString("en")} subscriptions`);
    if (targetNo !== null) {
      const [target] = await tx.query("SELECT no FROM queue WHERE no = :targetNo", { targetNo });
      if (target === undefined) throw new Fault("queue_not_found", "endpoint: there is no such queue");
    }
    const queue = await queueVerbs.createQueue(tx, {
      ...given.queue,
      projectNo: topic.projectNo,
      name: given.id,
      type: topic.fifo ? "fifo" : "standard",
      source: "auto",
    });
    await tx.query(
      `INSERT INTO topic_subscription (no, id, topic_no, project_no, protocol, endpoint, endpoint_hash, target_no, queue_no, state, settings,
         secret, confirmed_at, failing, created_at, updated_at)
       VALUES (:no, :id, :topicNo, :projectNo, :protocol, :endpoint, :hash, :targetNo, :queueNo, :state, :settings, :secret, :confirmedAt, 0,
         :now, :now)`,
      {
        no,
        id: given.id,
        topicNo,
        projectNo: topic.projectNo,
        protocol,
        endpoint,
        hash,
        targetNo,
        queueNo: queue.no,
        state: protocol === "queue" ? "confirmed" : "pending",
        settings: JSON.stringify(settings),
        secret: given.secret,
        confirmedAt: protocol === "queue" ? tx.now : null,
        now: tx.now,
      },
    );
    await tx.query("UPDATE topic SET subscriptions = subscriptions + 1 WHERE no = :topicNo", { topicNo });
    if (protocol === "queue") await join(tx, { no, topicNo, settings });
    else await shake(tx, topic, { no, queueNo: queue.no });
    return { topic, subscription: await written(tx, no), made: true };
  },

  /** A subscription of a project by id, with its topic; `null` when there is none or either has ended. */
  async findTopicSubscription(tx: Tx, projectNo: number, id: string): Promise<Subscribed | null> {
    const subscription = await rowBy(tx, "id", id);
    if (subscription === null || subscription.projectNo !== projectNo) return null;
    const [topic] = await tx.query(`SELECT ${TOPIC_COLUMNS} FROM topic WHERE no = :no AND ended_at IS NULL`, { no: subscription.topicNo });
    return topic === undefined ? null : { topic: topicOf(topic), subscription };
  },

  /** Up to `limit` subscriptions of a topic in order of creation, after the one numbered `after`. */
  async listTopicSubscriptions(tx: Tx, topicNo: number, after: number, limit: number): Promise<TopicSubscriptionRow[]> {
    const rows = await tx.query(
      `SELECT ${TOPIC_SUBSCRIPTION_COLUMNS} FROM topic_subscription WHERE topic_no = :topicNo AND no > :after AND ended_at IS NULL
       ORDER BY no LIMIT :limit`,
      { topicNo, after, limit },
    );
    return rows.map(topicSubscriptionOf);
  },

  /** Changes settings; what is not named stays. A changed filter counts from the next publication. Throws `subscription_not_found`. */
  async updateTopicSubscription(tx: Tx, no: number, change: Partial<TopicSubscriptionSettings>): Promise<Subscribed> {
    const found = await locked(tx, "no", no);
    if (found === null) throw gone();
    const { topic, subscription } = found;
    const settings = { ...subscription.settings, ...change };
    await tx.query("UPDATE topic_subscription SET settings = :settings, updated_at = :now WHERE no = :no", {
      no,
      settings: JSON.stringify(settings),
      now: tx.now,
    });
    await laneChanged(tx, subscription.queueNo);
    const { filterPolicy, filterPolicyScope } = subscription.settings;
    const filtersAnew = filterPolicyScope !== settings.filterPolicyScope || !sameJson(filterPolicy, settings.filterPolicy);
    if (filtersAnew && subscription.state === "confirmed") await refilter(tx, { no, topicNo: topic.no, settings });
    return { topic, subscription: await written(tx, no) };
  },

  /** Ends a subscription. Throws `subscription_not_found`. */
  async deleteTopicSubscription(tx: Tx, no: number): Promise<null> {
    const found = await locked(tx, "no", no);
    if (found === null) throw gone();
    await endSubscription(tx, found.subscription);
    return null;
  },

  /** Sends the handshake again, unless one was sent within a minute or is needed no more. Throws `subscription_not_found`. */
  async requestConfirmation(tx: Tx, no: number): Promise<Subscribed> {
    const found = await locked(tx, "no", no);
    if (found === null) throw gone();
    const { topic, subscription } = found;
    const sentAt = (subscription.confirmableUntil ?? 0) - CONFIRMABLE_MS;
    if (subscription.state === "confirmed" || tx.now - sentAt < HANDSHAKE_PAUSE_MS) return found;
    await shake(tx, topic, subscription);
    return { topic, subscription: await written(tx, no) };
  },

  /** Confirms by a link that was good until `until`, unless it is confirmed already (`first: false`). Throws `invalid_token`. */
  async confirmTopicSubscription(tx: Tx, id: string, until: number): Promise<Subscribed & { first: boolean }> {
    const found = tx.now > until ? null : await locked(tx, "id", id);
    if (found === null) throw notOurs();
    const { topic, subscription } = found;
    if (subscription.state === "confirmed") return { ...found, first: false };
    await tx.query("UPDATE topic_subscription SET state = 'confirmed', confirmed_at = :now, updated_at = :now WHERE no = :no", {
      no: subscription.no,
      now: tx.now,
    });
    await join(tx, subscription);
    return { topic, subscription: await written(tx, subscription.no), first: true };
  },

  /** Ends a subscription by its link; `null` when it has ended already. Throws `invalid_token` when it never was, or is forgotten. */
  async unsubscribe(tx: Tx, id: string): Promise<TopicSubscriptionRow | null> {
    const found = await locked(tx, "id", id);
    if (found !== null) {
      await endSubscription(tx, found.subscription);
      return found.subscription;
    }
    const [known] = await tx.query("SELECT no FROM topic_subscription WHERE id = :id", { id });
    if (known === undefined) throw notOurs();
    return null;
  },

  /** The sealed secret of a webhook; `null` where there is none. */
  async topicSecret(tx: Tx, no: number): Promise<string | null> {
    const [row] = await tx.query("SELECT secret FROM topic_subscription WHERE no = :no AND ended_at IS NULL", { no });
    return row === undefined || row.secret === null ? null : String(row.secret);
  },

  /** Replaces the sealed secret of a webhook, at once (T8). Throws `subscription_not_found`. */
  async rotateTopicSecret(tx: Tx, no: number, sealed: string): Promise<null> {
    const rows = await tx.query(
      "UPDATE topic_subscription SET secret = :sealed, updated_at = :now WHERE no = :no AND ended_at IS NULL AND secret IS NOT NULL RETURNING queue_no",
      { no, sealed, now: tx.now },
    );
    if (rows[0] === undefined) throw gone();
    await laneChanged(tx, Number(rows[0].queue_no));
    return null;
  },
};
