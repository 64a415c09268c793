/** A subscription and its attempts as the EZGH door shows them (P2, P15): ISO times outside, milliseconds inside. Never a secret but a fresh one. */
import type { Answer, Operations } from "@millrace/contract";
import type { KeptAttempt } from "../store/attempt.ts";
import type { SubscriptionRow } from "../store/subscription.ts";

/** A subscription as the EZGH door shows it. */
export type WireSubscription = Answer<Operations["GetSubscription"]>;
/** Attempts as the EZGH door shows them. */
export type WireAttempts = Answer<Operations["ListAttempts"]>;

/** The half of `status` that only the running engine knows. */
export interface Live {
  inFlight: number;
  limit: number;
  deliveriesPerMinute: number;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** What a subscription without a running lane shows. */
export function atRest(row: Pick<SubscriptionRow, "failing" | "maxConcurrency">): Live {
  return { inFlight: 0, limit: row.failing ? 1 : row.maxConcurrency, deliveriesPerMinute: 0 };
}

/** The wire form; `signingSecret` is given on create and rotate alone. */
export function wireSubscription(row: SubscriptionRow, live: Live, signingSecret: string | null): WireSubscription {
  return {
    id: row.id,
    resourceName: row.resourceName,
    queueId: row.queueId,
    target: row.target,
    batchSize: row.batchSize,
    maxConcurrency: row.maxConcurrency,
    state: row.state,
    recordAttempts: row.recordAttempts,
    status: {
      health: row.failing ? "failing" : "healthy",
      lastError: row.lastError === null ? null : { ...row.lastError, at: iso(row.lastError.at) },
      lastSuccessAt: row.lastSuccessAt === null ? null : iso(row.lastSuccessAt),
      inFlight: live.inFlight,
      limit: live.limit,
      deliveriesPerMinute: live.deliveriesPerMinute,
    },
    signingSecret,
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}

/** Kept attempts in their wire form. */
export function wireAttempts(attempts: readonly KeptAttempt[], nextCursor: string | null): WireAttempts {
  return { attempts: attempts.map((each) => ({ ...each, messageIds: [...each.messageIds], at: iso(each.at) })), nextCursor };
}
