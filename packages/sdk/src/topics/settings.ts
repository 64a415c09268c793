/** Settings of topics and their subscriptions as a program writes them, and as the wire carries them. What is not given stays as it is. */
import { type Duration, optionalSeconds, toSeconds } from "../duration.ts";

/** How webhooks are retried. What is not given is inherited: from the topic, then from the platform. */
export interface RetryPolicy {
  maxAttempts?: number;
  minDelay?: Duration;
  maxDelay?: Duration;
  /** Of one attempt. */
  timeout?: Duration;
  /** How long a notification is worth delivering. */
  maxAge?: Duration;
}

/** Settings of a topic; `null` unsets. */
export interface TopicSettings {
  displayName?: string | null;
  retryPolicy?: RetryPolicy | null;
}

/** Settings of a topic's subscription; `null` unsets. */
export interface TopicSubscriptionSettings {
  /** A webhook gets the message alone, without the envelope around it. */
  rawMessageDelivery?: boolean;
  /** Which notifications it gets; all without one. */
  filterPolicy?: Record<string, unknown> | null;
  /** What the filter looks at; `attributes` unless given. */
  filterPolicyScope?: "attributes" | "message";
  retryPolicy?: RetryPolicy | null;
  /** A queue of the project that gets what could not be delivered. */
  deadLetterQueue?: string | null;
  /** Deliveries at the same time, 1 to 100. */
  maxInFlight?: number;
  /** At most `count` deliveries start in each `period`. */
  rateLimit?: { count: number; period: Duration } | null;
}

function wireRetryPolicy(given: RetryPolicy | null | undefined): unknown {
  if (!given) return given;
  return {
    max_attempts: given.maxAttempts,
    min_delay_seconds: optionalSeconds("retryPolicy.minDelay", given.minDelay),
    max_delay_seconds: optionalSeconds("retryPolicy.maxDelay", given.maxDelay),
    timeout_seconds: optionalSeconds("retryPolicy.timeout", given.timeout),
    max_age_seconds: optionalSeconds("retryPolicy.maxAge", given.maxAge),
  };
}

/** A topic's settings in the wire's fields. Throws a `RangeError` for what is no duration. */
export const wireTopic = ({ displayName, retryPolicy }: TopicSettings): Record<string, unknown> => ({
  display_name: displayName,
  retry_policy: wireRetryPolicy(retryPolicy),
});

/** A subscription's settings in the wire's fields. Throws a `RangeError` for what is no duration. */
export function wireSubscription(given: TopicSubscriptionSettings): Record<string, unknown> {
  const { deadLetterQueue: queue, rateLimit } = given;
  return {
    raw_message_delivery: given.rawMessageDelivery,
    filter_policy: given.filterPolicy,
    filter_policy_scope: given.filterPolicyScope,
    retry_policy: wireRetryPolicy(given.retryPolicy),
    redrive_policy: typeof queue === "string" ? { dead_letter_queue: queue } : queue,
    max_in_flight: given.maxInFlight,
    rate_limit: rateLimit ? { count: rateLimit.count, period_seconds: toSeconds("rateLimit.period", rateLimit.period) } : rateLimit,
  };
}
