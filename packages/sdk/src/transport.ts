/**
 * Requests to a server: time limits, retries and errors. Invariant: a request is sent again only when that cannot double its effect,
 * because it is idempotent by nature, carries an `Idempotency-Key`, or was refused before it was looked at.
 */
import { retryAfterMs } from "@millrace/contract/wire";
import type { Authorizer } from "./credentials.ts";
import { ApiError, ConnectionError, MillraceError, RequestTimeoutError } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

/** One request. */
export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** From the slash behind the server's address. */
  path: string;
  query?: Readonly<Record<string, string | number | undefined>>;
  body?: unknown;
  /** A body that is JSON text already. */
  json?: string;
  headers?: Readonly<Record<string, string>>;
  /** Makes a call that is not idempotent by nature so. */
  idempotencyKey?: string;
  /**
   * Whether an answer that never came may be asked for again; `refused` repeats only what the server turned away (429, 503), `failed`
   * also what any other 5xx answered.
   */
  repeat: "always" | "refused" | "failed";
  /** Added to the client's time limit, for calls that wait. */
  waitMs?: number;
  signal?: AbortSignal;
}

/** How a client behaves. */
export interface TransportOptions {
  url: string;
  authorizer: Authorizer;
  /** The limit of one try, in milliseconds. */
  timeoutMs: number;
  /** Tries after the first. */
  maxRetries: number;
  runtime: Runtime;
}

/** Makes a call; answers the parsed body. Rejects with `ApiError`, `ConnectionError`, `RequestTimeoutError`, or the signal's reason. */
export type Transport = (call: Call) => Promise<unknown>;

/** The longest wait that a server's `Retry-After` is followed for; asked to wait longer, the call fails and says so. */
const longestWaitMs = 30_000;

/** What to wait before try `n` (from 1) is repeated, in milliseconds: 200 ms doubling to 5 s, a random part of it. */
export const retryDelayMs = (n: number, random: number): number => Math.ceil(Math.min(5000, 200 * 2 ** (n - 1)) * (0.5 + random / 2));

function errorOf(response: Response, text: string, now: number): ApiError {
  const { status } = response;
  const after = retryAfterMs(response.headers.get("retry-after") ?? undefined, now, Number.MAX_SAFE_INTEGER) ?? undefined;
  const asked = { status, retryAfterMs: after };
  try {
    const answer = JSON.parse(text) as { error?: unknown; code?: unknown; retryable?: unknown };
    const { error } = answer;
    if (typeof error === "object" && error !== null) {
      const { code, message, requestId, details } = error as Record<string, unknown>;
      return new ApiError({
        ...asked,
        code: String(code),
        message: String(message),
        requestId: typeof requestId === "string" ? requestId : undefined,
        details: typeof details === "object" && details !== null ? (details as Record<string, unknown>) : undefined,
      });
    }
    // A refused message: `{messageId: null, error, code, retryable}`.
    if (typeof answer.code === "string") {
      const retryable = typeof answer.retryable === "boolean" ? answer.retryable : undefined;
      return new ApiError({ ...asked, code: answer.code, message: String(error ?? answer.code), retryable });
    }
  } catch {
    // not the server's own answer: a proxy's page, perhaps
  }
  return new ApiError({
    ...asked,
    code: `http_${status}`,
    message: `the server answered ${status}`,
    retryable: status >= 502 || status === 429,
  });
}

/** Whether a failed try may be followed by another, given how the call may be repeated. */
function mayRepeat(error: unknown, call: Call): boolean {
  if (error instanceof ApiError) {
    // A quota is not mended by waiting a little.
    if (error.code === "quota_exceeded") return false;
    if (error.status === 429 || error.status === 503) return (error.retryAfterMs ?? 0) <= longestWaitMs;
    if (call.repeat === "failed" && error.status >= 500) return true;
    return call.repeat !== "refused" && (error.status === 502 || error.status === 504 || error.code === "idempotency_in_progress");
  }
  return call.repeat !== "refused" && error instanceof MillraceError && error.retryable;
}

/** Makes the transport of one client. */
export function createTransport({ url, authorizer, timeoutMs, maxRetries, runtime }: TransportOptions): Transport {
  const once = async (call: Call, authorization: string): Promise<unknown> => {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) if (value !== undefined) search.set(name, String(value));
    const limitMs = timeoutMs + (call.waitMs ?? 0);
    const controller = new AbortController();
    const stop = () => controller.abort(call.signal?.reason);
    const body = call.json ?? (call.body === undefined ? undefined : JSON.stringify(call.body));
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      controller.abort();
    }, limitMs);
    call.signal?.addEventListener("abort", stop, { once: true });
    try {
      call.signal?.throwIfAborted();
      const response = await runtime.fetch(url + call.path + (search.size === 0 ? "" : `?${search}`), {
        method: call.method,
        headers: {
          authorization,
          accept: "application/json",
          ...call.headers,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(call.idempotencyKey === undefined ? {} : { "idempotency-key": call.idempotencyKey }),
        },
        body,
        redirect: "manual",
        signal: controller.signal,
      });
      const text = await response.text();
      if (!response.ok) throw errorOf(response, text, runtime.now());
      if (text === "") return undefined;
      try {
        return JSON.parse(text);
      } catch {
        throw new ApiError({
          status: response.status,
          code: "invalid_answer",
          message: `${url} answered something other than JSON: is it a Millrace server?`,
        });
      }
    } catch (error) {
      if (error instanceof MillraceError) throw error;
      if (late) throw new RequestTimeoutError(limitMs);
      call.signal?.throwIfAborted();
      throw new ConnectionError(`cannot reach ${url}`, error);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", stop);
    }
  };

  return async (call) => {
    let renewed = false;
    for (let tries = 1; ; tries += 1) {
      let authorization = "";
      try {
        authorization = await authorizer.header();
        return await once(call, authorization);
      } catch (error) {
        if (error instanceof ApiError && error.status === 401 && authorization !== "" && !renewed && authorizer.refused(authorization)) {
          renewed = true;
          tries -= 1;
          continue;
        }
        if (tries > maxRetries || !mayRepeat(error, call)) throw error;
        const asked = error instanceof ApiError ? error.retryAfterMs : undefined;
        await runtime.wait(Math.max(asked ?? 0, retryDelayMs(tries, runtime.random())), call.signal);
        call.signal?.throwIfAborted();
      }
    }
  };
}
