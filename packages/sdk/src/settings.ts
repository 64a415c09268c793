/** A queue's settings as a program writes them, and as the wire carries them. What is not given is not sent, and stays as it is. */
import { type Duration, optionalSeconds, toSeconds } from "./duration.ts";

/** Settings of a queue. All are optional; bounds are the server's and its refusal names them. */
export interface QueueSettings {
  /** Where messages are pushed to, from the slash behind the deployment's address; `null` makes a pull queue. */
  consumerPath?: string | null;
  type?: "standard" | "fifo";
  /** The database it is to live on, by its name in the server's configuration; counts when the queue is made. */
  database?: string;
  /** How long a received message is hidden; a push delivery must answer a second earlier. */
  visibilityTimeout?: Duration;
  retention?: Duration;
  /** The delay of sends that give none. */
  delay?: Duration;
  /** Deliveries before a message is a dead letter, 1 to 100. */
  maxAttempts?: number;
  /** Whether dead letters are kept. */
  deadLetter?: boolean;
  retryBackoff?: { min?: Duration; max?: Duration };
  /** 0 turns deduplication off. */
  deduplicationWindow?: Duration;
  contentBasedDeduplication?: boolean;
  /** Push deliveries at the same time. */
  concurrency?: number;
  /** At most `count` push deliveries start in each `period`; `null` lifts the limit. */
  rateLimit?: { count: number; period: Duration } | null;
  paused?: boolean;
}

/** The settings in the wire's fields. Throws a `RangeError` for what is no duration. */
export function wireSettings(given: QueueSettings): Record<string, unknown> {
  const { visibilityTimeout, retention, delay, retryBackoff, deduplicationWindow, rateLimit, ...same } = given;
  return {
    ...same,
    visibilityTimeoutSeconds: optionalSeconds("visibilityTimeout", visibilityTimeout),
    retentionSeconds: optionalSeconds("retention", retention),
    delaySeconds: optionalSeconds("delay", delay),
    retryBackoffMinSeconds: optionalSeconds("retryBackoff.min", retryBackoff?.min),
    retryBackoffMaxSeconds: optionalSeconds("retryBackoff.max", retryBackoff?.max),
    deduplicationWindowSeconds: optionalSeconds("deduplicationWindow", deduplicationWindow),
    rateLimit: rateLimit ? { count: rateLimit.count, periodSeconds: toSeconds("rateLimit.period", rateLimit.period) } : rateLimit,
  };
}
