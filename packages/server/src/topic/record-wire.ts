/** Notifications, delivery records and verdicts as the Basaltic door shows them. */
import type { Answer, Operations } from "@millrace/contract";
import type { DeliveryRow } from "../store/delivery-record.ts";
import type { FanOutState } from "../store/notification.ts";
import { type CrnPlace, topicCrn } from "./crn.ts";
import type { SubscriptionVerdict } from "./explain.ts";

type Explained = Answer<Operations["ExplainNotification"]>;
/** A notification's fan-out on the wire. */
export type WireNotification = Explained["notification"];
/** One subscription's verdict on the wire. */
export type WireVerdict = Explained["verdicts"][number];
/** A delivery record on the wire. */
export type WireDelivery = NonNullable<WireVerdict["delivery"]>;

const iso = (ms: number): string => new Date(ms).toISOString();
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));

/** What a publication has come to (T4). While the fan-out goes on, whom it has not reached yet counts nowhere. */
export function wireNotification(state: FanOutState, topicName: string, place: CrnPlace): WireNotification {
  return {
    message_id: state.messageId,
    accepted_at: iso(state.acceptedAt),
    topic_crn: topicCrn(place, topicName),
    topic_name: topicName,
    state: state.state,
    matched: state.matched,
    filtered_out: state.state === "complete" ? state.members - state.matched : 0,
    delivered: state.delivered,
    failed: state.failed,
    cancelled: state.cancelled,
    pending: state.pending,
  };
}

/** A delivery record (T12). */
export function wireDelivery(row: DeliveryRow): WireDelivery {
  return {
    id: row.id,
    message_id: row.messageId,
    subscription_id: row.subscriptionId,
    state: row.state,
    attempts: row.attempts,
    created_at: iso(row.createdAt),
    next_attempt_at: isoOrNull(row.nextAttemptAt),
    delivered_at: isoOrNull(row.deliveredAt),
    last_error: row.lastError,
    last_status: row.lastStatus,
    dead_letter: row.deadLetter,
  };
}

/** A verdict (T16). */
export function wireVerdict(given: SubscriptionVerdict): WireVerdict {
  const { explained, outcome, text, filter, queue, keyReadable } = given;
  const { subscription, endedAt, delivery } = explained;
  const { protocol, endpoint, lastError } = subscription;
  return {
    subscription_id: subscription.id,
    protocol,
    endpoint,
    outcome,
    explanation: text,
    subscription: {
      state: endedAt === null ? subscription.state : "ended",
      created_at: iso(subscription.createdAt),
      confirmed_at: isoOrNull(subscription.confirmedAt),
      confirmable_until: subscription.state === "pending" && endedAt === null ? isoOrNull(subscription.confirmableUntil) : null,
    },
    filter:
      filter === null
        ? null
        : { ...filter.result, policy: filter.policy, scope: filter.scope, as_of: given.filterAsOf, changed_since: given.changedSince },
    delivery: delivery === null ? null : wireDelivery(delivery),
    webhook:
      protocol === "queue"
        ? null
        : {
            url: endpoint,
            failing: subscription.failing,
            last_error: lastError === null ? null : { ...lastError, at: iso(lastError.at) },
            last_success_at: isoOrNull(subscription.lastSuccessAt),
            signing_key: keyReadable ? "readable" : "unreadable",
          },
    queue,
  };
}
