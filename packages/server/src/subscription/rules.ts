/**
 * The decisions of a push subscription, free of effects: how long messages are leased (P8), and what a delivery's result means for each
 * of them (P9 to P12) and for the subscription's health (P15).
 */
import { backoffMs, ezghBackoff, maxErrorLength, type Outcome, type Reading } from "@millrace/contract/wire";
import type { FailureClass } from "../delivery/types.ts";
import type { ClaimedMessage, QueueSettings, SettleRow } from "../store/types.ts";

/** How long the messages of an open delivery are hidden, in milliseconds (P8). */
export function leaseMs(queue: { visibilityTimeoutMs: number }, target: { timeoutSeconds: number }): number {
  return Math.max(queue.visibilityTimeoutMs, (target.timeoutSeconds + 30) * 1000);
}

/** What a delivery that got no answer means: the whole batch is retried; a timeout also asks for less (P13). */
export function readFailure(failure: { class: FailureClass; message: string }, count: number): Reading {
  return {
    outcomes: Array.from({ length: count }, () => ({ kind: "retry", delayMs: null })),
    ok: false,
    slowDown: failure.class === "timeout",
    error: failure.message.slice(0, maxErrorLength),
  };
}

/** Whether messages of one group wait for each other in this queue (Q9, Q10, Q19). */
export function ordered(queue: { type: "standard" | "fifo"; settings: Pick<QueueSettings, "groupConcurrency"> }): boolean {
  return queue.type === "fifo" || queue.settings.groupConcurrency === 1;
}

const listed = "The endpoint listed the message as failed.";

/**
 * The rows that settle a batch. In an ordered queue a failed message fails the later ones of its group too, whatever the answer says of
 * them (P10): they come back with it, behind it, and are refunded the attempt. `random` answers numbers in [0, 1), for the jitter.
 */
export function settleRows(
  queue: { no: number; type: "standard" | "fifo"; settings: QueueSettings },
  messages: readonly ClaimedMessage[],
  { outcomes, error }: Pick<Reading, "outcomes" | "error">,
  random: () => number,
): SettleRow[] {
  const backoff = ezghBackoff(queue.settings);
  const inOrder = ordered(queue);
  const held = new Map<string, number>();
  return messages.map((message, index): SettleRow => {
    const row = { queueNo: queue.no, seq: message.seq, receipt: message.receipt };
    const headDelayMs = message.groupKey === null ? undefined : held.get(message.groupKey);
    if (headDelayMs !== undefined) return { ...row, outcome: "release", delayMs: headDelayMs };
    const outcome: Outcome = outcomes[index] ?? { kind: "retry", delayMs: null };
    if (outcome.kind === "ack") return { ...row, outcome: "ack" };
    if (outcome.kind === "dead-letter") return { ...row, outcome: "dead", error: outcome.reason };
    const delayMs = outcome.delayMs ?? backoffMs(message.attempts, random(), backoff);
    if (inOrder && message.groupKey !== null) held.set(message.groupKey, delayMs);
    if (outcome.kind === "defer") return { ...row, outcome: "release", delayMs };
    return { ...row, outcome: "retry", delayMs, error: error ?? listed };
  });
}

/** Rows that give messages back untouched: ready at once, the attempt refunded. */
export function releaseRows(queueNo: number, messages: readonly ClaimedMessage[]): SettleRow[] {
  return messages.map(({ seq, receipt }) => ({ queueNo, seq, receipt, outcome: "release", delayMs: 0 }));
}
