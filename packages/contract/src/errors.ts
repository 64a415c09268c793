/**
 * The closed list of errors. Every refusal of the product is one of these codes; the HTTP status belongs to the code,
 * never to the place that raises it. `Fault` is the only error class that may reach a caller.
 */
export const errorStatus = {
  invalid_request: 400,
  invalid_json: 400,
  invalid_target: 400,
  invalid_token: 400,
  unauthorized: 401,
  permission_denied: 403,
  not_found: 404,
  organization_not_found: 404,
  project_not_found: 404,
  environment_not_found: 404,
  deployment_not_found: 404,
  queue_not_found: 404,
  subscription_not_found: 404,
  message_not_found: 404,
  redrive_not_found: 404,
  key_not_found: 404,
  schedule_not_found: 404,
  app_not_found: 404,
  workflow_not_found: 404,
  run_not_found: 404,
  topic_not_found: 404,
  notification_not_found: 404,
  delivery_not_found: 404,
  method_not_allowed: 405,
  name_taken: 409,
  not_empty: 409,
  queue_exists: 409,
  queue_in_use: 409,
  subscription_exists: 409,
  schedule_exists: 409,
  run_exists: 409,
  run_ended: 409,
  stale_execution: 409,
  protocol_unsupported: 409,
  run_not_ended: 409,
  not_signed: 409,
  topic_exists: 409,
  limit_reached: 409,
  receipt_mismatch: 409,
  delivery_pending: 409,
  idempotency_conflict: 409,
  idempotency_in_progress: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  backlog_full: 429,
  quota_exceeded: 429,
  overloaded: 503,
  unavailable: 503,
  internal: 500,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/** What went wrong with which field: `path` is dotted (`messages.3.body`), `bound` is the rule in words, `got` the value, cut to 100 characters. */
export interface FaultDetails {
  path?: string;
  bound?: string;
  got?: string;
  index?: number;
  permission?: string;
  retryAfterSeconds?: number;
}

/** The body of every error answer. */
export interface Problem {
  error: { code: ErrorCode; message: string; requestId: string; details?: FaultDetails };
}

/** An error that may be shown to a caller. Anything else becomes `internal` and is only logged. */
export class Fault extends Error {
  readonly code: ErrorCode;
  readonly details: FaultDetails | undefined;
  constructor(code: ErrorCode, message: string, details?: FaultDetails) {
    super(message);
    this.name = "Fault";
    this.code = code;
    this.details = details;
  }
  get status(): number {
    return errorStatus[this.code];
  }
}

/** A value as an error may show it: one line, at most 100 characters, objects and arrays by kind only (they may be huge or deep). */
function shown(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  const text = String(value);
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`;
}

/** A 400 that names the field, the bound and what came instead. */
export function invalid(path: string, bound: string, got?: unknown): Fault {
  const seen = got === undefined ? undefined : shown(got);
  return new Fault("invalid_request", `${path}: ${bound}${seen === undefined ? "" : `, got ${seen}`}`, { path, bound, got: seen });
}
