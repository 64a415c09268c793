/**
 * What queues get of notifications: the envelope of one that subscribes (T9), and the envelope of a failure in a dead-letter queue (T13).
 * Pure, but for the digest of a name.
 */
import { createHash } from "node:crypto";
import { failureEnvelope, type NotificationAttribute, type NotificationParts, notificationEnvelope } from "@millrace/contract/wire";
import type { Content } from "../store/delivery.ts";
import type { Notification } from "../store/notification.ts";
import type { AttemptError } from "./delivery-rules.ts";
import { payloadFor } from "./payload.ts";

/** How a topic is named in what it sends, and whether it keeps an order. */
export interface TopicNames {
  name: string;
  crn: string;
  fifo: boolean;
}

/** A queue to write into. */
export interface QueueTarget {
  queueNo: number;
  fifo: boolean;
}

/** As many attributes as a queue takes, each with a name and a value of these bounds. */
const MOST_ATTRIBUTES = 10;
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const VALUE_BYTES = 1024;

const encoder = new TextEncoder();
/** The group of a topic in FIFO queues. */
const groupOf = (crn: string): string => createHash("sha256").update(crn).digest("hex");

/** What a subscription gets of a notification. */
export function partsFor(
  notification: Notification,
  topic: TopicNames,
  to: { subscriptionId: string; protocol: "webhook" | "queue"; unsubscribeUrl: string },
): NotificationParts {
  return {
    messageId: notification.messageId,
    topicCrn: topic.crn,
    topicName: topic.name,
    subscriptionId: to.subscriptionId,
    message: payloadFor(notification, to.protocol),
    subject: notification.subject,
    attributes: notification.attributes,
    acceptedAt: notification.acceptedAt,
    unsubscribeUrl: to.unsubscribeUrl,
  };
}

/** The ids, and the notification's own attributes as far as a queue takes them. */
function attributesOf({ messageId, topicCrn, subscriptionId, attributes: own }: NotificationParts): Record<string, string> {
  const attributes: Record<string, string> = { message_id: messageId, topic_crn: topicCrn, subscription_id: subscriptionId };
  for (const [name, attribute] of Object.entries(own ?? {})) {
    if (Object.keys(attributes).length >= MOST_ATTRIBUTES) break;
    const text = textOf(attribute);
    if (NAME.test(name) && Buffer.byteLength(text) <= VALUE_BYTES && !Object.hasOwn(attributes, name)) attributes[name] = text;
  }
  return attributes;
}

function textOf(attribute: NotificationAttribute): string {
  const value = typeof attribute === "string" ? attribute : attribute.value;
  return typeof value === "string" ? value : JSON.stringify(value);
}

const metaOf = ({ traceparent }: Notification): string =>
  JSON.stringify({ contentType: "application/json", source: "topic", ...(traceparent === null ? {} : { traceparent }) });

/** The message of a subscribed queue. In a FIFO queue it stands in its publication's group, or in the topic's. */
export function subscribedContent(notification: Notification, parts: NotificationParts, to: QueueTarget): Content {
  return {
    queueNo: to.queueNo,
    body: encoder.encode(notificationEnvelope(parts)),
    attributes: JSON.stringify(attributesOf(parts)),
    meta: metaOf(notification),
    groupKey: to.fifo ? (notification.groupId ?? groupOf(parts.topicCrn)) : null,
    dedupId: to.fifo ? parts.messageId : null,
  };
}

/** The message of a dead-letter queue. Its deduplication id is the delivery's: two subscriptions that fail are two envelopes. */
export function failedContent(
  notification: Notification,
  parts: NotificationParts,
  to: QueueTarget,
  failure: { deliveryId: string; attempts: number; failedAt: number; lastError: AttemptError },
): Content {
  return {
    queueNo: to.queueNo,
    body: encoder.encode(failureEnvelope({ notification: parts, ...failure })),
    attributes: JSON.stringify({
      message_id: parts.messageId,
      topic_crn: parts.topicCrn,
      subscription_id: parts.subscriptionId,
      delivery_id: failure.deliveryId,
    }),
    meta: metaOf(notification),
    groupKey: to.fifo ? groupOf(parts.topicCrn) : null,
    dedupId: to.fifo ? failure.deliveryId : null,
  };
}
