/**
 * What a topic's webhook gets, read out of a request whose signature was checked: a notification, in its envelope or raw, or the handshake
 * of a subscription. Only what was signed decides what a request is; headers, which are not signed, fill in what a raw body cannot say.
 */
import { InvalidPayloadError } from "../outcome.ts";

/** An attribute of a notification, as it was published; plain text is of type `String`. */
export type NotificationAttribute =
  | string
  | { type: "String" | "Binary"; value: string }
  | { type: "Number"; value: string | number }
  | { type: "String.Array"; value: string | unknown[] };

/** What tells every request of a topic apart. */
interface Identified {
  /** The same at every delivery of this notification: use it as the idempotency key of what you do. */
  messageId: string;
  topicCrn: string;
  subscriptionId: string;
  /** 1 on the first delivery. */
  attempt: number;
}

/** A published notification. */
export interface ReceivedNotification extends Identified {
  message: string;
  /** The message as JSON. Throws `InvalidPayloadError` when it is none: it ends the delivery, for it can never succeed. */
  json<T = unknown>(): T;
  /** Of a raw delivery only the message and the ids are known. */
  raw: boolean;
  topicName: string | undefined;
  subject: string | undefined;
  attributes: Readonly<Record<string, NotificationAttribute>>;
  publishedAt: Date | undefined;
  unsubscribeUrl: string | undefined;
  /** Aborted when the server has hung up. */
  signal: AbortSignal;
}

/** The handshake of a subscription that waits to be confirmed. */
export interface Confirmation extends Identified {
  topicName: string;
  /** Opening it confirms. */
  confirmUrl: string;
  token: string;
}

const own = "x-basaltic-";
/** A JSON text has no byte order mark; a message may begin with one. */
const text = new TextDecoder("utf-8", { ignoreBOM: true });

function objectIn(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // a raw message may be anything
  }
  return {};
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** Reads a genuine request; `undefined` when it is neither of the two. */
export function readDelivery(
  body: Uint8Array,
  { headers, signal }: Request,
): { kind: "notification"; notification: ReceivedNotification } | { kind: "confirmation"; confirmation: Confirmation } | undefined {
  const header = (name: string): string => headers.get(own + name) ?? "";
  const type = header("notification-type");
  const whole = text.decode(body);
  const fields = objectIn(whole);
  const identified: Identified = {
    messageId: header("message-id"),
    topicCrn: header("topic-crn"),
    subscriptionId: header("subscription-id"),
    attempt: Number(header("delivery-attempt")) || 1,
  };
  if (identified.messageId === "") return undefined;

  if (type === "subscription_confirmation") {
    const [confirmUrl, token] = [textOf(fields.confirm_url), textOf(fields.token)];
    if (fields.type !== type || fields.message_id !== identified.messageId || confirmUrl === undefined || token === undefined)
      return undefined;
    return { kind: "confirmation", confirmation: { ...identified, topicName: textOf(fields.topic_name) ?? "", confirmUrl, token } };
  }
  if (type !== "notification") return undefined;

  // a publisher cannot know the id of what is being published: a raw message never passes for an envelope
  const raw = fields.type !== type || fields.message_id !== identified.messageId;
  const message = raw ? whole : (textOf(fields.message) ?? "");
  const publishedAt = raw ? undefined : new Date(String(fields.timestamp));
  return {
    kind: "notification",
    notification: {
      ...identified,
      message,
      json<T>() {
        try {
          return JSON.parse(message) as T;
        } catch (error) {
          throw new InvalidPayloadError("the message cannot be read as JSON", error);
        }
      },
      raw,
      topicName: raw ? undefined : textOf(fields.topic_name),
      subject: raw ? undefined : textOf(fields.subject),
      attributes: raw ? {} : ((fields.attributes ?? {}) as Record<string, NotificationAttribute>),
      publishedAt,
      unsubscribeUrl: raw ? (headers.get(`${own}unsubscribe-url`) ?? undefined) : textOf(fields.unsubscribe_url),
      signal,
    },
  };
}
