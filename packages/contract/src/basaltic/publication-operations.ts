/** The operations of publishing on topics and of what became of it, by name. */
import { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import { type Operation, operation } from "../operation.ts";
import type { publicationRoutes } from "./routes.ts";
import * as b from "./shapes.ts";

const topic = z.object({ topic: b.reference });
const subscription = z.object({ subscriptionId: b.subscriptionId });
const notification = z.object({ messageId: b.reference });
const delivery = z.object({ deliveryId: b.reference });
const MiB = 1024 * 1024;

const atAccount: readonly ErrorCode[] = ["project_not_found"];
const atTopic: readonly ErrorCode[] = [...atAccount, "topic_not_found"];
const atDelivery: readonly ErrorCode[] = [...atAccount, "delivery_not_found"];

export const publicationOperations = {
  Publish: operation({
    summary: "Publish a notification. Answered once it is durable; it reaches whoever is subscribed now.",
    permission: "notifications.messages.publish",
    idempotent: true,
    bodyLimit: 2 * MiB,
    errors: [...atTopic, "quota_exceeded"],
    params: topic,
    body: b.publish,
    answer: b.published,
  }),
  PublishBatch: operation({
    summary: "Publish up to 10 notifications, each with a result of its own.",
    permission: "notifications.messages.publish",
    idempotent: true,
    bodyLimit: 20 * MiB,
    errors: atTopic,
    params: topic,
    body: b.publishBatch,
    answer: b.publishedBatch,
  }),
  GetNotification: operation({
    summary: "Show how far a notification got.",
    permission: "notifications.messages.get",
    errors: [...atAccount, "notification_not_found"],
    params: notification,
    answer: b.notification,
  }),
  ListDeliveries: operation({
    summary: "List a topic subscription's delivery records, newest first.",
    permission: "notifications.deliveries.list",
    errors: [...atAccount, "subscription_not_found"],
    params: subscription,
    query: b.deliveryQuery,
    answer: b.deliveries,
  }),
  GetDelivery: operation({
    summary: "Show a delivery record.",
    permission: "notifications.deliveries.get",
    errors: atDelivery,
    params: delivery,
    answer: b.delivery,
  }),
  Redeliver: operation({
    summary: "Try a delivery that has ended once more, with fresh attempts.",
    permission: "notifications.deliveries.redeliver",
    idempotent: true,
    errors: [...atDelivery, "subscription_not_found", "delivery_pending"],
    params: delivery,
    body: b.nothingElse,
    answer: b.delivery,
  }),
} satisfies Record<keyof typeof publicationRoutes, Operation>;
