/**
 * The Basaltic notification: one signed POST per notification and subscription (T6 to T8), and what its answer says (T11). A queue gets
 * the same envelope as its message's body (T9). The signed bytes are exactly the body; what is published is delivered as it came.
 */
import { type Answer, type Format, httpError, type Making, type Reading, type SigningKey, type WireRequest } from "./format.ts";
import { retryAfterMs } from "./retry.ts";
import { basalticSignature, standardWebhooksSignature } from "./signing.ts";
import { utf8 } from "./utf8.ts";

/** An attribute as publishers give it: a plain string, or a value with its type; `Binary` values are base64 texts. */
export type NotificationAttribute =
  | string
  | { type: "String" | "Binary"; value: string }
  | { type: "Number"; value: string | number }
  | { type: "String.Array"; value: string | unknown[] };

/** What one subscription gets of a notification: `message` is the payload selected for its protocol. */
export interface NotificationParts {
  messageId: string;
  topicCrn: string;
  topicName: string;
  subscriptionId: string;
  message: string;
  subject: string | null;
  attributes: Record<string, NotificationAttribute> | null;
  /** When it was accepted, in milliseconds since 1970. */
  acceptedAt: number;
  unsubscribeUrl: string;
}

/** The handshake of a subscription that is not confirmed yet. */
export interface ConfirmationParts {
  messageId: string;
  topicCrn: string;
  topicName: string;
  subscriptionId: string;
  confirmUrl: string;
  token: string;
  /** When it was asked for, in milliseconds since 1970. */
  askedAt: number;
}

/** One request of a webhook subscription. `deliveryId` stays the same over its attempts. */
export type NotificationDelivery = { deliveryId: string; attempt: number } & (
  | { kind: "notification"; raw: boolean; parts: NotificationParts }
  | { kind: "confirmation"; parts: ConfirmationParts }
);

const iso = (ms: number): string => new Date(ms).toISOString();

/** The envelope as JSON text; `subject` and `attributes` are in it when they were given, an empty subject too. */
export function notificationEnvelope(parts: NotificationParts): string {
  const { subject, attributes } = parts;
  return JSON.stringify({
    type: "notification",
    message_id: parts.messageId,
    topic_crn: parts.topicCrn,
    topic_name: parts.topicName,
    subscription_id: parts.subscriptionId,
    ...(subject === null ? {} : { subject }),
    message: parts.message,
    ...(attributes === null ? {} : { attributes }),
    timestamp: iso(parts.acceptedAt),
    unsubscribe_url: parts.unsubscribeUrl,
  });
}

function confirmationBody(parts: ConfirmationParts): string {
  return JSON.stringify({
    type: "subscription_confirmation",
    message_id: parts.messageId,
    topic_crn: parts.topicCrn,
    topic_name: parts.topicName,
    subscription_id: parts.subscriptionId,
    confirm_url: parts.confirmUrl,
    token: parts.token,
    timestamp: iso(parts.askedAt),
  });
}

/** The request of one attempt, signed at `making.wallMs` by the one key in force. Ids, names and URLs are of our own making. */
export function buildNotification(delivery: NotificationDelivery, making: Making): WireRequest {
  const key = making.keys[0] as SigningKey;
  const { parts } = delivery;
  let text: string;
  if (delivery.kind === "confirmation") text = confirmationBody(delivery.parts);
  else text = delivery.raw ? delivery.parts.message : notificationEnvelope(delivery.parts);
  const body = utf8(text);
  const seconds = Math.floor(making.wallMs / 1000);
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": `Millrace/${making.version}`,
    "x-basaltic-notification-type": delivery.kind === "confirmation" ? "subscription_confirmation" : "notification",
    "x-basaltic-message-id": parts.messageId,
    "x-basaltic-subscription-id": parts.subscriptionId,
    "x-basaltic-topic-crn": parts.topicCrn,
    "x-basaltic-delivery-attempt": String(delivery.attempt),
    "x-basaltic-timestamp": String(seconds),
    "x-basaltic-signature": basalticSignature(making.hmac, key, seconds, body),
    "webhook-id": delivery.deliveryId,
    "webhook-timestamp": String(seconds),
    "webhook-signature": standardWebhooksSignature(making.hmac, [key], delivery.deliveryId, seconds, body),
  };
  if (delivery.kind === "notification") headers["x-basaltic-unsubscribe-url"] = delivery.parts.unsubscribeUrl;
  return { headers, body };
}

/** Whether a status other than 2xx may pass: 408, 429 and 5xx. Every other one, redirects among them, ends the delivery. */
export const retriedStatus = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/** What an answer means (T11). Its body decides nothing; `Retry-After` counts on every status that is tried again. */
export function readNotificationAnswer(
  answer: Answer,
  _messageIds: readonly string[],
  { nowMs, maxDelayMs }: { nowMs: number; maxDelayMs: number },
): Reading {
  const { status } = answer;
  if (status >= 200 && status < 300) return { outcomes: [{ kind: "ack" }], ok: true, slowDown: false, error: null };
  const error = httpError(answer);
  if (!retriedStatus(status)) return { outcomes: [{ kind: "dead-letter", reason: error }], ok: false, slowDown: false, error };
  const delayMs = retryAfterMs(answer.headers["retry-after"], nowMs, maxDelayMs);
  return { outcomes: [{ kind: "retry", delayMs }], ok: false, slowDown: status === 429 || status === 503, error };
}

/** The format as data for the engine. */
export const basalticNotification: Format<NotificationDelivery> = { build: buildNotification, read: readNotificationAnswer };

/** What a dead-letter queue gets for a delivery that failed for good (T13). */
export interface FailureParts {
  notification: NotificationParts;
  deliveryId: string;
  attempts: number;
  /** Milliseconds since 1970. */
  failedAt: number;
  lastError: { class: string; status?: number; message: string };
}

/** The envelope of a failure as JSON text. Its notification is the envelope that could not be delivered. */
export function failureEnvelope(parts: FailureParts): string {
  const { notification, deliveryId, attempts, failedAt, lastError } = parts;
  return (
    `{"type":"notification_failure","notification":${notificationEnvelope(notification)},` +
    `"subscription_id":${JSON.stringify(notification.subscriptionId)},"delivery_id":${JSON.stringify(deliveryId)},` +
    `"attempts":${attempts},"failed_at":"${iso(failedAt)}","last_error":${JSON.stringify(lastError)}}`
  );
}
