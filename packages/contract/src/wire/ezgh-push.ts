/**
 * The EZGH batch push: one signed POST with 1 to 10 messages (P6), and what its answer says about each of them (P9, P12).
 * Source of the format: the "Push subscriptions" page of EZGH Cloud Queues.
 */
import { type Answer, type Format, httpError, type Making, type Outcome, type Reading, type WireRequest } from "./format.ts";
import { retryAfterMs } from "./retry.ts";
import { base64, ezghSignature, standardWebhooksSignature } from "./signing.ts";
import { utf8 } from "./utf8.ts";

/** A message as the format needs it; a claimed message has these fields. */
export interface PushMessage {
  messageId: string;
  seq: number;
  body: Uint8Array;
  attributes: Record<string, string> | null;
  groupKey: string | null;
  /** Milliseconds since 1970. */
  sentAt: number;
  /** How often it was handed out, this time included. */
  receives: number;
  meta: { traceparent?: string } | null;
}

export interface PushDelivery {
  /** Resource names, `qsb_…` and `que_…`. */
  subscription: string;
  queue: string;
  /** Whether messages carry `groupId` and `seq`. */
  fifo: boolean;
  /** A UUIDv7, new on every attempt (P17). */
  deliveryId: string;
  messages: readonly PushMessage[];
}

// A byte order mark is part of the text: what was sent is what is delivered.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The `body` member: text as it was sent, or base64 where the bytes are not UTF-8. */
function bodyMember(body: Uint8Array): string {
  let text: string;
  try {
    text = decoder.decode(body);
  } catch {
    return `"bodyBase64":"${base64(body)}"`;
  }
  return `"body":${JSON.stringify(text)}`;
}

let second = Number.NaN;
let secondText = "";

/** ISO 8601 with milliseconds. Messages of a batch were often sent within one second, whose text is made once. */
function iso(ms: number): string {
  const whole = Math.floor(ms / 1000);
  if (whole !== second) {
    second = whole;
    secondText = new Date(whole * 1000).toISOString().slice(0, -4);
  }
  return `${secondText}${String(ms - whole * 1000).padStart(3, "0")}Z`;
}

function messageJson(message: PushMessage, fifo: boolean): string {
  const attributes = message.attributes === null ? "{}" : JSON.stringify(message.attributes);
  const order = fifo ? `,"groupId":${JSON.stringify(message.groupKey)},"seq":"${message.seq}"` : "";
  return (
    `{"messageId":"${message.messageId}",${bodyMember(message.body)},"attributes":${attributes},` +
    `"sentAt":"${iso(message.sentAt)}","receiveCount":${message.receives}${order}}`
  );
}

/** The request of one delivery, signed at `making.wallMs`. Ids are of our own making and need no escapes. */
export function buildPush(delivery: PushDelivery, making: Making): WireRequest {
  let messages = "";
  let traceparent: string | undefined;
  for (const message of delivery.messages) {
    messages += `${messages === "" ? "" : ","}${messageJson(message, delivery.fifo)}`;
    traceparent ??= message.meta?.traceparent;
  }
  const body = utf8(
    `{"subscription":"${delivery.subscription}","queue":"${delivery.queue}","deliveryId":"${delivery.deliveryId}","messages":[${messages}]}`,
  );
  const seconds = Math.floor(making.wallMs / 1000);
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": `Millrace/${making.version}`,
    "ezgh-signature": ezghSignature(making.hmac, making.keys, seconds, body),
    "ezgh-delivery-id": delivery.deliveryId,
    "webhook-id": delivery.deliveryId,
    "webhook-timestamp": String(seconds),
    "webhook-signature": standardWebhooksSignature(making.hmac, making.keys, delivery.deliveryId, seconds, body),
  };
  // A batch has one header for several senders: the first message that was sent within a trace lends its own.
  if (traceparent !== undefined) headers.traceparent = traceparent;
  return { headers, body };
}

/** The `failed` list of a body of the shape `{"failed": [strings]}`, further members allowed; `null` for every other body. */
function failedList(body: Uint8Array): readonly string[] | null {
  // Most answers are empty or plain text: only an object can have the shape.
  let at = 0;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++;
  if (body[at] !== 0x7b) return null;
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(body));
  } catch {
    return null;
  }
  if (value === null || typeof value !== "object" || !Object.hasOwn(value, "failed")) return null;
  const { failed } = value as { failed: unknown };
  return Array.isArray(failed) && failed.every((id) => typeof id === "string") ? failed : null;
}

/** What an answer means for the batch of `messageIds` (P9); `Retry-After` on 429 and 503 delays all of it, at most `maxDelayMs` (P12). */
export function readPushAnswer(
  answer: Answer,
  messageIds: readonly string[],
  { nowMs, maxDelayMs }: { nowMs: number; maxDelayMs: number },
): Reading {
  const { status } = answer;
  if (status >= 200 && status < 300) {
    const failed = answer.truncated ? null : failedList(answer.body);
    const listed = failed === null || failed.length === 0 ? null : new Set(failed);
    const outcomes = messageIds.map((id): Outcome => (listed?.has(id) ? { kind: "retry", delayMs: null } : { kind: "ack" }));
    return { outcomes, ok: true, slowDown: false, error: null };
  }
  const slowDown = status === 429 || status === 503;
  const delayMs = slowDown ? retryAfterMs(answer.headers["retry-after"], nowMs, maxDelayMs) : null;
  return {
    outcomes: messageIds.map((): Outcome => ({ kind: "retry", delayMs })),
    ok: false,
    slowDown,
    error: httpError(answer),
  };
}

/** The format as data for the engine. */
export const ezghPush: Format<PushDelivery> = { build: buildPush, read: readPushAnswer };
