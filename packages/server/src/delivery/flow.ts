/**
 * How many deliveries of a subscription may be in flight (P13), how rarely a steadily failing one is tried (P14), and how many may start
 * per period. Pure: every function takes the state and gives the next one; durations follow the `now` that is passed in.
 */

/** `slow`: 429, 503 or a timeout. `failed`: every other failure. */
export type FlowResult = "success" | "slow" | "failed";

export interface Flow {
  /** `maxConcurrency` of the subscription. */
  max: number;
  /** What may be in flight now, 1 to `max`. */
  limit: number;
  /** Failed deliveries since the last success. */
  failures: number;
  /** The gap between deliveries while it fails steadily, in milliseconds; else 0. */
  gapMs: number;
  /** Not before this instant (milliseconds) may another delivery start; 0 when nothing holds it back. */
  notBefore: number;
}

/** Failed deliveries in a row from which a subscription counts as failing steadily. */
export const steadyFailures = 10;
const firstGapMs = 1000;
const longestGapMs = 30_000;

/** The state at start, restart or takeover: one delivery at a time if the subscription was failing, else the whole of `max`. */
export function initialFlow(max: number, failing: boolean): Flow {
  return { max, limit: failing ? 1 : max, failures: 0, gapMs: 0, notBefore: 0 };
}

/** The state after a delivery ended at `now`. */
export function onResult(flow: Flow, result: FlowResult, now: number): Flow {
  if (result === "success") return { max: flow.max, limit: Math.min(flow.limit + 1, flow.max), failures: 0, gapMs: 0, notBefore: 0 };
  const failures = flow.failures + 1;
  const limit = result === "slow" ? Math.max(1, Math.floor(flow.limit / 2)) : flow.limit;
  if (failures < steadyFailures) return { max: flow.max, limit, failures, gapMs: 0, notBefore: 0 };
  // Those that were open already when the gap began say nothing new: a hundred of them are still one outage.
  if (now < flow.notBefore) return { ...flow, limit, failures };
  const gapMs = flow.gapMs === 0 ? firstGapMs : Math.min(longestGapMs, flow.gapMs * 2);
  return { max: flow.max, limit, failures, gapMs, notBefore: now + gapMs };
}

/** What may be in flight: the limit, or one while the subscription fails steadily. */
export function allowedInFlight(flow: Flow): number {
  return flow.failures >= steadyFailures ? 1 : flow.limit;
}

/**
 * Whether a delivery may start: `true`, `false` (when another one ends, ask again), or the milliseconds until the gap is over.
 */
export function mayStart(flow: Flow, inFlight: number, now: number): boolean | number {
  if (inFlight >= allowedInFlight(flow)) return false;
  return now >= flow.notBefore ? true : flow.notBefore - now;
}

/** `maxConcurrency` was changed. A limit that was at the old maximum follows it upwards; one that was cut stays where it is. */
export function withMax(flow: Flow, max: number): Flow {
  return { ...flow, max, limit: flow.limit === flow.max ? max : Math.min(flow.limit, max) };
}

/** At most `count` starts per period: a bucket that holds `count` tokens and fills evenly. */
export interface Bucket {
  count: number;
  periodMs: number;
  tokens: number;
  /** The instant `tokens` was true. */
  at: number;
}

/** A full bucket. */
export function fullBucket({ count, periodMs }: { count: number; periodMs: number }, now: number): Bucket {
  return { count, periodMs, tokens: count, at: now };
}

/** A bucket that must fill first. */
export function emptyBucket({ count, periodMs }: { count: number; periodMs: number }, now: number): Bucket {
  return { count, periodMs, tokens: 0, at: now };
}

function filled(bucket: Bucket, now: number): Bucket {
  // A clock that seems to step back fills nothing.
  const passed = Math.max(0, now - bucket.at);
  return { ...bucket, tokens: Math.min(bucket.count, bucket.tokens + (passed * bucket.count) / bucket.periodMs), at: bucket.at + passed };
}

/** Takes up to `wanted` whole tokens; `waitMs` is the time until the next one, 0 when all were given. */
export function take(bucket: Bucket, wanted: number, now: number): { bucket: Bucket; taken: number; waitMs: number } {
  const full = filled(bucket, now);
  // A token that lacks only a rounding error is whole.
  const taken = Math.min(wanted, Math.floor(full.tokens + 1e-9));
  const tokens = Math.max(0, full.tokens - taken);
  const waitMs = taken === wanted ? 0 : Math.ceil(((1 - tokens) * bucket.periodMs) / bucket.count);
  return { bucket: { ...full, tokens }, taken, waitMs };
}

/** The rate was changed: what is in the bucket stays, as far as it fits. */
export function withRate(bucket: Bucket, { count, periodMs }: { count: number; periodMs: number }, now: number): Bucket {
  return { count, periodMs, tokens: Math.min(count, filled(bucket, now).tokens), at: now };
}
