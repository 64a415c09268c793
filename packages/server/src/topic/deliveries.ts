/** What has become of notifications: their fan-out (T4), their delivery records (T12), and one more try of what has ended. */
import type { DeliveryRow } from "../store/delivery-record.ts";
import type { FanOutState } from "../store/notification.ts";
import type { Store } from "../store/store.ts";
import type { TopicSubscriptionRow } from "../store/topic-rows.ts";
import type { IdempotencyKey } from "../store/types.ts";

export type { DeliveryRow } from "../store/delivery-record.ts";
export type { FanOutState } from "../store/notification.ts";

export interface DeliveryRecords {
  /** By message id; `null` when the project has none. `topicName` also of a topic that has ended. */
  notification(projectNo: number, messageId: string): Promise<{ state: FanOutState; topicName: string } | null>;
  /** A page of a subscription's records, newest first; `next` is where the next page goes on, `null` at the end. */
  list(
    subscription: TopicSubscriptionRow,
    page: { state: DeliveryRow["state"] | null; before: number | null; limit: number },
  ): Promise<{ deliveries: DeliveryRow[]; next: number | null; total: number }>;
  /** By id, with its topic's name; `null` when the project has none. */
  find(projectNo: number, id: string): Promise<{ row: DeliveryRow; topicName: string } | null>;
  /** Throws `delivery_not_found`, `delivery_pending`, `subscription_not_found`. */
  redeliver(projectNo: number, id: string, key: IdempotencyKey | null): Promise<DeliveryRow>;
}

/** Makes the verbs of one store. */
export function createDeliveryRecords(store: Store): DeliveryRecords {
  const nameOf = async (topicNo: number): Promise<string> => (await store.run("fanOutTopic", topicNo))?.name ?? "";
  return {
    async notification(projectNo, messageId) {
      const state = await store.run("fanOutState", projectNo, messageId);
      return state === null ? null : { state, topicName: await nameOf(state.topicNo) };
    },
    list: (subscription, page) => store.run("listDeliveries", subscription.no, page),
    async find(projectNo, id) {
      const row = await store.run("findDelivery", projectNo, id);
      return row === null ? null : { row, topicName: await nameOf(row.topicNo) };
    },
    redeliver: async (projectNo, id, key) => (await store.once(key, "redeliver", projectNo, id)).result,
  };
}
