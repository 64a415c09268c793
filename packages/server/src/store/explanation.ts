/**
 * What is known of a notification and of each subscription of its topic (T16): who was a member when it was published, with which filter,
 * and the delivery record. A page is read in a handful of statements, however many subscriptions there are.
 */
import type { Tx } from "../db/db.ts";
import { type DeliveryRow, deliveriesAmong } from "./delivery-record.ts";
import { type FanOutState, type Notification, notificationVerbs } from "./notification.ts";
import {
  TOPIC_COLUMNS,
  TOPIC_SUBSCRIPTION_COLUMNS,
  type TopicRow,
  type TopicSubscriptionRow,
  topicOf,
  topicSubscriptionOf,
} from "./topic-rows.ts";

/** One subscription beside a notification. Times in milliseconds since 1970. */
export interface ExplainedSubscription {
  subscription: TopicSubscriptionRow;
  /** When it ended, `null` while it lasts. */
  endedAt: number | null;
  /** Its membership at the publication: the filter's JSON text, `null` lets everything pass. Closed ones are forgotten after a while. */
  member: { filter: string | null; scope: "attributes" | "message" } | null;
  delivery: DeliveryRow | null;
}

/** A notification with a page of its topic's subscriptions. `next`: the number to go on after. */
export interface Explanation {
  notification: Notification;
  state: FanOutState;
  topic: TopicRow;
  subscriptions: ExplainedSubscription[];
  next: number | null;
}

/** Every cold verb of explanations. */
export const explanationVerbs = {
  /**
   * A notification of a project by id with up to `limit` subscriptions of its topic, by number after `after`, or only the one of an id.
   * Subscriptions that had ended before it was published are left out. `null` when the project has no such notification.
   */
  async explainNotification(
    tx: Tx,
    projectNo: number,
    id: string,
    page: { after: number; limit: number; subscriptionId: string | null },
  ): Promise<Explanation | null> {
    const state = await notificationVerbs.fanOutState(tx, projectNo, id);
    if (state === null) return null;
    const [notification] = await notificationVerbs.readNotifications(tx, [state.no]);
    const [topic] = await tx.query(`SELECT ${TOPIC_COLUMNS} FROM topic WHERE no = :no`, { no: state.topicNo });
    if (notification === undefined || topic === undefined) return null;

    const { after, limit, subscriptionId } = page;
    const { topicNo, acceptedAt } = state;
    const only = subscriptionId === null ? "" : "AND id = :subscriptionId";
    const rows = await tx.query(
      `SELECT ${TOPIC_SUBSCRIPTION_COLUMNS}, ended_at FROM topic_subscription WHERE topic_no = :topicNo AND no > :after ${only}
       AND (ended_at IS NULL OR ended_at >= :acceptedAt) ORDER BY no LIMIT :most`,
      { topicNo, after, acceptedAt, most: limit + 1, ...(subscriptionId === null ? {} : { subscriptionId }) },
    );
    const subscriptions = rows.slice(0, limit);
    const [first, last] = [Number(subscriptions[0]?.no ?? 0), Number(subscriptions.at(-1)?.no ?? 0)];
    const members = await tx.query<{ subscription_no: number; filter: string | null; scope: "attributes" | "message" }>(
      `SELECT m.subscription_no, m.filter, m.scope FROM membership AS m WHERE m.topic_no = :topicNo AND m.subscription_no >= :first
       AND m.subscription_no <= :last AND m.since <= :version AND (m.until IS NULL OR m.until > :version)`,
      { topicNo, first, last, version: notification.version },
    );
    const memberOf = new Map(members.map(({ subscription_no: no, filter, scope }) => [no, { filter, scope }]));
    const deliveryOf = new Map((await deliveriesAmong(tx, state.no, first, last)).map((row) => [row.subscriptionNo, row]));
    return {
      notification,
      state,
      topic: topicOf(topic),
      subscriptions: subscriptions.map((row) => {
        const subscription = topicSubscriptionOf(row);
        return {
          subscription,
          endedAt: row.ended_at === null ? null : Number(row.ended_at),
          member: memberOf.get(subscription.no) ?? null,
          delivery: deliveryOf.get(subscription.no) ?? null,
        };
      }),
      next: rows.length > limit ? last : null,
    };
  },
};
