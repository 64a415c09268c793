/**
 * A queue between its stored form and the Gigadrive door's: seconds outside, milliseconds inside; `deadLetter` is a yes or no, and a
 * retry backoff is shown as it is in force.
 */
import type { Answer, Operations } from "@millrace/contract";
import type { QueueStats } from "../store/message.ts";
import type { QueueRow, QueueSettings } from "../store/types.ts";
import { wireStats } from "./peek.ts";
import { ezghDefaults, isoTime } from "./settings.ts";

/** A queue as the Gigadrive door shows it. */
export type GigadriveQueue = Answer<Operations["GigadriveGetQueue"]>;

/** What a queue made through the Gigadrive door has unless it says otherwise (Q2). */
export const gigadriveDefaults: QueueSettings = { ...ezghDefaults, maxAttempts: 10, deadLetter: "list", deduplicationWindowMs: 86_400_000 };

/** The format's backoff where the queue sets none (C4), in seconds. */
const BACKOFF_SECONDS = { min: 5, max: 900 };

const inMs = (seconds: number): number => seconds * 1000;
const inSeconds = (ms: number): number => ms / 1000;

/** The given settings as a change of the stored ones. `keptIn` is where the queue's dead letters go now: a yes keeps a dead-letter queue. */
export function gigadriveChange(
  given: {
    consumerPath?: string | null | undefined;
    visibilityTimeoutSeconds?: number | undefined;
    retentionSeconds?: number | undefined;
    delaySeconds?: number | undefined;
    maxAttempts?: number | undefined;
    deadLetter?: boolean | undefined;
    retryBackoffMinSeconds?: number | null | undefined;
    retryBackoffMaxSeconds?: number | null | undefined;
    deduplicationWindowSeconds?: number | undefined;
    contentBasedDeduplication?: boolean | undefined;
    concurrency?: number | undefined;
    rateLimit?: { count: number; periodSeconds: number } | null | undefined;
    maxBytes?: number | null | undefined;
    paused?: boolean | undefined;
  },
  keptIn: QueueSettings["deadLetter"],
): Partial<QueueSettings> {
  const change: Partial<QueueSettings> = {};
  const { rateLimit, retryBackoffMinSeconds: min, retryBackoffMaxSeconds: max } = given;
  if (given.consumerPath !== undefined) change.consumerPath = given.consumerPath;
  if (given.visibilityTimeoutSeconds !== undefined) change.visibilityTimeoutMs = inMs(given.visibilityTimeoutSeconds);
  if (given.retentionSeconds !== undefined) change.retentionMs = inMs(given.retentionSeconds);
  if (given.delaySeconds !== undefined) change.delayMs = inMs(given.delaySeconds);
  if (given.maxAttempts !== undefined) change.maxAttempts = given.maxAttempts;
  if (given.deadLetter === false) Object.assign(change, { deadLetter: "drop", deadLetterNo: null });
  else if (given.deadLetter === true && keptIn !== "queue") change.deadLetter = "list";
  if (min !== undefined) change.retryBackoffMinMs = min === null ? null : inMs(min);
  if (max !== undefined) change.retryBackoffMaxMs = max === null ? null : inMs(max);
  if (given.deduplicationWindowSeconds !== undefined) change.deduplicationWindowMs = inMs(given.deduplicationWindowSeconds);
  if (given.contentBasedDeduplication !== undefined) change.contentBasedDeduplication = given.contentBasedDeduplication;
  if (given.concurrency !== undefined) change.concurrency = given.concurrency;
  if (rateLimit !== undefined)
    change.rateLimit = rateLimit === null ? null : { count: rateLimit.count, periodMs: inMs(rateLimit.periodSeconds) };
  if (given.maxBytes !== undefined) change.maxBytes = given.maxBytes;
  if (given.paused !== undefined) change.paused = given.paused;
  return change;
}

/** A queue as the Gigadrive door shows it. */
export function gigadriveQueue(queue: QueueRow, stats: QueueStats): GigadriveQueue {
  const { settings } = queue;
  const min = settings.retryBackoffMinMs === null ? BACKOFF_SECONDS.min : inSeconds(settings.retryBackoffMinMs);
  const { expired: _, ...shown } = wireStats(stats);
  return {
    id: queue.id,
    resourceName: queue.resourceName,
    name: queue.name,
    environment: queue.environment,
    type: queue.type,
    mode: settings.consumerPath === null ? "pull" : "push",
    consumerPath: settings.consumerPath,
    visibilityTimeoutSeconds: inSeconds(settings.visibilityTimeoutMs),
    retentionSeconds: inSeconds(settings.retentionMs),
    delaySeconds: inSeconds(settings.delayMs),
    maxAttempts: settings.maxAttempts,
    deadLetter: settings.deadLetter !== "drop",
    retryBackoffMinSeconds: min,
    retryBackoffMaxSeconds:
      settings.retryBackoffMaxMs === null ? Math.max(BACKOFF_SECONDS.max, min) : inSeconds(settings.retryBackoffMaxMs),
    deduplicationWindowSeconds: inSeconds(settings.deduplicationWindowMs),
    contentBasedDeduplication: settings.contentBasedDeduplication,
    concurrency: settings.concurrency,
    rateLimit:
      settings.rateLimit === null ? null : { count: settings.rateLimit.count, periodSeconds: inSeconds(settings.rateLimit.periodMs) },
    maxBytes: settings.maxBytes,
    paused: settings.paused,
    source: queue.source,
    database: queue.database,
    createdAt: isoTime(queue.createdAt),
    updatedAt: isoTime(queue.updatedAt),
    stats: shown,
  };
}
