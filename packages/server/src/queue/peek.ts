/** Messages and depths as they stand, for those who look without taking (Q4). */
import type { Answer, Operations, shapes } from "@millrace/contract";
import type { z } from "zod";
import type { MessageState, PeekedMessage, QueueStats } from "../store/message.ts";
import type { Store } from "../store/store.ts";
import type { QueueRow } from "../store/types.ts";
import type { Directory } from "./directory.ts";
import { isoTime } from "./settings.ts";
import { wireBody } from "./wire.ts";

type WirePeeked = z.input<typeof shapes.peekedMessage>;

/** A page of messages and the number to go on after; only `next: null` ends the list. */
export interface PeekPage {
  messages: WirePeeked[];
  next: number | null;
}

/** Beyond this no date is written: internal messages never expire. */
export const LAST_DATE_MS = 8_640_000_000_000_000;
/** A page is read in parts of so many messages, and ends early when their bodies are this large together. */
const STRIDE = 20;
const PAGE_BYTES = 4 * 1024 * 1024;
const orNull = (at: number | null): string | null => (at === null ? null : isoTime(at));

/** A message's size in bytes (Q5). */
export function sizeOf(message: PeekedMessage): number {
  let bytes = message.bodyBytes;
  for (const [name, value] of Object.entries(message.attributes ?? {})) bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  return bytes;
}

function wirePeeked(queue: QueueRow, message: PeekedMessage, sourceId: string | null): WirePeeked {
  return {
    messageId: message.messageId,
    ...wireBody(message.body),
    attributes: message.attributes ?? {},
    sentAt: isoTime(message.sentAt),
    receiveCount: message.receives,
    groupId: message.groupKey ?? undefined,
    seq: queue.type === "fifo" ? String(message.seq) : undefined,
    state: message.state,
    contentType: message.meta?.contentType ?? null,
    dedupId: message.meta?.dedupId ?? null,
    attempts: message.attempts,
    sizeBytes: sizeOf(message),
    deliverAt: isoTime(message.deliverAt),
    expiresAt: message.expiresAt >= LAST_DATE_MS ? null : isoTime(message.expiresAt),
    leaseExpiresAt: orNull(message.leaseUntil),
    lastDeliveredAt: orNull(message.deliveredAt),
    lastError: message.lastError,
    deadAt: orNull(message.deadAt),
    deadLetterSourceQueueId: sourceId,
  };
}

/** One page by number, after `after`, of one state or of all. */
export async function peekPage(
  store: Store,
  directory: Directory,
  queue: QueueRow,
  page: { state: MessageState | null; after: number | null; limit: number },
): Promise<PeekPage> {
  const messages: PeekedMessage[] = [];
  let next = page.after;
  let bytes = 0;
  do {
    const limit = Math.min(page.limit - messages.length, STRIDE);
    const part = await store.run("peekMessages", queue.no, { state: page.state, after: next, limit, bodyBytes: null });
    messages.push(...part.messages);
    for (const message of part.messages) bytes += message.bodyBytes;
    next = part.next;
    // A page that a state has thinned out is answered short rather than searched on for.
    if (part.messages.length < limit) break;
  } while (next !== null && messages.length < page.limit && bytes < PAGE_BYTES);
  const sources = new Map<number, string | null>();
  for (const { sourceNo } of messages) {
    if (sourceNo === null || sourceNo === queue.no || sources.has(sourceNo)) continue;
    sources.set(sourceNo, (await directory.byNo(sourceNo))?.id ?? null);
  }
  const sourceOf = (message: PeekedMessage): string | null => (message.sourceNo === null ? null : (sources.get(message.sourceNo) ?? null));
  return { messages: messages.map((message) => wirePeeked(queue, message, sourceOf(message))), next };
}

/** A queue's depths and counters in the shape of the answer. */
export function wireStats(stats: QueueStats): Answer<Operations["GetQueueStats"]> {
  const { oldestReadyAt, nextScheduledAt, approximate, ...counts } = stats;
  return {
    ...counts,
    oldestReadyAt: orNull(oldestReadyAt),
    nextScheduledAt: orNull(nextScheduledAt),
    ...(approximate ? { approximate } : {}),
  };
}
