/** What a server answers, as this package hands it on: the wire's own fields, with instants as `Date`. */
import { asDate } from "./meta.ts";

/** A queue's depth and counters. */
export interface QueueStats {
  ready: number;
  scheduled: number;
  waiting: number;
  inflight: number;
  dead: number;
  bytes: number;
  sent: number;
  acknowledged: number;
  failed: number;
  deadLettered: number;
  oldestReadyAt: Date | null;
  nextScheduledAt: Date | null;
}

/** A queue with its settings. Durations are whole seconds, sizes bytes. */
export interface QueueInfo {
  id: string;
  name: string;
  type: "standard" | "fifo";
  mode: "push" | "pull";
  consumerPath: string | null;
  visibilityTimeoutSeconds: number;
  retentionSeconds: number;
  delaySeconds: number;
  maxAttempts: number | null;
  deadLetter: boolean;
  retryBackoffMinSeconds: number | null;
  retryBackoffMaxSeconds: number | null;
  deduplicationWindowSeconds: number;
  concurrency: number;
  rateLimit: { count: number; periodSeconds: number } | null;
  paused: boolean;
  source: "api" | "config" | "auto";
  /** The name of the database that it lives on. */
  database: string;
  createdAt: Date;
  updatedAt: Date;
  stats: QueueStats;
}

/** A schedule of a queue. */
export interface ScheduleInfo {
  id: string;
  name: string;
  /** Five fields, or a macro such as `@hourly`. */
  cron: string;
  /** An IANA name. */
  timezone: string;
  enabled: boolean;
  nextRunAt: Date | null;
  lastRunAt: Date | null;
  lastMessageId: string | null;
  lastError: string | null;
}

/** What became of a send. */
export interface SentMessage {
  messageId: string;
  /** An earlier message with the same deduplication key stands for this one; nothing was stored. */
  deduplicated: boolean;
  deliverAt: Date | undefined;
}

/** One message of a batch that was not taken. The others are not affected. */
export interface RefusedMessage {
  messageId: null;
  error: string;
  /** A code of the server's closed list. */
  code: string;
  /** Whether the same message may be taken later. It was tried again already. */
  retryable: boolean;
}

/** A message record on the wire. */
export interface WireMessage {
  id: string;
  body: string;
  encoding?: string;
  contentType: string | null;
  headers: Record<string, string> | null;
  attempts: number;
  groupKey: string | null;
  deduplicationKey: string | null;
  deploymentId: string | null;
  createdAt: unknown;
  expiresAt: unknown;
  leaseExpiresAt: unknown;
  lastDeliveredAt: unknown;
  receipt: string;
}

/** The same record with every field whose name ends in `At` as a `Date` (`null` stays `null`), one level deep, `stats` included. */
export function withDates<T>(record: unknown): T {
  const dated = (given: object): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(given).map(([name, value]) => {
        if (name === "stats" && typeof value === "object" && value !== null) return [name, dated(value)];
        return [name, /At$/.test(name) && value !== null ? asDate(value) : value];
      }),
    );
  return dated((record ?? {}) as object) as T;
}
