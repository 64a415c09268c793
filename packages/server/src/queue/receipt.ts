/**
 * The text of a receipt on the wire: which lease of which message, opaque to everybody else. Exactly one text stands for a lease, and
 * every other text reads as `null`, so that a made-up receipt never reaches the store (LEASE-03).
 */

/** A lease as the store knows it: the message's number and the number of the hand-out. */
export interface Lease {
  seq: number;
  receipt: number;
}

const HIGH = 2 ** 32;
const FORM = /^[A-Za-z0-9_-]{22}$/;
/** One buffer for all: both functions are synchronous. */
const scratch = Buffer.alloc(16);

/** Writes a lease as 22 characters of base64url: two whole numbers below 2^53. */
export function writeReceipt(lease: Lease): string {
  scratch.writeUInt32BE(Math.floor(lease.seq / HIGH), 0);
  scratch.writeUInt32BE(lease.seq % HIGH, 4);
  scratch.writeUInt32BE(Math.floor(lease.receipt / HIGH), 8);
  scratch.writeUInt32BE(lease.receipt % HIGH, 12);
  return scratch.toString("base64url");
}

/** Reads what `writeReceipt` wrote; `null` for every other text. */
export function readReceipt(text: string): Lease | null {
  if (!FORM.test(text)) return null;
  scratch.write(text, "base64url");
  const lease = {
    seq: scratch.readUInt32BE(0) * HIGH + scratch.readUInt32BE(4),
    receipt: scratch.readUInt32BE(8) * HIGH + scratch.readUInt32BE(12),
  };
  if (!Number.isSafeInteger(lease.seq) || !Number.isSafeInteger(lease.receipt)) return null;
  return writeReceipt(lease) === text ? lease : null;
}
