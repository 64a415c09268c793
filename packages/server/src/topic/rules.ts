/** Decisions about topics and their subscriptions, from what was given alone. Pure. */
import type { Input, Operations } from "@millrace/contract";

type RetryPolicy = NonNullable<Input<Operations["UpdateTopic"]>["body"]["retry_policy"]>;
type GivenSettings = Input<Operations["UpdateTopicSubscription"]>["body"];

/** How a delivery is retried, with nothing left open (T11). */
export interface Retry {
  maxAttempts: number;
  minDelayMs: number;
  maxDelayMs: number;
  timeoutMs: number;
  maxAgeMs: number;
}

/** The platform's own policy (T11). */
const platform = {
  max_attempts: 50,
  min_delay_seconds: 1,
  max_delay_seconds: 3_600,
  timeout_seconds: 15,
  max_age_seconds: 345_600,
} as const satisfies Required<RetryPolicy>;

/**
 * The policy in force: the subscription's field before the topic's before the platform's. A longest delay that comes from further away
 * than the shortest one is lifted to it.
 */
export function retryInForce(topic: RetryPolicy | null, subscription: RetryPolicy | null): Retry {
  const of = (field: keyof RetryPolicy): number => subscription?.[field] ?? topic?.[field] ?? platform[field];
  const minDelayMs = of("min_delay_seconds") * 1000;
  return {
    maxAttempts: of("max_attempts"),
    minDelayMs,
    maxDelayMs: Math.max(minDelayMs, of("max_delay_seconds") * 1000),
    timeoutMs: of("timeout_seconds") * 1000,
    maxAgeMs: of("max_age_seconds") * 1000,
  };
}

/** What a subscription has unless it says otherwise (T15). */
export const subscriptionDefaults = {
  rawMessageDelivery: false,
  filterPolicy: null,
  filterPolicyScope: "attributes",
  retryPolicy: null,
  deadLetterNo: null,
  maxInFlight: 10,
  rateLimit: null,
} as const;

/** Settings as the store keeps them. */
export interface SubscriptionChange {
  rawMessageDelivery?: boolean;
  filterPolicy?: Record<string, unknown> | null;
  filterPolicyScope?: "attributes" | "message";
  retryPolicy?: RetryPolicy | null;
  deadLetterNo?: number | null;
  maxInFlight?: number;
  rateLimit?: { count: number; periodMs: number } | null;
}

/** The given settings as a change of the stored ones. `deadLetterNo` is the number of the queue that `redrive_policy` names. */
export function subscriptionChange(given: GivenSettings, deadLetterNo: number | null): SubscriptionChange {
  const change: SubscriptionChange = {};
  if (given.raw_message_delivery !== undefined) change.rawMessageDelivery = given.raw_message_delivery;
  if (given.filter_policy !== undefined) change.filterPolicy = given.filter_policy;
  if (given.filter_policy_scope !== undefined) change.filterPolicyScope = given.filter_policy_scope;
  if (given.retry_policy !== undefined) change.retryPolicy = given.retry_policy;
  if (given.redrive_policy !== undefined) change.deadLetterNo = deadLetterNo;
  if (given.max_in_flight !== undefined) change.maxInFlight = given.max_in_flight;
  if (given.rate_limit !== undefined)
    change.rateLimit =
      given.rate_limit === null ? null : { count: given.rate_limit.count, periodMs: given.rate_limit.period_seconds * 1000 };
  return change;
}
