/** A topic and a subscription as handles: what can be done with each. Making one calls nothing. */
import { ApiError } from "../errors.ts";
import { listAll, type TopicCall } from "./call.ts";
import { type BatchNotification, type PublishOptions, publishMany, publishOne } from "./publish.ts";
import type { DeliveryInfo, PublishedNotification, RefusedNotification, TopicInfo, TopicSubscriptionInfo } from "./records.ts";
import { type TopicSettings, type TopicSubscriptionSettings, wireSubscription, wireTopic } from "./settings.ts";
import { fromWire } from "./wire.ts";

/** Where notifications go: a URL, or a queue of the project by name, id or CRN. */
export type TopicEndpoint = { webhook: string } | { queue: string };

/** A topic by name, id or CRN. */
export interface Topic {
  /** Text is published as it is, anything else as JSON. Answered once it is durable. */
  publish(message: unknown, options?: PublishOptions): Promise<PublishedNotification>;
  /** Any number, ten a request; one result for each, in order. */
  publishBatch(notifications: readonly BatchNotification[]): Promise<(PublishedNotification | RefusedNotification)[]>;
  /** Subscribes; the same endpoint with the same settings again answers the subscription there is. */
  subscribe(endpoint: TopicEndpoint, settings?: TopicSubscriptionSettings): Promise<TopicSubscriptionInfo>;
  /** The subscriptions in order of creation, at most `most` (1,000 unless given). */
  subscriptions(most?: number): Promise<TopicSubscriptionInfo[]>;
  info(): Promise<TopicInfo>;
  update(settings: TopicSettings): Promise<TopicInfo>;
  /** Ends its subscriptions and cancels what is not delivered; `false` when there is no such topic. */
  delete(): Promise<boolean>;
}

/** A topic's subscription by id. */
export interface TopicSubscription {
  info(): Promise<TopicSubscriptionInfo>;
  /** A changed filter counts for later publications. */
  update(settings: TopicSubscriptionSettings): Promise<TopicSubscriptionInfo>;
  /** Cancels what is not delivered; `false` when there is no such subscription. */
  delete(): Promise<boolean>;
  /** Sends the handshake again. */
  requestConfirmation(): Promise<TopicSubscriptionInfo>;
  signingSecret(): Promise<string>;
  /** Replaces the secret at once: the endpoint must learn it. */
  rotateSigningSecret(): Promise<string>;
  /** Delivery records, newest first, at most `most` (1,000 unless given). */
  deliveries(options?: { state?: DeliveryInfo["state"]; most?: number }): Promise<DeliveryInfo[]>;
}

const listMost = 1_000;

/** Deletes; `false` when `missing` says that there is none. */
async function deleted(call: TopicCall, path: string, missing: string): Promise<boolean> {
  try {
    await call("DELETE", path);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.code === missing) return false;
    throw error;
  }
}

/** Makes the handle of a topic. */
export function createTopic(call: TopicCall, reference: string): Topic {
  const path = `/v1/topics/${encodeURIComponent(reference)}`;
  const topicOf = (answer: unknown): TopicInfo => fromWire<{ topic: TopicInfo }>(answer).topic;
  return {
    publish: (message, options = {}) => publishOne(call, path, message, options),
    publishBatch: (notifications) => publishMany(call, path, notifications),
    async subscribe(endpoint, settings = {}) {
      const where =
        "webhook" in endpoint ? { protocol: "webhook", endpoint: endpoint.webhook } : { protocol: "queue", endpoint: endpoint.queue };
      const answer = await call("POST", `${path}/subscriptions`, { body: { ...where, ...wireSubscription(settings) }, create: true });
      return fromWire<{ subscription: TopicSubscriptionInfo }>(answer).subscription;
    },
    subscriptions: (most = listMost) => listAll(call, `${path}/subscriptions`, "subscriptions", most),
    info: async () => topicOf(await call("GET", path)),
    update: async (settings) => topicOf(await call("PATCH", path, { body: wireTopic(settings) })),
    delete: () => deleted(call, path, "topic_not_found"),
  };
}

/** Makes the handle of a subscription. */
export function createTopicSubscription(call: TopicCall, id: string): TopicSubscription {
  const path = `/v1/subscriptions/${encodeURIComponent(id)}`;
  const subscriptionOf = (answer: unknown) => fromWire<{ subscription: TopicSubscriptionInfo }>(answer).subscription;
  const secretOf = (answer: unknown) => fromWire<{ signingSecret: { secret: string } }>(answer).signingSecret.secret;
  return {
    info: async () => subscriptionOf(await call("GET", path)),
    update: async (settings) => subscriptionOf(await call("PATCH", path, { body: wireSubscription(settings) })),
    delete: () => deleted(call, path, "subscription_not_found"),
    requestConfirmation: async () => subscriptionOf(await call("POST", `${path}/request_confirmation`)),
    signingSecret: async () => secretOf(await call("GET", `${path}/signing_secret`)),
    rotateSigningSecret: async () => secretOf(await call("POST", `${path}/signing_secret`)),
    deliveries: ({ state, most = listMost } = {}) => listAll(call, `${path}/deliveries`, "deliveries", most, { state }),
  };
}
