/** What calls to a server fail with. Every error of this package's own is a `MillraceError`; `retryable` says whether trying again can help. */

/** The base of all errors that calls reject with. */
export class MillraceError extends Error {
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  constructor(message: string, retryable: boolean, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "MillraceError";
    this.retryable = retryable;
  }
}

/** Something is not set: the message says what to set. */
export class ConfigurationError extends MillraceError {
  constructor(message: string) {
    super(message, false);
    this.name = "ConfigurationError";
  }
}

/** The server refused: an answer other than 2xx, or a refusal of one message. */
export class ApiError extends MillraceError {
  /** The HTTP status. */
  readonly status: number;
  /** A code of the server's closed list, such as `queue_not_found`; `http_<status>` when the answer was not the server's. */
  readonly code: string;
  /** Names the request in the server's log. */
  readonly requestId: string | undefined;
  /** Which field, and its bound. */
  readonly details: Readonly<Record<string, unknown>> | undefined;
  /** How long the server asked to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(given: {
    status: number;
    code: string;
    message: string;
    requestId?: string;
    details?: Record<string, unknown>;
    retryAfterMs?: number;
    retryable?: boolean;
  }) {
    const busy = (given.status === 429 && given.code !== "quota_exceeded") || given.status === 503;
    super(given.message, given.retryable ?? (busy || given.code === "idempotency_in_progress"));
    this.name = "ApiError";
    this.status = given.status;
    this.code = given.code;
    this.requestId = given.requestId;
    this.details = given.details;
    this.retryAfterMs = given.retryAfterMs;
  }
}

/** The server could not be reached, or the connection broke before the answer was complete. */
export class ConnectionError extends MillraceError {
  constructor(message: string, cause: unknown) {
    super(message, true, { cause });
    this.name = "ConnectionError";
  }
}

/** No complete answer came within the time given. */
export class RequestTimeoutError extends MillraceError {
  /** The time given, in milliseconds. */
  readonly timeoutMs: number;
  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`, true);
    this.name = "RequestTimeoutError";
    this.timeoutMs = timeoutMs;
  }
}

/** A handled message could not be acknowledged: it will be delivered again. Reported to `onError`, never thrown at a handler. */
export class AcknowledgeError extends MillraceError {
  readonly messageId: string;
  /** Why, as the server has it: `receipt_mismatch` when the lease was lost, `message_not_found`; else `unreachable`. */
  readonly code: string;
  constructor(messageId: string, code: string, cause?: unknown) {
    super(`message ${messageId} was handled but not acknowledged (${code}): it may come again`, false, { cause });
    this.name = "AcknowledgeError";
    this.messageId = messageId;
    this.code = code;
  }
}

/** A message's lease ended while its handler ran: another worker may have it now. Reported to `onError`. */
export class LeaseLostError extends MillraceError {
  readonly messageId: string;
  constructor(messageId: string, cause?: unknown) {
    super(`the lease of message ${messageId} ended while it was being handled: it may be handled twice`, false, { cause });
    this.name = "LeaseLostError";
    this.messageId = messageId;
  }
}
