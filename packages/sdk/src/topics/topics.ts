/** The topics of a project: making and listing them, and what became of what was published. */
import { ApiError } from "../errors.ts";
import { listAll, type TopicsContext, topicCall } from "./call.ts";
import type { NotificationAttribute } from "./delivery.ts";
import type { DeliveryInfo, FilterResult, NotificationInfo, NotificationVerdict, TopicInfo } from "./records.ts";
import { type TopicSettings, wireTopic } from "./settings.ts";
import { createTopic, createTopicSubscription, type Topic, type TopicSubscription } from "./topic.ts";
import { fromWire } from "./wire.ts";

/** What a filter policy is held against; `scope` is `attributes` unless given. */
export interface FilterTest {
  scope?: "attributes" | "message";
  attributes?: Record<string, NotificationAttribute>;
  message?: string;
}

/** Everything about topics that a client can do. */
export interface Topics {
  /** A topic by name, id or CRN. Calls nothing. */
  topic(reference: string): Topic;
  /** A topic's subscription by id. Calls nothing. */
  subscription(id: string): TopicSubscription;
  create(name: string, settings?: TopicSettings & { fifo?: boolean }): Promise<TopicInfo>;
  /** Makes the topic, or changes the settings given. Whether it is FIFO never changes. */
  ensure(name: string, settings?: TopicSettings & { fifo?: boolean }): Promise<TopicInfo>;
  /** By name, at most `most` (1,000 unless given). */
  list(most?: number): Promise<TopicInfo[]>;
  /** How far a notification got. */
  notification(messageId: string): Promise<NotificationInfo>;
  /** What became of a notification for each subscription and why, at most `most` (1,000 unless given), or for one alone. */
  explain(messageId: string, options?: { subscriptionId?: string; most?: number }): Promise<NotificationVerdict[]>;
  /** Holds a message and attributes against a filter policy; nothing is stored. */
  testFilter(policy: Record<string, unknown>, against: FilterTest): Promise<FilterResult>;
  /** A delivery record. */
  delivery(id: string): Promise<DeliveryInfo>;
  /** Tries a delivery that has ended once more, with fresh attempts. */
  redeliver(id: string): Promise<DeliveryInfo>;
}

/** Makes the topics of a client. `context` is asked for at each call. */
export function createTopics(context: TopicsContext): Topics {
  const call = topicCall(context);
  const deliveryPath = (id: string): string => `/v1/deliveries/${encodeURIComponent(id)}`;
  const deliveryOf = (answer: unknown): DeliveryInfo => fromWire<{ delivery: DeliveryInfo }>(answer).delivery;
  const topic = (reference: string): Topic => createTopic(call, reference);
  const create: Topics["create"] = async (name, { fifo, ...settings } = {}) => {
    const answer = await call("POST", "/v1/topics", { body: { name, fifo, ...wireTopic(settings) }, create: true });
    return fromWire<{ topic: TopicInfo }>(answer).topic;
  };
  return {
    topic,
    subscription: (id) => createTopicSubscription(call, id),
    create,
    async ensure(name, settings = {}) {
      try {
        return await create(name, settings);
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== "topic_exists") throw error;
        const { fifo: _, ...changed } = settings;
        return topic(name).update(changed);
      }
    },
    list: (most = 1_000) => listAll(call, "/v1/topics", "topics", most),
    async notification(messageId) {
      const answer = await call("GET", `/v1/notifications/${encodeURIComponent(messageId)}`);
      return fromWire<{ notification: NotificationInfo }>(answer).notification;
    },
    explain: (messageId, { subscriptionId, most = 1_000 } = {}) =>
      listAll(call, `/v1/notifications/${encodeURIComponent(messageId)}/explanation`, "verdicts", most, {
        subscription_id: subscriptionId,
      }),
    async testFilter(policy, { scope, attributes, message }) {
      const body = { filter_policy: policy, filter_policy_scope: scope, attributes, message };
      return fromWire<{ result: FilterResult }>(await call("POST", "/v1/filter_policies/test", { body })).result;
    },
    delivery: async (id) => deliveryOf(await call("GET", deliveryPath(id))),
    redeliver: async (id) => deliveryOf(await call("POST", `${deliveryPath(id)}/redeliver`, { create: true })),
  };
}
