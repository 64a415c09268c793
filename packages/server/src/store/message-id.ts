/**
 * Message ids: a UUIDv7 made from when a message was sent and the number it was stored under first. Nothing is stored for them, and
 * an id leads back to that number. The 74 bits beside the time hold the number, mixed with the time so that ids don't look alike.
 */

const UUID = /^([0-9a-f]{8})-([0-9a-f]{4})-7([0-9a-f]{3})-([89ab][0-9a-f]{3})-([0-9a-f]{12})$/;
const HIGH = 2 ** 32;

/** 32 well-mixed bits of a time and a lane (the finisher of MurmurHash3). */
function mix(sentAt: number, lane: number): number {
  let h = (Math.imul(sentAt >>> 0, 0x9e3779b1) ^ Math.imul(Math.floor(sentAt / HIGH) + lane + 1, 0x85ebca6b)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

/** The id of the message sent at `sentAt` (milliseconds since 1970) and stored under `origin` first. */
export function messageId(sentAt: number, origin: number): string {
  const time = hex(sentAt, 12);
  const low = ((origin % HIGH) ^ mix(sentAt, 0)) >>> 0;
  const high = ((Math.floor(origin / HIGH) ^ mix(sentAt, 1)) & 0x3fffffff) >>> 0;
  const check = mix(sentAt, 2) & 0xfff;
  const tail = hex(high & 0xffff, 4) + hex(low, 8);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(check, 3)}-${hex(0x8000 | (high >>> 16), 4)}-${tail}`;
}

/** What `messageId` was made of; `null` for every text that it never answers. */
export function readMessageId(id: string): { sentAt: number; origin: number } | null {
  const parts = UUID.exec(id.toLowerCase());
  if (parts === null) return null;
  const [, a, b, check, c, d] = parts as unknown as [string, string, string, string, string, string];
  const sentAt = Number.parseInt(a + b, 16);
  if ((mix(sentAt, 2) & 0xfff) !== Number.parseInt(check, 16)) return null;
  const high = (((Number.parseInt(c, 16) & 0x3fff) << 16) | Number.parseInt(d.slice(0, 4), 16)) >>> 0;
  const top = ((high ^ mix(sentAt, 1)) & 0x3fffffff) >>> 0;
  const origin = top * HIGH + ((Number.parseInt(d.slice(4), 16) ^ mix(sentAt, 0)) >>> 0);
  return Number.isSafeInteger(origin) ? { sentAt, origin } : null;
}
