/**
 * Secrets and signatures (P4): one form of secret for the whole product, and for each scheme the text that is signed and the headers
 * that carry it. Every scheme signs the body's raw bytes; nothing is parsed or written again before it is signed.
 */
import type { Hmac, SigningKey } from "./format.ts";

const encoder = new TextEncoder();
const prefix = "whsec_";
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Lower-case hex. */
export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += digits[byte];
  return text;
}

/** Standard base64, padded. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  let at = 0;
  for (; at + 2 < bytes.length; at += 3) {
    const group = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
    text += `${alphabet[group >> 18]}${alphabet[(group >> 12) & 63]}${alphabet[(group >> 6) & 63]}${alphabet[group & 63]}`;
  }
  const left = bytes.length - at;
  if (left === 0) return text;
  const group = ((bytes[at] as number) << 16) | ((left === 2 ? (bytes[at + 1] as number) : 0) << 8);
  return `${text}${alphabet[group >> 18]}${alphabet[(group >> 12) & 63]}${left === 2 ? alphabet[(group >> 6) & 63] : "="}=`;
}

/**
 * A new secret: `whsec_` and the unpadded base64url text of 32 bytes that holds neither `-` nor `_`, so that it is standard base64
 * too. `random` gives that many fresh random bytes and is asked again until they fit (four times on average).
 */
export function generateSecret(random: (bytes: number) => Uint8Array): string {
  for (;;) {
    const text = base64(random(32)).slice(0, -1);
    if (!/[+/]/.test(text)) return prefix + text;
  }
}

/** Reads a secret; `undefined` when it is not `whsec_` and the base64url text of exactly 32 bytes. */
export function parseSecret(secret: string): SigningKey | undefined {
  const match = /^whsec_([A-Za-z0-9_-]{43})$/.exec(secret);
  if (match === null) return undefined;
  const text = (match[1] as string).replaceAll("-", "+").replaceAll("_", "/");
  const decoded = new Uint8Array(32);
  let held = 0;
  let bits = 0;
  let at = 0;
  for (const letter of text) {
    held = ((held << 6) | alphabet.indexOf(letter)) & 0xffff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    decoded[at++] = (held >> bits) & 0xff;
  }
  // 43 letters carry two bits more than 32 bytes: anything but zero there is another text for the same key.
  if ((held & 3) !== 0) return undefined;
  return { decoded, literal: encoder.encode(secret) };
}

/** What EZGH signs ahead of the body: `t.`, t in Unix seconds. */
export const ezghText = (seconds: number): string => `${seconds}.`;

/** What Standard Webhooks signs ahead of the body: `id.timestamp.`, the timestamp in Unix seconds. */
export const standardWebhooksText = (id: string, seconds: number): string => `${id}.${seconds}.`;

/** What Gigadrive signs, whole: Unix milliseconds, queue, message id, attempt and the body's SHA-256 in lower-case hex. */
export const gigadriveText = (ms: number, queue: string, messageId: string, attempt: number, bodyHash: string): string =>
  `${ms}.${queue}.${messageId}.${attempt}.${bodyHash}`;

/** What Basaltic signs ahead of the body: `timestamp.`, in Unix seconds. */
export const basalticText = ezghText;

/** `EZGH-Signature`: `t` in seconds and one `v1` per key, in the order given (newest first). */
export function ezghSignature(hmac: Hmac, keys: readonly SigningKey[], seconds: number, body: Uint8Array): string {
  const text = ezghText(seconds);
  let value = `t=${seconds}`;
  for (const key of keys) value += `,v1=${hmac("hex", key.decoded, text, body)}`;
  return value;
}

/** `webhook-signature`: one `v1,<base64>` per key, separated by spaces, in the order given (newest first). */
export function standardWebhooksSignature(hmac: Hmac, keys: readonly SigningKey[], id: string, seconds: number, body: Uint8Array): string {
  const text = standardWebhooksText(id, seconds);
  return keys.map((key) => `v1,${hmac("base64", key.decoded, text, body)}`).join(" ");
}

/** `x-gigadrive-queue-signature`: `t` in milliseconds and exactly one `v1`. */
export function gigadriveSignature(
  hmac: Hmac,
  key: SigningKey,
  ms: number,
  of: { queue: string; messageId: string; attempt: number; bodyHash: string },
): string {
  return `t=${ms},v1=${hmac("hex", key.literal, gigadriveText(ms, of.queue, of.messageId, of.attempt, of.bodyHash))}`;
}

/** `X-Basaltic-Signature`, to go with `X-Basaltic-Timestamp` of the same seconds. */
export function basalticSignature(hmac: Hmac, key: SigningKey, seconds: number, body: Uint8Array): string {
  return `v1=${hmac("hex", key.literal, basalticText(seconds), body)}`;
}
