/** How often a step is tried again, and after what pause: the one place that decides it. */
import { type Duration, toSeconds } from "../duration.ts";
import { outcomeOf } from "../outcome.ts";
import { ValueError } from "./errors.ts";

/** Tries after the first, and the pause before the first of them, which doubles with each. A number is that many tries. */
export type Retry = number | { retries?: number; delay?: Duration; maxDelay?: Duration };

/** A policy with everything filled in, in milliseconds. */
export interface RetryPolicy {
  retries: number;
  delayMs: number;
  maxDelayMs: number;
}

const most = 100;
const longestDelaySeconds = 30 * 86_400;

/** Reads a policy. What is not given comes from `fallback`, else is 3 tries, 1 s and 1 h. Throws a `RangeError` that names the bound. */
export function readRetry(retry: Retry | undefined, fallback?: RetryPolicy): RetryPolicy {
  const given = typeof retry === "number" ? { retries: retry } : (retry ?? {});
  const retries = given.retries ?? fallback?.retries ?? 3;
  if (!Number.isInteger(retries) || retries < 0 || retries > most) {
    throw new RangeError(`retry: must be a whole number of tries from 0 to ${most}, got ${String(retries)}`);
  }
  const delay = (field: string, value: Duration | undefined, otherwise: number) =>
    value === undefined ? otherwise : toSeconds(`retry.${field}`, value, 0, longestDelaySeconds) * 1000;
  return {
    retries,
    delayMs: delay("delay", given.delay, fallback?.delayMs ?? 1000),
    maxDelayMs: delay("maxDelay", given.maxDelay, fallback?.maxDelayMs ?? 3_600_000),
  };
}

/** What becomes of a step whose try failed. `spent` is false when the try does not count (`RetryLaterError`). */
export type Verdict = { again: true; delayMs: number; spent: boolean } | { again: false };

/** Decides about try `attempt` (from 1), which threw `thrown`. */
export function judge(thrown: unknown, attempt: number, policy: RetryPolicy): Verdict {
  if (thrown instanceof ValueError) return { again: false };
  const outcome = outcomeOf(thrown);
  if (outcome.kind === "defer") return { again: true, delayMs: Math.min(outcome.delaySeconds, longestDelaySeconds) * 1000, spent: false };
  if (outcome.kind === "dead-letter" || attempt > policy.retries) return { again: false };
  return { again: true, delayMs: Math.min(policy.maxDelayMs, policy.delayMs * 2 ** (attempt - 1)), spent: true };
}
