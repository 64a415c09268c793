/**
 * The receiving side of the signatures: does this header sign this body with one of these keys, within five minutes either way?
 * Whatever the header holds, the answer is `true` or `false`, never an error, and digests are compared in constant time.
 */
import type { Hmac, SigningKey } from "./format.ts";
import { basalticText, ezghText, gigadriveText } from "./signing.ts";

/** How far from now a signature may have been made, in milliseconds; the bound itself is accepted. */
export const toleranceMs = 300_000;

/** Longer headers are not looked at; a genuine one has one or two signatures of 68 characters. */
const maxHeaderLength = 16_384;

/** Splits `t=…,v1=…,v1=…`. `undefined` unless there is exactly one `t` of digits and at least one `v1` of 64 lower-case hex digits. */
function parse(header: string | undefined): { t: string; signatures: string[] } | undefined {
  if (header === undefined || header.length > maxHeaderLength) return undefined;
  let t: string | undefined;
  const signatures: string[] = [];
  for (const part of header.split(",")) {
    const [, name, value] = /^\s*([a-z0-9]+)=([^\s]*)\s*$/.exec(part) ?? [];
    if (name === "t") {
      if (t !== undefined || value === undefined || !/^\d{1,15}$/.test(value)) return undefined;
      t = value;
    } else if (name === "v1" && value !== undefined && /^[0-9a-f]{64}$/.test(value)) signatures.push(value);
  }
  if (t === undefined || signatures.length === 0) return undefined;
  return { t, signatures };
}

/** Equal texts of equal length, in time that depends on the length alone. */
function same(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let at = 0; at < a.length; at++) difference |= a.charCodeAt(at) ^ b.charCodeAt(at);
  return difference === 0;
}

const fresh = (signedMs: number, nowMs: number): boolean => Math.abs(nowMs - signedMs) <= toleranceMs;

/** Every digest is compared with every signature, so that the time does not tell which one fits. */
function anySame(expected: readonly string[], signatures: readonly string[]): boolean {
  let found = false;
  for (const one of expected) for (const other of signatures) if (same(one, other)) found = true;
  return found;
}

/** Checks `EZGH-Signature`. `nowMs` is compared at whole seconds, as the header carries them. */
export function verifyEzgh(hmac: Hmac, header: string | undefined, body: Uint8Array, keys: readonly SigningKey[], nowMs: number): boolean {
  const parsed = parse(header);
  if (parsed === undefined || !fresh(Number(parsed.t) * 1000, Math.floor(nowMs / 1000) * 1000)) return false;
  const text = ezghText(Number(parsed.t));
  return anySame(
    keys.map((key) => hmac("hex", key.decoded, text, body)),
    parsed.signatures,
  );
}

/** Checks `x-gigadrive-queue-signature`; the other values are those of the request's `x-gigadrive-queue-*` headers. */
export function verifyGigadrive(
  hmac: Hmac,
  header: string | undefined,
  of: { queue: string; messageId: string; attempt: number; bodyHash: string },
  keys: readonly SigningKey[],
  nowMs: number,
): boolean {
  const parsed = parse(header);
  if (parsed === undefined || !fresh(Number(parsed.t), nowMs)) return false;
  const text = gigadriveText(Number(parsed.t), of.queue, of.messageId, of.attempt, of.bodyHash);
  return anySame(
    keys.map((key) => hmac("hex", key.literal, text)),
    parsed.signatures,
  );
}

/** Checks `X-Basaltic-Signature` with `X-Basaltic-Timestamp`. */
export function verifyBasaltic(
  hmac: Hmac,
  timestamp: string | undefined,
  header: string | undefined,
  body: Uint8Array,
  keys: readonly SigningKey[],
  nowMs: number,
): boolean {
  if (timestamp === undefined || header === undefined || !/^\d{1,15}$/.test(timestamp)) return false;
  const parsed = parse(`t=${timestamp},${header}`);
  if (parsed === undefined || !fresh(Number(timestamp) * 1000, Math.floor(nowMs / 1000) * 1000)) return false;
  const text = basalticText(Number(timestamp));
  return anySame(
    keys.map((key) => hmac("hex", key.literal, text, body)),
    parsed.signatures,
  );
}
