/**
 * Why a notification did or did not reach a subscription (T16), and a tester of filters: shapes and operations. A verdict answers for one
 * subscription what was asked: confirmed, filtered, delivered, and how its webhook or queue is doing.
 */
import { z } from "zod";
import { type Operation, operation } from "../operation.ts";
import type { diagnosisRoutes } from "./routes.ts";
import * as b from "./shapes.ts";

const time = z.string();

/** One key of a policy that failed. `key` is its path, dotted; empty for the message itself. */
const filterFailure = z.object({
  key: z.string(),
  reason: z.enum(["absent", "different", "not_an_object"]),
  expected: z.array(z.unknown()),
  /** What came, cut; `null` when the key was absent. */
  got: z.unknown(),
});
const filterResult = z.object({ matched: z.boolean(), failures: z.array(filterFailure) });

/** What became of a notification for one subscription. */
export const verdictOutcome = z.enum([
  "delivered",
  "delivering",
  "pending",
  "failed",
  "cancelled",
  "filtered_out",
  "not_confirmed",
  "subscribed_later",
  "undecided",
  "forgotten",
]);
const verdict = z.object({
  subscription_id: z.string(),
  protocol: z.enum(["webhook", "queue"]),
  endpoint: z.string(),
  outcome: verdictOutcome,
  /** The same in a sentence. */
  explanation: z.string(),
  subscription: z.object({
    state: z.enum(["pending", "confirmed", "ended"]),
    created_at: time,
    confirmed_at: time.nullable(),
    confirmable_until: time.nullable(),
  }),
  /** The filter as it was when the notification was published, or as it is now where that is forgotten; `null` without one. */
  filter: filterResult
    .extend({
      policy: b.filterPolicy,
      scope: z.enum(["attributes", "message"]),
      as_of: z.enum(["publication", "now"]),
      changed_since: z.boolean(),
    })
    .nullable(),
  delivery: b.deliveryRecord.nullable(),
  /** Of a webhook: how its latest deliveries went, of whatever notification. */
  webhook: z
    .object({
      url: z.string(),
      failing: z.boolean(),
      last_error: b.lastError.extend({ at: time }).nullable(),
      last_success_at: time.nullable(),
      /** Whether the server can read the secret that signs. */
      signing_key: z.enum(["readable", "unreadable"]),
    })
    .nullable(),
  /** Of a queue: whether it takes and hands out messages. */
  queue: z
    .object({
      id: z.string(),
      name: z.string().nullable(),
      state: z.enum(["available", "paused", "full", "deleted"]),
      ready: z.int(),
      leased: z.int(),
      dead: z.int(),
      encryption_key: z.enum(["readable", "unreadable"]),
    })
    .nullable(),
});

/** One subscription's verdict. */
export type Verdict = z.output<typeof verdict>;

const explanation = b.notification.extend({ verdicts: z.array(verdict), meta: b.meta });

const testFilter = z.object({
  filter_policy: b.filterPolicy,
  filter_policy_scope: z.enum(["attributes", "message"]).optional(),
  message: z.string().optional(),
  attributes: b.attributes.optional(),
});

export const diagnosisOperations = {
  ExplainNotification: operation({
    summary: "Say for each of the topic's subscriptions what became of a notification, and why.",
    permission: "notifications.messages.explain",
    errors: ["project_not_found", "notification_not_found", "subscription_not_found"],
    params: z.object({ messageId: b.reference }),
    query: b.paging.extend({ subscription_id: b.subscriptionId.optional() }),
    answer: explanation,
  }),
  TestFilterPolicy: operation({
    summary: "Hold a message and attributes against a filter policy, without storing either.",
    permission: null,
    params: z.object({}),
    body: testFilter,
    bodyLimit: 2 * 1024 * 1024,
    answer: z.object({ result: filterResult }),
  }),
} satisfies Record<keyof typeof diagnosisRoutes, Operation>;
