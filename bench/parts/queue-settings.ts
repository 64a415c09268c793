/** The settings of a queue that benches of the store alone put into a database themselves. */
import type { QueueSettings } from "../../packages/server/src/store/types.ts";

export const queueSettings: QueueSettings = {
  visibilityTimeoutMs: 30_000,
  retentionMs: 345_600_000,
  delayMs: 0,
  maxAttempts: 5,
  deadLetter: "list",
  deadLetterNo: null,
  retryBackoffMinMs: null,
  retryBackoffMaxMs: null,
  deduplicationWindowMs: 300_000,
  contentBasedDeduplication: false,
  concurrency: 100,
  rateLimit: null,
  groupConcurrency: 1,
  maxBytes: null,
  paused: false,
  internal: false,
};
