/**
 * What the hot verbs know of queues: their settings, read once and remembered until a queue changes anywhere. A queue that is not
 * there is never remembered.
 */
import type { Tx } from "../db/db.ts";
import { type Front, unknownFront } from "./front.ts";
import type { QueueSettings } from "./types.ts";

/** A queue as the hot verbs see it. `limit` is Q19's: 1 is order, 2 to 1,000 a limit, `null` fairness only. */
export interface HotQueue extends QueueSettings {
  no: number;
  limit: number | null;
  /** The project against whose quota what clients send here counts; `null`: it has none. */
  quotaOf: number | null;
  front: Front;
}

/** Far beyond every instant: what never expires, and what only a settle or a sweep may move. */
export const NEVER = 8_640_000_000_000_000;

/** The queues of these numbers; those that don't exist are missing. */
export async function readQueues(tx: Tx, nos: Iterable<number>): Promise<Map<number, HotQueue>> {
  const queues = new Map<number, HotQueue>();
  const unknown: [number][] = [];
  for (const no of new Set(nos)) {
    const known = tx.recall<HotQueue>(no);
    if (known === undefined) unknown.push([no]);
    else queues.set(no, known);
  }
  for (const row of await tx.each<{ no: number; type: string; settings: string; quota_of: number | null }>("queue.read", unknown)) {
    const settings = JSON.parse(row.settings) as QueueSettings;
    const limit = row.type === "fifo" ? 1 : settings.groupConcurrency;
    const queue: HotQueue = { ...settings, no: row.no, limit, quotaOf: row.quota_of, front: unknownFront() };
    tx.remember(row.no, queue);
    queues.set(row.no, queue);
  }
  const targets = new Set<number>();
  for (const queue of queues.values())
    if (queue.deadLetter === "queue" && queue.deadLetterNo !== null && !queues.has(queue.deadLetterNo)) targets.add(queue.deadLetterNo);
  if (targets.size > 0) for (const [no, queue] of await readQueues(tx, targets)) queues.set(no, queue);
  return queues;
}

/** To be called in the transaction that changes or ends a queue: every process reads its settings anew after the commit. */
export function forgetQueue(tx: Tx, _no: number): Promise<void> {
  return tx.forget();
}

/** The key by which a message stands in its queue: in a queue of fairness only, messages without a group are one group. */
export function groupKeyIn(queue: HotQueue, groupKey: string | null): string | null {
  return queue.limit === null ? (groupKey ?? "") : groupKey === "" ? null : groupKey;
}

/** When a message that is due at `dueAt` expires. */
export function expiryOf(queue: HotQueue, dueAt: number): number {
  return queue.internal ? NEVER : dueAt + queue.retentionMs;
}
