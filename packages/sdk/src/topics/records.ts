/** What a server answers about topics, as this package hands it on: instants are `Date`s, durations whole seconds. */

/** How often and for how long webhooks are tried; what is absent is inherited. */
export interface RetryPolicyInfo {
  maxAttempts?: number;
  minDelaySeconds?: number;
  maxDelaySeconds?: number;
  timeoutSeconds?: number;
  maxAgeSeconds?: number;
}

/** A topic. */
export interface TopicInfo {
  id: string;
  crn: string;
  name: string;
  fifo: boolean;
  displayName: string | null;
  retryPolicy: RetryPolicyInfo | null;
  confirmedSubscriptions: number;
  pendingSubscriptions: number;
  createdAt: Date;
  updatedAt: Date;
}

/** Why a delivery did not succeed. */
export interface DeliveryError {
  class: string;
  status?: number;
  message: string;
}

/** A topic's receiver. */
export interface TopicSubscriptionInfo {
  id: string;
  crn: string;
  topicCrn: string;
  topicName: string;
  protocol: "webhook" | "queue";
  endpoint: string;
  /** A `pending` webhook has not confirmed yet and gets no notifications. */
  state: "pending" | "confirmed";
  rawMessageDelivery: boolean;
  filterPolicy: Record<string, unknown> | null;
  filterPolicyScope: "attributes" | "message";
  retryPolicy: RetryPolicyInfo | null;
  /** `null` within: the queue was deleted. */
  redrivePolicy: { deadLetterQueue: string | null } | null;
  maxInFlight: number;
  rateLimit: { count: number; periodSeconds: number } | null;
  confirmedAt: Date | null;
  confirmableUntil: Date | null;
  status: { failing: boolean; lastError: (DeliveryError & { at: Date }) | null; lastSuccessAt: Date | null };
  createdAt: Date;
  updatedAt: Date;
}

/** A publication that was taken. */
export interface PublishedNotification {
  messageId: string;
  acceptedAt: Date;
}

/** A publication of a batch that was not taken. The others are not affected. */
export interface RefusedNotification {
  messageId: null;
  code: string;
  error: string;
}

/** How far a notification got: numbers of subscriptions. */
export interface NotificationInfo extends PublishedNotification {
  topicCrn: string;
  topicName: string;
  state: "accepted" | "fanning_out" | "complete";
  matched: number;
  filteredOut: number;
  delivered: number;
  failed: number;
  cancelled: number;
  pending: number;
}

/** The lasting state of one notification for one subscription. */
export interface DeliveryInfo {
  id: string;
  messageId: string;
  subscriptionId: string;
  state: "pending" | "delivering" | "delivered" | "failed" | "cancelled";
  attempts: number;
  createdAt: Date;
  nextAttemptAt: Date | null;
  deliveredAt: Date | null;
  lastError: DeliveryError | null;
  lastStatus: number | null;
  /** Whether the dead-letter queue got the failure; `null` where there is none to get. */
  deadLetter: "stored" | "missing" | "full" | null;
}

/** A key of a filter that failed. `key` is its path, empty for the message itself; `got` what came, cut. */
export interface FilterFailure {
  key: string;
  reason: "absent" | "different" | "not_an_object";
  expected: unknown[];
  got: unknown;
}

/** What a filter says of one notification. */
export interface FilterResult {
  matched: boolean;
  failures: FilterFailure[];
}

/** What became of a notification for one subscription, and why. */
export interface NotificationVerdict {
  subscriptionId: string;
  protocol: "webhook" | "queue";
  endpoint: string;
  outcome: DeliveryInfo["state"] | "filtered_out" | "not_confirmed" | "subscribed_later" | "undecided" | "forgotten";
  /** The same in a sentence. */
  explanation: string;
  subscription: { state: "pending" | "confirmed" | "ended"; createdAt: Date; confirmedAt: Date | null; confirmableUntil: Date | null };
  /** The filter of the publication, or as `asOf` says the present one; `null` without one. */
  filter:
    | (FilterResult & {
        policy: Record<string, unknown>;
        scope: "attributes" | "message";
        asOf: "publication" | "now";
        changedSince: boolean;
      })
    | null;
  delivery: DeliveryInfo | null;
  webhook: {
    url: string;
    failing: boolean;
    lastError: (DeliveryError & { at: Date }) | null;
    lastSuccessAt: Date | null;
    signingKey: "readable" | "unreadable";
  } | null;
  queue: {
    id: string;
    name: string | null;
    state: "available" | "paused" | "full" | "deleted";
    ready: number;
    leased: number;
    dead: number;
    encryptionKey: "readable" | "unreadable";
  } | null;
}
