/**
 * Signatures of deliveries, for servers that do not use `handler` (C14). Whatever a header holds, the answer is true or false, never an
 * error; digests are compared in constant time, and a signature is good for five minutes either way. Always give the raw body.
 */
import {
  gigadriveSignature,
  hex,
  parseSecret,
  type SigningKey,
  verifyBasaltic,
  verifyEzgh,
  verifyGigadrive,
} from "@millrace/contract/wire";
import { asBytes } from "./codec.ts";
import { sha256, withHmac } from "./hmac.ts";

const utf8 = new TextEncoder();

/** A body as it came over the wire: its bytes, or its text when it is UTF-8. */
export type RawBody = string | Uint8Array | ArrayBuffer;
/** One secret, or several while one takes over from another. */
export type Secrets = string | readonly string[];

/** What the signature of a queue delivery covers. */
export interface QueueDelivery {
  /** The environment's signing secret, as it stands. */
  secret: Secrets;
  /** `x-gigadrive-queue-name` */
  queue: string;
  /** `x-gigadrive-queue-message-id` */
  messageId: string;
  /** `x-gigadrive-queue-attempt` */
  attempt: number | string;
  body: RawBody;
  /** Real milliseconds since 1970; now unless given. */
  now?: number;
}

function bytesOf(body: RawBody): Uint8Array {
  if (typeof body === "string") return utf8.encode(body);
  const bytes = asBytes(body);
  if (bytes === undefined) throw new TypeError("body: must be the raw body as bytes or text, not something parsed from it");
  return bytes;
}

/** An empty secret is none: a variable that is not set. */
export const listed = (secrets: Secrets): readonly string[] =>
  (typeof secrets === "string" ? [secrets] : secrets).filter((secret) => typeof secret === "string" && secret !== "");

/** Keys of schemes that take a secret's text as it is. */
const literalKeys = (secrets: Secrets): SigningKey[] =>
  listed(secrets).map((secret) => ({ decoded: new Uint8Array(), literal: utf8.encode(secret) }));

/** The attempt as a number; `undefined` unless it is written as a sender writes it. */
export function readAttempt(attempt: number | string): number | undefined {
  return /^[1-9]\d{0,8}$/.test(String(attempt)) ? Number(attempt) : undefined;
}

/** Types do not bind callers from JavaScript: what is missing or of another kind must give false, not an error. */
async function falseInsteadOfError(check: () => Promise<boolean>): Promise<boolean> {
  try {
    return await check();
  } catch {
    return false;
  }
}

/** Checks `x-gigadrive-queue-signature` of a push delivery (one message a request). `header` is its value; `null` or `undefined` is false. */
export function verifyQueueSignature(header: string | null | undefined, delivery: QueueDelivery): Promise<boolean> {
  return falseInsteadOfError(async () => {
    const attempt = readAttempt(delivery.attempt);
    const keys = literalKeys(delivery.secret);
    if (!header || attempt === undefined || keys.length === 0) return false;
    const { queue, messageId } = delivery;
    const bodyHash = hex(await sha256(bytesOf(delivery.body)));
    const now = delivery.now ?? Date.now();
    return withHmac((hmac) => verifyGigadrive(hmac, header, { queue, messageId, attempt, bodyHash }, keys, now));
  });
}

/** Makes the value of `x-gigadrive-queue-signature`, as a server does: for tests of your own handlers. Rejects without a secret. */
export async function signQueueDelivery(delivery: QueueDelivery): Promise<string> {
  const attempt = readAttempt(delivery.attempt);
  const [key] = literalKeys(delivery.secret);
  if (attempt === undefined) throw new RangeError(`attempt: must be a whole number from 1, got ${delivery.attempt}`);
  if (key === undefined) throw new RangeError("secret: must not be empty");
  const { queue, messageId } = delivery;
  const bodyHash = hex(await sha256(bytesOf(delivery.body)));
  const now = delivery.now ?? Date.now();
  return withHmac((hmac) => gigadriveSignature(hmac, key, now, { queue, messageId, attempt, bodyHash }));
}

/** Checks `EZGH-Signature` of a push subscription's delivery (a batch a request). `secret` is what creating the subscription answered: `whsec_…`. */
export function verifyPushSignature(
  header: string | null | undefined,
  delivery: { secret: Secrets; body: RawBody; now?: number },
): Promise<boolean> {
  return falseInsteadOfError(async () => {
    const keys = listed(delivery.secret)
      .map(parseSecret)
      .filter((key) => key !== undefined);
    if (!header || keys.length === 0) return false;
    const body = bytesOf(delivery.body);
    const now = delivery.now ?? Date.now();
    return withHmac((hmac) => verifyEzgh(hmac, header, body, keys, now));
  });
}

/** Checks `X-Basaltic-Signature` of a topic's webhook delivery; `timestamp` is the value of `X-Basaltic-Timestamp`. */
export function verifyNotificationSignature(
  header: string | null | undefined,
  delivery: { secret: Secrets; timestamp: string | null | undefined; body: RawBody; now?: number },
): Promise<boolean> {
  return falseInsteadOfError(async () => {
    const keys = literalKeys(delivery.secret);
    const { timestamp } = delivery;
    if (!header || !timestamp || keys.length === 0) return false;
    const body = bytesOf(delivery.body);
    const now = delivery.now ?? Date.now();
    return withHmac((hmac) => verifyBasaltic(hmac, timestamp, header, body, keys, now));
  });
}
