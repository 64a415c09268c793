/**
 * The Gigadrive push: one signed POST per message, its raw body with its own headers (C2), and what the answer says about it (C3).
 * Invariant: no header of a message can keep it from being delivered or stand in for one of the platform's.
 */
import {
  type Answer,
  cut,
  type Format,
  type Making,
  type Outcome,
  type Reading,
  type SigningKey,
  type WireRequest,
  withoutSecrets,
} from "./format.ts";
import { type Backoff, retryAfterMs } from "./retry.ts";
import { gigadriveSignature, standardWebhooksSignature } from "./signing.ts";

/** One delivery of one message. Instants are milliseconds since 1970. */
export interface MessageDelivery {
  queue: string;
  messageId: string;
  /** 1 on the first delivery; deferrals don't count. */
  attempt: number;
  body: Uint8Array;
  /** The SHA-256 of `body` in lower-case hex: this package does no cryptography. */
  bodyHash: string;
  contentType: string | null;
  attributes: Record<string, string> | null;
  createdAt: number;
  expiresAt: number;
  /** When the answer must be in, in real time. */
  deadline: number;
  groupKey: string | null;
  deduplicationKey: string | null;
  deploymentId: string;
  /** The deployment that the message asked for and that no longer serves. */
  fallbackFrom: string | null;
  traceparent: string | null;
}

/** The longest reason of a dead letter, in characters, and how much of an answer is kept as an error, in bytes. */
export const maxReasonLength = 500;
const ERROR_BYTES = 512;

const own = "x-gigadrive-queue-";
/** What belongs to a connection or to the platform: never a message's to set. */
const reserved: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
  "host",
  "content-length",
  "authorization",
  "cookie",
  "traceparent",
]);

/** Whether a header of this name, in lower case, is refused at send. */
export function reservedHeader(name: string): boolean {
  return reserved.has(name) || name.startsWith("x-gigadrive-") || name.startsWith("webhook-");
}

/** The form of a header's name: a token of RFC 9110. */
export const headerName: RegExp = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
/** The form of a header's value: printable ASCII, and no space at an end that a receiver would cut off. */
export const headerValue: RegExp = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/;

/** The attributes that travel as headers, and the names of those that can't; names that are not tokens are percent-encoded. */
function forwarded(attributes: Record<string, string> | null, taken: Record<string, string>): string[] {
  const omitted: string[] = [];
  for (const [name, value] of Object.entries(attributes ?? {})) {
    const key = name.toLowerCase();
    const fits = headerName.test(name) && headerValue.test(value) && !reservedHeader(key);
    if (fits && !Object.hasOwn(taken, key)) taken[key] = value;
    else omitted.push(headerName.test(name) ? name : encodeURIComponent(name));
  }
  return omitted;
}

/** The request of one delivery, signed at `making.wallMs` by the one key in force. */
export function buildMessage(delivery: MessageDelivery, making: Making): WireRequest {
  const key = making.keys[0] as SigningKey;
  const seconds = Math.floor(making.wallMs / 1000);
  const { messageId, queue, attempt, bodyHash, body } = delivery;
  const headers: Record<string, string> = Object.create(null);
  if (delivery.contentType !== null && headerValue.test(delivery.contentType) && delivery.contentType !== "")
    headers["content-type"] = delivery.contentType;
  const omitted = forwarded(delivery.attributes, headers);
  headers["user-agent"] ??= `Millrace/${making.version}`;
  headers[`${own}name`] = queue;
  headers[`${own}message-id`] = messageId;
  headers[`${own}attempt`] = String(attempt);
  headers[`${own}created-at`] = String(delivery.createdAt);
  headers[`${own}expires-at`] = String(delivery.expiresAt);
  headers[`${own}deadline`] = String(delivery.deadline);
  if (delivery.groupKey !== null) headers[`${own}group-key`] = delivery.groupKey;
  if (delivery.deduplicationKey !== null) headers[`${own}deduplication-key`] = delivery.deduplicationKey;
  headers[`${own}deployment-id`] = delivery.deploymentId;
  if (delivery.fallbackFrom !== null) headers[`${own}deployment-fallback`] = delivery.fallbackFrom;
  if (omitted.length > 0) headers[`${own}omitted-headers`] = omitted.join(",");
  headers[`${own}signature`] = gigadriveSignature(making.hmac, key, making.wallMs, { queue, messageId, attempt, bodyHash });
  headers["webhook-id"] = messageId;
  headers["webhook-timestamp"] = String(seconds);
  headers["webhook-signature"] = standardWebhooksSignature(making.hmac, [key], messageId, seconds, body);
  if (delivery.traceparent !== null) headers.traceparent = delivery.traceparent;
  return { headers, body };
}

/** A header's first value without spaces around it. */
function headerOf(answer: Answer, name: string): string | undefined {
  const value = answer.headers[name];
  return (Array.isArray(value) ? value[0] : value)?.trim();
}

/** Seconds to defer, in milliseconds and at most `maxMs`; `null` for what is negative, unreadable or not there. */
function deferMs(text: string | undefined, maxMs: number): number | null {
  if (text === undefined || !/^\d+(?:\.\d+)?$/.test(text)) return null;
  return Math.min(Math.ceil(Number(text) * 1000), maxMs);
}

/** `HTTP <status>: ` and the first 512 bytes of the body as text that every store and page can hold. */
function httpError({ status, body }: Answer): string {
  const kept = body.subarray(0, ERROR_BYTES);
  const text = new TextDecoder()
    .decode(kept, { stream: body.length > ERROR_BYTES })
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, "\ufffd");
  return text === "" ? `HTTP ${status}` : `HTTP ${status}: ${withoutSecrets(text)}`;
}

/** What an answer means for its message (C3): dead-letter comes first, then defer, then ack; everything else is tried again. */
export function readMessageAnswer(
  answer: Answer,
  _messageIds: readonly string[],
  { nowMs, maxDelayMs }: { nowMs: number; maxDelayMs: number },
): Reading {
  const { status } = answer;
  const decided = (outcome: Outcome): Reading => ({ outcomes: [outcome], ok: true, slowDown: false, error: null });
  if (headerOf(answer, `${own}action`)?.toLowerCase() === "dead-letter") {
    const given = (headerOf(answer, `${own}error`) ?? "").replace(/[^\x20-\x7e]/g, "?");
    const reason = given === "" ? `dead-lettered by the consumer (HTTP ${status})` : cut(withoutSecrets(given), maxReasonLength);
    return decided({ kind: "dead-letter", reason });
  }
  if (status >= 200 && status < 300) {
    const delayMs = deferMs(headerOf(answer, `${own}retry-after`), maxDelayMs);
    return decided(delayMs === null ? { kind: "ack" } : { kind: "defer", delayMs });
  }
  const slowDown = status === 429 || status === 503;
  const delayMs = slowDown ? retryAfterMs(answer.headers["retry-after"], nowMs, maxDelayMs) : null;
  return { outcomes: [{ kind: "retry", delayMs }], ok: false, slowDown, error: httpError(answer) };
}

/** The Gigadrive schedule (C4): from 5 s to 15 min, unless the queue has bounds of its own (Q2). */
export function gigadriveBackoff(queue: { retryBackoffMinMs: number | null; retryBackoffMaxMs: number | null }): Backoff {
  const firstMs = queue.retryBackoffMinMs ?? 5_000;
  return { firstMs, maxMs: queue.retryBackoffMaxMs ?? Math.max(900_000, firstMs) };
}

/** The format as data for the engine. */
export const gigadriveMessage: Format<MessageDelivery> = { build: buildMessage, read: readMessageAnswer };
