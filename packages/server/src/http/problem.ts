/**
 * Every way to fail becomes one body (A2): code, message, request id, details. Only a `Fault` may speak for itself; whatever else is
 * thrown is `internal`, logged under the request id, and none of it leaves.
 */
import { type ErrorCode, errorStatus, Fault, type Problem } from "@millrace/contract";

/** Where what nobody expected is told. */
export interface Logger {
  error(fields: Record<string, unknown>, message: string): void;
}

/** An answer ready to be written. */
export interface ProblemAnswer {
  status: number;
  headers: Record<string, string>;
  body: Problem;
}

/** The headers that a code asks for. */
function headersOf(code: ErrorCode, fault: Fault): Record<string, string> {
  if (code === "unauthorized") return { "www-authenticate": 'Bearer realm="millrace"' };
  const status = errorStatus[code];
  if (status === 429 || status === 503) return { "retry-after": String(Math.max(1, Math.ceil(fault.details?.retryAfterSeconds ?? 1))) };
  return {};
}

/** fastify's own refusals, by its error code; the message is ours. */
function frameworkFault(error: unknown, limit: number | undefined): Fault | null {
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
  switch (code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new Fault("payload_too_large", `body: must have at most ${limit?.toLocaleString("en") ?? "1,048,576"} bytes`, {
        path: "body",
        bound: `at most ${limit ?? 1_048_576} bytes`,
      });
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
    case "FST_ERR_CTP_EMPTY_TYPE":
      return new Fault("unsupported_media_type", "Content-Type: must be application/json");
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
    case "ECONNRESET":
      return new Fault("invalid_request", "body: must be as long as Content-Length says");
    case "FST_ERR_BAD_URL":
      return new Fault("invalid_request", "path: must be percent-encoded UTF-8", { path: "path", bound: "percent-encoded UTF-8" });
    case "FST_ERR_MAX_PARAM_LENGTH":
      return new Fault("invalid_request", "path: has a part that is too long", { path: "path" });
    default:
      return null;
  }
}

/** What to answer for anything thrown. `limit`: the route's body limit in bytes. */
export function problemOf(error: unknown, requestId: string, logger: Logger, limit?: number): ProblemAnswer {
  let fault = error instanceof Fault ? error : frameworkFault(error, limit);
  if (fault === null) {
    logger.error({ err: error, requestId }, "a request failed");
    fault = new Fault("internal", "something went wrong on our side; the log has it under this request id");
  } else if (fault.code === "internal") logger.error({ err: fault, requestId }, "a request failed");
  const { code, message, details } = fault;
  return {
    status: fault.status,
    headers: headersOf(code, fault),
    body: { error: { code, message, requestId, ...(details === undefined ? {} : { details }) } },
  };
}

/** The status and code that anything thrown is answered with. */
export function outcomeOf(error: unknown): { status: number; code: ErrorCode } {
  const fault = error instanceof Fault ? error : frameworkFault(error, undefined);
  return fault === null ? { status: errorStatus.internal, code: "internal" } : { status: fault.status, code: fault.code };
}
