/**
 * The store's vocabulary: rows that verbs take and answer. Times are milliseconds since 1970, durations milliseconds, unless a
 * name says otherwise. A message is known by its number (`seq`), a queue by its short number (`no`), never by a UUID, on hot paths.
 */

/** Q2. `null` where a setting may be unset. */
export interface QueueSettings {
  visibilityTimeoutMs: number;
  retentionMs: number;
  delayMs: number;
  /** `null`: retried until retention ends. */
  maxAttempts: number | null;
  /** Where a message goes that ran out of attempts or was refused; `null`: no policy, and a refusal goes to the list. */
  deadLetter: "queue" | "list" | "drop" | null;
  deadLetterNo: number | null;
  retryBackoffMinMs: number | null;
  retryBackoffMaxMs: number | null;
  deduplicationWindowMs: number;
  contentBasedDeduplication: boolean;
  /** Where a deployment takes the queue's messages, one a request (C1); `null`: a pull queue. */
  consumerPath: string | null;
  /** Gigadrive's push concurrency. */
  concurrency: number;
  rateLimit: { count: number; periodMs: number } | null;
  /** Q19: 1 is order, 2 to 1,000 a limit, `null` fairness only. */
  groupConcurrency: number | null;
  maxBytes: number | null;
  paused: boolean;
  /** Internal queues (a run's wake-ups) never expire. */
  internal: boolean;
}

export interface QueueRow {
  no: number;
  id: string;
  resourceName: string;
  projectNo: number;
  environment: string;
  name: string;
  /** The name of the database that it lives on. */
  database: string;
  type: "standard" | "fifo";
  settings: QueueSettings;
  source: "api" | "config" | "auto";
  createdAt: number;
  updatedAt: number;
}

/** What travels with a message besides its body; stored as one JSON text, `null` when empty. */
export interface MessageMeta {
  contentType?: string;
  dedupId?: string;
  source?: string;
  deploymentId?: string;
  traceparent?: string;
}

export interface SendRow {
  queueNo: number;
  body: Uint8Array;
  attributes: Record<string, string> | null;
  meta: MessageMeta | null;
  groupKey: string | null;
  dedupId: string | null;
  /** The message's own delay; `null` takes the queue's. */
  delayMs: number | null;
  /** So many rows after this one are refused with it where the project's quota has no room for all of them. */
  together?: number;
}

/** Why a row was not stored: the queue is gone or full, or the project's quota of the day is used up. */
export type SendRefusal = "queue_not_found" | "backlog_full" | "quota_exceeded";

/** `refused` rows were not stored. A transaction stores all other rows. */
export type SendResult = { seq: number; messageId: string; deduplicated: boolean; deliverAt: number } | { refused: SendRefusal };

/**
 * Asks for up to `batches` batches of up to `batchSize` messages of one queue. A group's messages are never split over two batches.
 * A group whose head has been attempted before comes alone (P10).
 */
export interface ClaimAsk {
  queueNo: number;
  batchSize: number;
  batches: number;
  /** `null` takes the queue's visibility timeout. */
  leaseMs: number | null;
  /** Under which the claimer owns this work, where several nodes share the database: a former owner's claim rejects with `StaleFence`. */
  fence?: Fence;
}

/** One term of a node's ownership of a slot of work. A negative slot is checked by nobody. */
export interface Fence {
  readonly slot: number;
  readonly token: number;
}

export interface ClaimedMessage {
  seq: number;
  receipt: number;
  messageId: string;
  body: Uint8Array;
  attributes: Record<string, string> | null;
  meta: MessageMeta | null;
  groupKey: string | null;
  sentAt: number;
  expiresAt: number;
  leaseUntil: number;
  /** With this one. */
  receives: number;
  /** With this one; what is compared with the limit. */
  attempts: number;
}

export interface Claim {
  batches: ClaimedMessage[][];
  /** When the ask was not filled: milliseconds until this queue has something to claim, as far as it is known now; else `null`. */
  nextInMs: number | null;
}

/**
 * What happens to a leased message. `retry` spends the attempt (the last one dead-letters), `release` refunds it, `dead` dead-letters,
 * `extend` moves the end of the lease; `delayMs` counts from the transaction's instant.
 */
export interface SettleRow {
  queueNo: number;
  seq: number;
  receipt: number;
  outcome: "ack" | "retry" | "release" | "dead" | "extend";
  delayMs?: number;
  error?: string;
}

/** `stale`: the receipt is not the current one (Q8); `gone`: there is no such message in this queue. */
export interface SettleResult {
  result: "acked" | "retrying" | "released" | "extended" | "dead" | "dropped" | "expired" | "stale" | "gone";
  /** For `retrying`, `released` and `extended`: when it is ready again. */
  at?: number;
}

/** Q12. `hash` is of the canonical request; the answer is kept for 48 hours. */
export interface IdempotencyKey {
  scope: string;
  key: string;
  hash: string;
}

/** A node as it is stored; instants by the database's clock. */
export interface NodeRow {
  id: string;
  name: string;
  version: string;
  /** How far its clock was ahead of the database's at its last beat. */
  skewMs: number;
  startedAt: number;
  seenAgoMs: number;
  slots: number;
}
