/**
 * Cold verbs that end what a deleted topic leaves behind, a bounded number of rows at a time: its subscriptions with their internal
 * queues, and in the end the rows that delivery records no longer name.
 */
import type { Tx } from "../db/db.ts";
import { KEPT_MS } from "./delivery-record.ts";
import { TOPIC_SUBSCRIPTION_COLUMNS, topicSubscriptionOf } from "./topic-rows.ts";
import { endSubscription } from "./topic-subscription.ts";

/** Every cold verb of ends. */
export const topicEndingVerbs = {
  /** Ends up to `limit` subscriptions of deleted topics; answers them by their numbers and their queues'. */
  async endSubscriptions(tx: Tx, limit: number): Promise<{ no: number; queueNo: number }[]> {
    const rows = await tx.query(
      `SELECT ${TOPIC_SUBSCRIPTION_COLUMNS} FROM topic_subscription WHERE ended_at IS NULL AND topic_no IN (
         SELECT no FROM topic WHERE ended_at IS NOT NULL) ORDER BY topic_no, no LIMIT :limit`,
      { limit },
    );
    const subscriptions = rows.map(topicSubscriptionOf);
    for (const subscription of subscriptions) await endSubscription(tx, subscription);
    return subscriptions.map(({ no, queueNo }) => ({ no, queueNo }));
  },

  /** Removes up to `limit` subscriptions and topics that ended 14 days ago and that no record names any more; answers how many. */
  async forgetEnded(tx: Tx, limit: number): Promise<number> {
    const params = { before: tx.now - KEPT_MS, limit };
    const subscriptions = await tx.query(
      `DELETE FROM topic_subscription WHERE no IN (SELECT s.no FROM topic_subscription s WHERE s.ended_at <= :before
         AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.subscription_no = s.no) ORDER BY s.ended_at LIMIT :limit) RETURNING no`,
      params,
    );
    const topics = await tx.query(
      `DELETE FROM topic WHERE no IN (SELECT t.no FROM topic t WHERE t.ended_at <= :before
         AND NOT EXISTS (SELECT 1 FROM notification n WHERE n.topic_no = t.no)
         AND NOT EXISTS (SELECT 1 FROM topic_subscription s WHERE s.topic_no = t.no) ORDER BY t.ended_at LIMIT :limit) RETURNING no`,
      params,
    );
    return subscriptions.length + topics.length;
  },
};
