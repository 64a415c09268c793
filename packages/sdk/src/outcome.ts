/**
 * What a handler may throw to say what becomes of its message, and how it is recognized. Recognition goes by a registered symbol and by
 * name, never by class: two copies of this package in one program must understand each other.
 */
import { type Duration, readDuration } from "./duration.ts";
import { messageOf } from "./text.ts";

const retryLater = Symbol.for("millrace.sdk.retry-later");
const nonRetryable = Symbol.for("millrace.sdk.non-retryable");

/** Thrown by a handler: not now, deliver again after `delay`. No attempt is spent. A delay that is none counts as any other error. */
export class RetryLaterError extends Error {
  readonly [retryLater] = true;
  /** Whole seconds; `undefined` when the delay given was none. */
  readonly delaySeconds: number | undefined;

  /** `delay` in seconds, or as `"90s"`, `"10m"`, `"2h"`, `"3d"`; 0 means now. */
  constructor(delay: Duration, message?: string) {
    super(message ?? `retry after ${String(delay)}`);
    this.name = "RetryLaterError";
    this.delaySeconds = readDuration(delay);
  }
}

/** Thrown by a handler: this message can never succeed. It goes to the dead letters at once, with the error's message as the reason. */
export class NonRetryableError extends Error {
  readonly [nonRetryable] = true;

  /** `reason`: at most 500 printable ASCII characters are kept. */
  constructor(reason: string, options?: { cause?: unknown }) {
    super(reason, options);
    this.name = "NonRetryableError";
  }
}

/** A payload that could not be decoded or did not pass `validate`. Its message goes to the dead letters. */
export class InvalidPayloadError extends NonRetryableError {
  constructor(what: string, cause: unknown) {
    super(`${what}: ${messageOf(cause, 400)}`, { cause });
    this.name = "InvalidPayloadError";
  }
}

/** What became of one message. */
export type Outcome =
  | { kind: "ack" }
  | { kind: "defer"; delaySeconds: number }
  | { kind: "dead-letter"; reason: string }
  | { kind: "retry"; error: string };

function isBranded(thrown: unknown, brand: symbol, name: string): thrown is object {
  return (
    typeof thrown === "object" &&
    thrown !== null &&
    ((thrown as Record<symbol, unknown>)[brand] === true || Reflect.get(thrown, "name") === name)
  );
}

/** Whether a handler asked for a later delivery, and could be understood. */
export function asksForLater(thrown: unknown): number | undefined {
  try {
    if (!isBranded(thrown, retryLater, "RetryLaterError")) return undefined;
    return readDuration(Reflect.get(thrown, "delaySeconds") ?? Reflect.get(thrown, "delay"));
  } catch {
    return undefined;
  }
}

/** Reads what a handler threw. Never throws. */
export function outcomeOf(thrown: unknown): Outcome {
  const delaySeconds = asksForLater(thrown);
  if (delaySeconds !== undefined) return { kind: "defer", delaySeconds };
  const text = messageOf(thrown);
  try {
    if (isBranded(thrown, nonRetryable, "NonRetryableError")) return { kind: "dead-letter", reason: text };
  } catch {
    // whatever cannot even be looked at is an error like any other
  }
  return { kind: "retry", error: text === "" ? "the handler failed without saying why" : text };
}
