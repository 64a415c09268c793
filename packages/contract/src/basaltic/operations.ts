/** Every operation on topics and their subscriptions, by name. Publishing and deliveries are in `publication-operations.ts`. */
import { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import { type Operation, operation } from "../operation.ts";
import type { basalticRoutes } from "./routes.ts";
import * as b from "./shapes.ts";

const none = z.object({});
const topic = z.object({ topic: b.reference });
const subscription = z.object({ subscriptionId: b.subscriptionId });

const atAccount: readonly ErrorCode[] = ["project_not_found"];
const atTopic: readonly ErrorCode[] = [...atAccount, "topic_not_found"];
const atSubscription: readonly ErrorCode[] = [...atAccount, "subscription_not_found"];

export const basalticOperations = {
  CreateTopic: operation({
    summary: "Create a topic.",
    permission: "notifications.topics.create",
    status: 201,
    idempotent: true,
    errors: [...atAccount, "topic_exists"],
    params: none,
    body: b.createTopic,
    answer: b.topic,
  }),
  ListTopics: operation({
    summary: "List an account's topics by name.",
    permission: "notifications.topics.list",
    errors: atAccount,
    params: none,
    query: b.paging,
    answer: b.topics,
  }),
  GetTopic: operation({
    summary: "Show a topic.",
    permission: "notifications.topics.get",
    errors: atTopic,
    params: topic,
    answer: b.topic,
  }),
  UpdateTopic: operation({
    summary: "Change a topic's settings. What is not given stays.",
    permission: "notifications.topics.update",
    errors: atTopic,
    params: topic,
    body: b.topicSettings,
    answer: b.topic,
  }),
  DeleteTopic: operation({
    summary: "Delete a topic. Its subscriptions end and what is not delivered yet is cancelled.",
    permission: "notifications.topics.delete",
    status: 204,
    errors: atTopic,
    params: topic,
    answer: z.undefined(),
  }),
  CreateTopicSubscription: operation({
    summary: "Subscribe a webhook, which has to confirm, or a queue of the account. The same subscription again answers the one there is.",
    permission: "notifications.subscriptions.create",
    status: 201,
    idempotent: true,
    errors: [...atTopic, "queue_not_found", "invalid_target", "subscription_exists", "limit_reached"],
    params: topic,
    body: b.createSubscription,
    answer: b.subscription,
  }),
  ListTopicSubscriptions: operation({
    summary: "List a topic's subscriptions in order of creation.",
    permission: "notifications.subscriptions.list",
    errors: atTopic,
    params: topic,
    query: b.paging,
    answer: b.subscriptions,
  }),
  GetTopicSubscription: operation({
    summary: "Show a topic subscription.",
    permission: "notifications.subscriptions.get",
    errors: atSubscription,
    params: subscription,
    answer: b.subscription,
  }),
  UpdateTopicSubscription: operation({
    summary: "Change a topic subscription. What is not given stays; a changed filter counts for later publications.",
    permission: "notifications.subscriptions.update",
    errors: [...atSubscription, "queue_not_found"],
    params: subscription,
    body: b.subscriptionSettings,
    answer: b.subscription,
  }),
  DeleteTopicSubscription: operation({
    summary: "End a topic subscription. What is not delivered yet is cancelled.",
    permission: "notifications.subscriptions.delete",
    status: 204,
    errors: atSubscription,
    params: subscription,
    answer: z.undefined(),
  }),
  RequestConfirmation: operation({
    summary: "Send the handshake of a pending webhook again, at most once a minute.",
    permission: "notifications.subscriptions.create",
    errors: atSubscription,
    params: subscription,
    body: b.nothingElse,
    answer: b.subscription,
  }),
  GetTopicSubscriptionSecret: operation({
    summary: "Read the secret that signs a webhook's requests.",
    permission: "notifications.secrets.read",
    errors: atSubscription,
    params: subscription,
    answer: b.signingSecret,
  }),
  RotateTopicSubscriptionSecret: operation({
    summary: "Replace the secret that signs a webhook's requests, at once.",
    permission: "notifications.secrets.rotate",
    errors: atSubscription,
    params: subscription,
    body: b.nothingElse,
    answer: b.signingSecret,
  }),
} satisfies Record<keyof typeof basalticRoutes, Operation>;
