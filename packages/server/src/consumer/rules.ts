/**
 * The decisions of a push consumer, free of effects: how long a request may take and its message is leased (C5), what an answer or a
 * failure makes of the message (C3, C4), and what is called.
 */
import { backoffMs, gigadriveBackoff, type Reading } from "@millrace/contract/wire";
import type { DeliveryResult } from "../delivery/types.ts";
import type { ClaimedMessage, QueueSettings, SettleRow } from "../store/types.ts";

/** How long a lease outlasts its request at least: the time to store the outcome. */
const SPARE_MS = 10_000;

/** How long a request may take, in milliseconds (C5). */
export function timeoutMs(queue: { visibilityTimeoutMs: number }): number {
  return Math.max(5_000, queue.visibilityTimeoutMs - 1_000);
}

/** How long the message of an open request is hidden, in milliseconds (C5). */
export function leaseMs(queue: { visibilityTimeoutMs: number }): number {
  return timeoutMs(queue) + SPARE_MS;
}

/** `<deployment base URL><consumerPath>`. */
export function endpointOf(baseUrl: string, consumerPath: string): string {
  return baseUrl.replace(/\/+$/, "") + consumerPath;
}

/** What a request without an answer means: another try; a timeout also asks for less (P13). */
export function readFailure(failure: Extract<DeliveryResult, { kind: "failure" }>): Reading {
  const error = failure.class === "timeout" ? "timeout" : `connection: ${failure.code ?? failure.message}`;
  return { outcomes: [{ kind: "retry", delayMs: null }], ok: false, slowDown: failure.class === "timeout", error };
}

/** The row that settles the message of a request. `random` is in [0, 1), for the jitter. */
export function settleRow(
  queue: { no: number; settings: Pick<QueueSettings, "retryBackoffMinMs" | "retryBackoffMaxMs"> },
  { seq, receipt, attempts }: Pick<ClaimedMessage, "seq" | "receipt" | "attempts">,
  { outcomes, error }: Pick<Reading, "outcomes" | "error">,
  random: number,
): SettleRow {
  const row = { queueNo: queue.no, seq, receipt };
  const [outcome] = outcomes;
  if (outcome?.kind === "ack") return { ...row, outcome: "ack" };
  if (outcome?.kind === "dead-letter") return { ...row, outcome: "dead", error: outcome.reason };
  if (outcome?.kind === "defer") return { ...row, outcome: "release", delayMs: outcome.delayMs };
  const delayMs = outcome?.delayMs ?? backoffMs(attempts, random, gigadriveBackoff(queue.settings));
  return { ...row, outcome: "retry", delayMs, ...(error === null ? {} : { error }) };
}

/** The row that gives a message back untouched: ready at once, the attempt refunded. */
export function releaseRow(queueNo: number, { seq, receipt }: Pick<ClaimedMessage, "seq" | "receipt">): SettleRow {
  return { queueNo, seq, receipt, outcome: "release", delayMs: 0 };
}
