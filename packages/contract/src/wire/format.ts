/**
 * What every push format is made of (P22): a request to make, an answer to read, and the outcome for each message. A format is two
 * pure functions; the engine carries bytes between them and knows nothing else about it.
 */

/** HMAC-SHA256 over the parts as if they were one text, as lower-case hex or padded base64; handed in, because this package does no cryptography. */
export type Hmac = (form: "hex" | "base64", key: Uint8Array, ...parts: (string | Uint8Array)[]) => string;

/** A request as it goes out: everything the format decides. The engine adds `Host` and `Content-Length`. */
export interface WireRequest {
  headers: Record<string, string>;
  body: Uint8Array;
}

/** A complete answer. */
export interface Answer {
  status: number;
  /** Names in lower case. */
  headers: Record<string, string | string[] | undefined>;
  /** What was kept of the body. */
  body: Uint8Array;
  /** The endpoint sent more than `body` holds. */
  truncated: boolean;
}

/** What the answer means for one message. Delays in milliseconds; a `retry` without one follows the retry schedule. */
export type Outcome =
  | { kind: "ack" }
  | { kind: "retry"; delayMs: number | null }
  | { kind: "defer"; delayMs: number }
  | { kind: "dead-letter"; reason: string };

/** An answer, read. */
export interface Reading {
  /** One per message, in the request's order. */
  outcomes: Outcome[];
  /** A successful delivery, for health and flow control: it may still list failed messages. */
  ok: boolean;
  /** The endpoint asked for less (P13): halve the limit. */
  slowDown: boolean;
  /** At most 200 characters for a batch, 512 bytes of the answer for a single message; `null` exactly when `ok`. */
  error: string | null;
}

/** When a request is made: the signing instant in real time, keys newest first, and the product's version for `User-Agent`. */
export interface Making {
  hmac: Hmac;
  keys: readonly SigningKey[];
  /** Real milliseconds since 1970 (P26). */
  wallMs: number;
  version: string;
}

/** One secret in its two readings (P4). */
export interface SigningKey {
  /** The 32 bytes behind `whsec_`: EZGH and Standard Webhooks. */
  decoded: Uint8Array;
  /** The whole text's UTF-8 bytes: Gigadrive and Basaltic. */
  literal: Uint8Array;
}

/** A push format. `Delivery` is what it needs to know about one delivery. */
export interface Format<Delivery> {
  build(delivery: Delivery, making: Making): WireRequest;
  /** `nowMs` is real time, for HTTP dates; `maxDelayMs` bounds every delay that the endpoint names. */
  read(answer: Answer, messageIds: readonly string[], limits: { nowMs: number; maxDelayMs: number }): Reading;
}

/** The longest error text that is stored, in characters. */
export const maxErrorLength = 200;

/** The first `max` UTF-16 units of `text`, never half a character. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

/** The text with every signing secret and API key in it cut short: an endpoint may answer with what it was configured with (P5). */
export function withoutSecrets(text: string): string {
  return text.replace(/\b(whsec_|mlr_)[A-Za-z0-9_-]+/g, "$1…");
}

/** `HTTP <status>` and the beginning of the answer on one line, at most 200 characters. */
export function httpError({ status, body }: Answer): string {
  const text = new TextDecoder()
    .decode(body.subarray(0, 1024))
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  return cut(text === "" ? `HTTP ${status}` : `HTTP ${status}: ${withoutSecrets(text)}`, maxErrorLength);
}
