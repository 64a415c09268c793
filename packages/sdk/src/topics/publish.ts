/** Publishing: how a program's values become a message and attributes, and batches of any size requests of ten. */
import { asBytes, encodePayload } from "../codec.ts";
import { ApiError } from "../errors.ts";
import { messageOf } from "../text.ts";
import type { TopicCall } from "./call.ts";
import type { NotificationAttribute } from "./delivery.ts";
import type { PublishedNotification, RefusedNotification } from "./records.ts";
import { fromWire } from "./wire.ts";

/** What goes with a message. */
export interface PublishOptions {
  subject?: string;
  /** Texts, numbers, lists and bytes become attributes of their type; filters look at them. */
  attributes?: Record<string, NotificationAttribute | number | readonly unknown[] | Uint8Array>;
  /** What subscriptions of a protocol get instead of the message. */
  perProtocol?: { webhook?: unknown; queue?: unknown };
  /** On FIFO topics: what is delivered in order. */
  groupKey?: string;
  /** On FIFO topics: a second publication within five minutes answers the first. */
  deduplicationKey?: string;
}

/** One publication of a batch. */
export interface BatchNotification extends PublishOptions {
  message: unknown;
}

/** How many publications one request takes. */
const batchSize = 10;

/** Text as it is, anything else as JSON. Throws a `TypeError` for bytes and for what JSON has no word for. */
function messageText(message: unknown): string {
  const { body, encoding } = encodePayload(message, undefined);
  if (encoding === "base64") throw new TypeError("message: must be text or something that JSON can hold, not bytes");
  return body;
}

function wireAttribute(name: string, value: unknown): unknown {
  if (typeof value === "string") return value;
  if (typeof value === "number") return { type: "Number", value };
  if (Array.isArray(value)) return { type: "String.Array", value };
  const bytes = asBytes(value);
  if (bytes !== undefined) return { type: "Binary", value: encodePayload(bytes, undefined).body };
  if (typeof value === "object" && value !== null && "type" in value) return value;
  throw new TypeError(`attributes.${name}: must be a text, a number, a list, bytes, or {type, value}`);
}

function wirePublication(
  message: unknown,
  { subject, attributes, perProtocol, groupKey, deduplicationKey }: PublishOptions,
): Record<string, unknown> {
  const named = Object.entries(attributes ?? {}).map(([name, value]) => [name, wireAttribute(name, value)]);
  const { webhook, queue } = perProtocol ?? {};
  return {
    message:
      perProtocol === undefined
        ? messageText(message)
        : {
            default: messageText(message),
            ...(webhook === undefined ? {} : { webhook: messageText(webhook) }),
            ...(queue === undefined ? {} : { queue: messageText(queue) }),
          },
    message_structure: perProtocol === undefined ? undefined : "json",
    subject,
    attributes: attributes === undefined ? undefined : Object.fromEntries(named),
    message_group_id: groupKey,
    message_deduplication_id: deduplicationKey,
  };
}

/** Publishes one notification. Repeated under one key when the answer is lost, so it is published once. */
export async function publishOne(call: TopicCall, path: string, message: unknown, options: PublishOptions): Promise<PublishedNotification> {
  const answer = await call("POST", `${path}/publish`, { body: wirePublication(message, options), create: true });
  return fromWire<{ notification: PublishedNotification }>(answer).notification;
}

type Answered = { results: { id: string; notification?: PublishedNotification; error?: { code: string; message: string } }[] };

/** Publishes any number; answers one result for each, in order. Rejects when the very first request fails. */
export async function publishMany(
  call: TopicCall,
  path: string,
  notifications: readonly BatchNotification[],
): Promise<(PublishedNotification | RefusedNotification)[]> {
  const results: (PublishedNotification | RefusedNotification)[] = [];
  const entries = notifications.map(({ message, ...options }, at) => ({ id: String(at), ...wirePublication(message, options) }));
  for (let at = 0; at < entries.length; at += batchSize) {
    const asked = entries.slice(at, at + batchSize);
    let answer: unknown;
    try {
      answer = await call("POST", `${path}/publish_batch`, { body: { entries: asked }, create: true });
    } catch (error) {
      if (at === 0) throw error;
      // What was published before is published. Without an answer nobody knows whether these were.
      const code = error instanceof ApiError ? error.code : "no_answer";
      results.push(...asked.map(() => ({ messageId: null, code, error: messageOf(error) })));
      const left = entries.length - results.length;
      return [
        ...results,
        ...Array.from({ length: left }, () => ({ messageId: null, code: "not_sent", error: "not sent after a failure" })),
      ];
    }
    const byId = new Map(fromWire<Answered>(answer).results.map((result) => [result.id, result]));
    for (const { id } of asked) {
      const { notification, error } = byId.get(id) ?? {};
      results.push(
        notification ?? {
          messageId: null,
          code: error?.code ?? "internal",
          error: error?.message ?? "the server answered nothing for this one",
        },
      );
    }
  }
  return results;
}
