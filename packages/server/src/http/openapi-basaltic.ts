/** Examples of the Basaltic door's operations: one plausible body and answer each. A test holds each against its shape. */
import type { OperationName } from "@millrace/contract";

const at = "2026-10-13T18:00:00.000Z";
const account = "01999f3b-0000-7000-8000-0000000000aa";
const crn = `crn:millrace:notifications:local:${account}:topic/orders`;
const subscriptionId = "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10";

const topic = {
  id: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
  crn,
  name: "orders",
  fifo: false,
  display_name: "Orders",
  retry_policy: { max_attempts: 20 },
  confirmed_subscriptions: 3,
  pending_subscriptions: 1,
  created_at: at,
  updated_at: at,
};
const subscription = {
  id: subscriptionId,
  crn: `${crn}/subscription/${subscriptionId}`,
  topic_crn: crn,
  topic_name: "orders",
  protocol: "webhook",
  endpoint: "https://example.com/hooks/orders",
  state: "confirmed",
  raw_message_delivery: false,
  filter_policy: { kind: ["placed", { prefix: "refund-" }] },
  filter_policy_scope: "attributes",
  retry_policy: { max_attempts: 10 },
  redrive_policy: { dead_letter_queue: "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8" },
  max_in_flight: 10,
  rate_limit: null,
  confirmed_at: at,
  confirmable_until: null,
  status: { failing: false, last_error: null, last_success_at: at },
  created_at: at,
  updated_at: at,
};
const pending = {
  ...subscription,
  state: "pending",
  confirmed_at: null,
  confirmable_until: "2026-10-16T18:00:00.000Z",
  status: { ...subscription.status, last_success_at: null },
};
const meta = { total: 1, limit: 50, marker: null, has_more: false };
const signingSecret = {
  signing_secret: { subscription_id: subscriptionId, secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo" },
};

const messageId = "01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a";
const notification = { message_id: messageId, accepted_at: at };
const fanOut = {
  ...notification,
  topic_crn: crn,
  topic_name: "orders",
  state: "complete",
  matched: 3,
  filtered_out: 1,
  delivered: 2,
  failed: 1,
  cancelled: 0,
  pending: 0,
};
const filterFailure = { key: "kind", reason: "different", expected: ["placed", { prefix: "refund-" }], got: "cancelled" };
const delivery = {
  id: "01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1b",
  message_id: messageId,
  subscription_id: subscriptionId,
  state: "failed",
  attempts: 1,
  created_at: at,
  next_attempt_at: null,
  delivered_at: null,
  last_error: { class: "http", status: 410, message: "HTTP 410: gone" },
  last_status: 410,
  dead_letter: "stored",
};
const publication = {
  message: '{"id":1042}',
  subject: "Order 1042",
  attributes: { kind: "placed", total: { type: "Number", value: 99.5 } },
};

/** By operation; those of operations without a body are absent. */
export const basalticBodies: Partial<Record<OperationName, unknown>> = {
  CreateTopic: { name: "orders", display_name: "Orders", retry_policy: { max_attempts: 20 } },
  UpdateTopic: { display_name: "All orders" },
  CreateTopicSubscription: {
    protocol: "webhook",
    endpoint: "https://example.com/hooks/orders",
    filter_policy: { kind: ["placed", { prefix: "refund-" }] },
    redrive_policy: { dead_letter_queue: "failed-notifications" },
  },
  UpdateTopicSubscription: { raw_message_delivery: true, filter_policy: null },
  RequestConfirmation: {},
  RotateTopicSubscriptionSecret: {},
  Publish: publication,
  PublishBatch: { entries: [{ id: "1", ...publication }] },
  Redeliver: {},
  TestFilterPolicy: { filter_policy: { kind: ["placed", { prefix: "refund-" }] }, attributes: { kind: "cancelled" } },
};

/** By operation. */
export const basalticAnswers: Partial<Record<OperationName, unknown>> = {
  CreateTopic: { topic },
  ListTopics: { topics: [topic], meta },
  GetTopic: { topic },
  UpdateTopic: { topic: { ...topic, display_name: "All orders" } },
  CreateTopicSubscription: { subscription: pending },
  ListTopicSubscriptions: { subscriptions: [subscription], meta },
  GetTopicSubscription: { subscription },
  UpdateTopicSubscription: { subscription: { ...subscription, raw_message_delivery: true, filter_policy: null } },
  RequestConfirmation: { subscription: pending },
  GetTopicSubscriptionSecret: signingSecret,
  RotateTopicSubscriptionSecret: signingSecret,
  Publish: { notification },
  PublishBatch: { results: [{ id: "1", notification }] },
  GetNotification: { notification: fanOut },
  ListDeliveries: { deliveries: [delivery], meta },
  GetDelivery: { delivery },
  Redeliver: { delivery: { ...delivery, state: "pending", next_attempt_at: at } },
  ExplainNotification: {
    notification: fanOut,
    verdicts: [
      {
        subscription_id: subscriptionId,
        protocol: "webhook",
        endpoint: subscription.endpoint,
        outcome: "filtered_out",
        explanation: 'Filtered out: kind is "cancelled" where the filter wants one of ["placed",{"prefix":"refund-"}].',
        subscription: { state: "confirmed", created_at: at, confirmed_at: at, confirmable_until: null },
        filter: {
          matched: false,
          failures: [filterFailure],
          policy: subscription.filter_policy,
          scope: "attributes",
          as_of: "publication",
          changed_since: false,
        },
        delivery: null,
        webhook: { url: subscription.endpoint, failing: false, last_error: null, last_success_at: at, signing_key: "readable" },
        queue: null,
      },
    ],
    meta,
  },
  TestFilterPolicy: { result: { matched: false, failures: [filterFailure] } },
};
