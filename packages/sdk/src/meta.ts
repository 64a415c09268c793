/** What a handler learns about its message besides the payload. The same shape for push and for pull. */

/** A message's own facts. */
export interface MessageMeta {
  queue: string;
  /** The same at every delivery of this message: use it as the idempotency key of what you do. */
  messageId: string;
  /** 1 on the first delivery; deferrals do not count. */
  attempt: number;
  /** When the message was sent. */
  createdAt: Date | undefined;
  /** When the message is given up. */
  expiresAt: Date | undefined;
  /** When the answer must be in (push), or the lease ends unless it is extended (pull). */
  deadline: Date | undefined;
  groupKey: string | undefined;
  deduplicationKey: string | undefined;
  /** The deployment that was called (push), or that the message is pinned to (pull). */
  deploymentId: string | undefined;
  /** The deployment that the message was pinned to, when it no longer serves. */
  deploymentFallback: string | undefined;
  contentType: string | undefined;
  /** The message's own headers; with push, all headers of the request. */
  headers: Headers;
  /** Aborted when working on has no use: the caller has hung up, or the lease is lost. */
  signal: AbortSignal;
}

/** Unix milliseconds or an ISO text as a date; `undefined` for anything else. */
export function asDate(value: unknown): Date | undefined {
  if (value === null || value === undefined || value === "") return undefined;
  const date = new Date(typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : (value as string | number));
  return Number.isNaN(date.getTime()) ? undefined : date;
}
