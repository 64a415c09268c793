/**
 * What an attempt of a topic delivery means (T11, T13): delivered, tried again when and how, or failed for good, and in which words the
 * record says so. Pure.
 */
import { maxErrorLength, type Reading, readNotificationAnswer } from "@millrace/contract/wire";
import type { DeliveryResult } from "../delivery/types.ts";
import type { Retry } from "./rules.ts";

/** What the record says of a failure (T12); `status` where there was an answer. */
export interface AttemptError {
  class: string;
  status?: number;
  message: string;
}

/** What one attempt came to. `delayMs` is until the next one. `slowDown`: the endpoint asked for less (P13). */
export interface Decision {
  outcome: "delivered" | "retry" | "failed";
  ok: boolean;
  slowDown: boolean;
  delayMs: number;
  status: number | null;
  failure: AttemptError | null;
  /** The failure's message, `null` exactly when `ok`. */
  error: string | null;
}

/** Where a delivery stands: attempts spent with this one, and its age. `random` is in [0, 1); `wallMs` real time, for HTTP dates. */
export interface Standing {
  attempts: number;
  ageMs: number;
  retry: Retry;
  random: number;
  wallMs: number;
}

/**
 * Whole milliseconds until the attempt after the `n`th (from 1): doubling from the shortest delay to the longest, with jitter from half of
 * that, but never below the shortest.
 */
export function nextDelayMs(n: number, random: number, { minDelayMs, maxDelayMs }: Pick<Retry, "minDelayMs" | "maxDelayMs">): number {
  const whole = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(n - 1, 52));
  const least = Math.max(minDelayMs, whole / 2);
  return Math.floor(least + random * (whole - least));
}

/** Whether nothing is left to try: attempts, or the time that one may wait for `delayMs` more. */
const exhausted = ({ attempts, ageMs, retry }: Standing, delayMs: number): boolean =>
  attempts >= retry.maxAttempts || ageMs + delayMs > retry.maxAgeMs;

/** What the result of a webhook's request means. */
export function decideAttempt(result: DeliveryResult, standing: Standing): Decision {
  const { retry } = standing;
  if (result.kind === "answer") {
    const reading = readNotificationAnswer(result, [], { nowMs: standing.wallMs, maxDelayMs: retry.maxDelayMs });
    const { status } = result;
    const failure = reading.error === null ? null : { class: "http", status, message: reading.error };
    return decided(reading, failure, status, standing);
  }
  const message = result.message.slice(0, maxErrorLength);
  // A blocked address stays blocked: asking again changes nothing (T11).
  const outcome =
    result.class === "refused" ? ({ kind: "dead-letter", reason: message } as const) : ({ kind: "retry", delayMs: null } as const);
  const reading: Reading = { outcomes: [outcome], ok: false, slowDown: result.class === "timeout", error: message };
  return decided(reading, { class: result.class, message }, null, standing);
}

function decided(
  { outcomes, ok, slowDown, error }: Reading,
  failure: AttemptError | null,
  status: number | null,
  standing: Standing,
): Decision {
  const [outcome] = outcomes;
  const base = { ok, slowDown, status, failure, error, delayMs: 0 };
  if (outcome?.kind === "ack") return { ...base, outcome: "delivered" };
  if (outcome?.kind !== "retry") return { ...base, outcome: "failed" };
  const delayMs = outcome.delayMs ?? nextDelayMs(standing.attempts, standing.random, standing.retry);
  return exhausted(standing, delayMs) ? { ...base, outcome: "failed" } : { ...base, outcome: "retry", delayMs };
}

/** What it means that a subscribed queue took nothing: a full one may have room later, a missing one is gone. */
export function decideRefusal(why: "full" | "missing", standing: Standing): Decision {
  const failure =
    why === "full" ? { class: "full", message: "the queue is full" } : { class: "missing", message: "the queue does not exist" };
  const delayMs = nextDelayMs(standing.attempts, standing.random, standing.retry);
  const failed = why === "missing" || exhausted(standing, delayMs);
  return {
    outcome: failed ? "failed" : "retry",
    ok: false,
    slowDown: false,
    delayMs: failed ? 0 : delayMs,
    status: null,
    failure,
    error: failure.message,
  };
}

/**
 * Whether a delivery that was handed out may not be attempted any more: its last attempt was spent and never answered, or it grew too old
 * between attempts. The first attempt is always made.
 */
export function spent({ attempts, ageMs, retry }: Pick<Standing, "attempts" | "ageMs" | "retry">): boolean {
  return attempts > retry.maxAttempts || (attempts > 1 && ageMs > retry.maxAgeMs);
}

/** What stands in the record of such a delivery. */
export const SPENT: AttemptError = { class: "expired", message: "attempts or time ran out without an answer to the last attempt" };
