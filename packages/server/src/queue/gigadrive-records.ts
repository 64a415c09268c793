/** Messages as the Gigadrive door shows them: whole, or with their bodies cut to a preview. */
import type { Answer, Operations } from "@millrace/contract";
import type { PeekedMessage } from "../store/message.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { LAST_DATE_MS, sizeOf } from "./peek.ts";
import { writeReceipt } from "./receipt.ts";
import { isoTime } from "./settings.ts";
import { wireBody } from "./wire.ts";

/** A message as the Gigadrive door shows it. */
export type GigadriveRecord = Answer<Operations["GigadriveGetMessage"]>;

/** How many bytes of a body a list shows. */
export const PREVIEW_BYTES = 1_024;

const orNull = (at: number | null): string | null => (at === null ? null : isoTime(at));

/** The body in the encoding that can hold it; one that was cut within a character loses what is left of that. */
function bodyOf(body: Uint8Array, cut: boolean): { body: string; encoding: "utf8" | "base64" } {
  for (let short = 0; short <= (cut ? 3 : 0); short++) {
    const written = wireBody(body.subarray(0, Math.max(0, body.length - short)));
    if ("body" in written) return { body: written.body, encoding: "utf8" };
  }
  return { body: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64"), encoding: "base64" };
}

/** A message as it stands. */
export function peekedRecord(message: PeekedMessage): GigadriveRecord {
  const cut = message.body.length < message.bodyBytes;
  return {
    id: message.messageId,
    state: message.state,
    ...bodyOf(message.body, cut),
    bodyTruncated: cut,
    contentType: message.meta?.contentType ?? null,
    headers: message.attributes ?? {},
    attempts: message.attempts,
    sizeBytes: sizeOf(message),
    groupKey: message.groupKey,
    deduplicationKey: message.meta?.dedupId ?? null,
    deploymentId: message.meta?.deploymentId ?? null,
    source: message.meta?.source ?? "api",
    lastError: message.lastError,
    createdAt: isoTime(message.sentAt),
    deliverAt: isoTime(message.deliverAt),
    expiresAt: message.expiresAt >= LAST_DATE_MS ? null : isoTime(message.expiresAt),
    leaseExpiresAt: orNull(message.leaseUntil),
    lastDeliveredAt: orNull(message.deliveredAt),
    deadAt: orNull(message.deadAt),
    receipt: null,
  };
}

/** A message that was just leased for `leaseMs`, with its receipt. What its last delivery failed with is not read for it. */
export function leasedRecord(message: ClaimedMessage, leaseMs: number): GigadriveRecord {
  const record = peekedRecord({
    ...message,
    state: "inflight",
    bodyBytes: message.body.length,
    deliverAt: message.leaseUntil,
    deliveredAt: message.leaseUntil - leaseMs,
    deadAt: null,
    lastError: null,
    sourceNo: null,
  });
  return { ...record, receipt: writeReceipt(message) };
}
