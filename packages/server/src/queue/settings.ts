/**
 * A queue between its stored and its wire form: seconds outside, milliseconds inside. `redrivePolicy` and `maxAttempts` are one field
 * in two views (Q2): a policy names a dead-letter queue and the limit, without one EZGH sets no limit.
 */
import type { Answer, Operations } from "@millrace/contract";
import type { QueueRow, QueueSettings } from "../store/types.ts";

/** A queue as the EZGH door shows it. */
export type WireQueue = Answer<Operations["GetQueue"]>;
/** Settings as the EZGH door takes them. */
export type GivenSettings = NonNullable<Parameters<typeof changeOf>[0]>;

const inMs = (seconds: number): number => seconds * 1000;
const orNull = <T, R>(value: T | null, read: (value: T) => R): R | null => (value === null ? null : read(value));

/** What a queue made through the EZGH door has unless it says otherwise (Q2). */
export const ezghDefaults: QueueSettings = {
  visibilityTimeoutMs: 60_000,
  retentionMs: 345_600_000,
  delayMs: 0,
  maxAttempts: null,
  deadLetter: null,
  deadLetterNo: null,
  retryBackoffMinMs: null,
  retryBackoffMaxMs: null,
  deduplicationWindowMs: 300_000,
  contentBasedDeduplication: false,
  consumerPath: null,
  concurrency: 100,
  rateLimit: null,
  groupConcurrency: 1,
  maxBytes: null,
  paused: false,
  internal: false,
};

/** The given settings as a change of the stored ones; `deadLetterNo` is that of the queue which `redrivePolicy` names. */
export function changeOf(
  given: {
    visibilityTimeoutSeconds?: number | undefined;
    retentionSeconds?: number | undefined;
    delaySeconds?: number | undefined;
    redrivePolicy?: { maxReceiveCount: number } | null | undefined;
    retryBackoffMinSeconds?: number | null | undefined;
    retryBackoffMaxSeconds?: number | null | undefined;
    deduplicationWindowSeconds?: number | undefined;
    contentBasedDeduplication?: boolean | undefined;
    rateLimit?: { count: number; periodSeconds: number } | null | undefined;
    groups?: { concurrency: number | null } | undefined;
    maxBytes?: number | null | undefined;
    paused?: boolean | undefined;
  },
  deadLetterNo: number | null,
): Partial<QueueSettings> {
  const change: Partial<QueueSettings> = {};
  if (given.visibilityTimeoutSeconds !== undefined) change.visibilityTimeoutMs = inMs(given.visibilityTimeoutSeconds);
  if (given.retentionSeconds !== undefined) change.retentionMs = inMs(given.retentionSeconds);
  if (given.delaySeconds !== undefined) change.delayMs = inMs(given.delaySeconds);
  if (given.redrivePolicy === null) Object.assign(change, { maxAttempts: null, deadLetter: null, deadLetterNo: null });
  else if (given.redrivePolicy !== undefined)
    Object.assign(change, { maxAttempts: given.redrivePolicy.maxReceiveCount, deadLetter: "queue", deadLetterNo });
  if (given.retryBackoffMinSeconds !== undefined) change.retryBackoffMinMs = orNull(given.retryBackoffMinSeconds, inMs);
  if (given.retryBackoffMaxSeconds !== undefined) change.retryBackoffMaxMs = orNull(given.retryBackoffMaxSeconds, inMs);
  if (given.deduplicationWindowSeconds !== undefined) change.deduplicationWindowMs = inMs(given.deduplicationWindowSeconds);
  if (given.contentBasedDeduplication !== undefined) change.contentBasedDeduplication = given.contentBasedDeduplication;
  if (given.rateLimit !== undefined)
    change.rateLimit = orNull(given.rateLimit, ({ count, periodSeconds }) => ({ count, periodMs: inMs(periodSeconds) }));
  if (given.groups !== undefined) change.groupConcurrency = given.groups.concurrency;
  if (given.maxBytes !== undefined) change.maxBytes = given.maxBytes;
  if (given.paused !== undefined) change.paused = given.paused;
  return change;
}

/** Milliseconds since 1970 as the wire has it. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();

/** A queue as the EZGH door shows it; `deadLetterId` is the UUID of its dead-letter queue. */
export function wireQueue(queue: QueueRow, deadLetterId: string | null): WireQueue {
  const { settings } = queue;
  const inSeconds = (ms: number): number => ms / 1000;
  return {
    id: queue.id,
    resourceName: queue.resourceName,
    name: queue.name,
    type: queue.type,
    visibilityTimeoutSeconds: inSeconds(settings.visibilityTimeoutMs),
    retentionSeconds: inSeconds(settings.retentionMs),
    delaySeconds: inSeconds(settings.delayMs),
    redrivePolicy:
      settings.deadLetter === "queue" && deadLetterId !== null && settings.maxAttempts !== null
        ? { deadLetterQueueId: deadLetterId, maxReceiveCount: settings.maxAttempts }
        : null,
    deadLetter: settings.deadLetter,
    maxAttempts: settings.maxAttempts,
    retryBackoffMinSeconds: orNull(settings.retryBackoffMinMs, inSeconds),
    retryBackoffMaxSeconds: orNull(settings.retryBackoffMaxMs, inSeconds),
    deduplicationWindowSeconds: inSeconds(settings.deduplicationWindowMs),
    contentBasedDeduplication: settings.contentBasedDeduplication,
    rateLimit: orNull(settings.rateLimit, ({ count, periodMs }) => ({ count, periodSeconds: inSeconds(periodMs) })),
    groups: { concurrency: settings.groupConcurrency },
    maxBytes: settings.maxBytes,
    paused: settings.paused,
    source: queue.source,
    database: queue.database,
    createdAt: isoTime(queue.createdAt),
    updatedAt: isoTime(queue.updatedAt),
  };
}
