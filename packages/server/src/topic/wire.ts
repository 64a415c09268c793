/** Topics and their subscriptions as the Basaltic door shows them. */
import type { Answer, Operations } from "@millrace/contract";
import type { TopicRow, TopicSubscriptionRow } from "../store/topic-rows.ts";
import { type CrnPlace, subscriptionCrn, topicCrn } from "./crn.ts";

/** A topic on the wire. */
export type WireTopic = Answer<Operations["GetTopic"]>["topic"];
/** A topic subscription on the wire. */
export type WireTopicSubscription = Answer<Operations["GetTopicSubscription"]>["subscription"];

const iso = (ms: number): string => new Date(ms).toISOString();
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));

/** A topic of this place. */
export function wireTopic(row: TopicRow, place: CrnPlace): WireTopic {
  return {
    id: row.id,
    crn: topicCrn(place, row.name),
    name: row.name,
    fifo: row.fifo,
    display_name: row.settings.displayName,
    retry_policy: row.settings.retryPolicy,
    confirmed_subscriptions: row.members,
    pending_subscriptions: row.subscriptions - row.members,
    created_at: iso(row.createdAt),
    updated_at: iso(row.updatedAt),
  };
}

/** A subscription of this place. `deadLetterId` is the id of the queue that its failures go to, `null` once that is gone. */
export function wireTopicSubscription(
  row: TopicSubscriptionRow,
  topicName: string,
  place: CrnPlace,
  deadLetterId: string | null,
): WireTopicSubscription {
  const { settings, lastError } = row;
  return {
    id: row.id,
    crn: subscriptionCrn(place, topicName, row.id),
    topic_crn: topicCrn(place, topicName),
    topic_name: topicName,
    protocol: row.protocol,
    endpoint: row.endpoint,
    state: row.state,
    raw_message_delivery: settings.rawMessageDelivery,
    filter_policy: settings.filterPolicy,
    filter_policy_scope: settings.filterPolicyScope,
    retry_policy: settings.retryPolicy,
    redrive_policy: settings.deadLetterNo === null ? null : { dead_letter_queue: deadLetterId },
    max_in_flight: settings.maxInFlight,
    rate_limit:
      settings.rateLimit === null ? null : { count: settings.rateLimit.count, period_seconds: settings.rateLimit.periodMs / 1000 },
    confirmed_at: isoOrNull(row.confirmedAt),
    confirmable_until: row.state === "pending" ? isoOrNull(row.confirmableUntil) : null,
    status: {
      failing: row.failing,
      last_error: lastError === null ? null : { ...lastError, at: iso(lastError.at) },
      last_success_at: isoOrNull(row.lastSuccessAt),
    },
    created_at: iso(row.createdAt),
    updated_at: iso(row.updatedAt),
  };
}
