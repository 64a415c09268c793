/**
 * What attempts of topic deliveries came to. The message in the internal queue and the record are one transaction, and so is what goes
 * into another queue: a subscribed one (T9) or a dead-letter queue (T13). A lease that was lost changes nothing. Retries update the record.
 */
import type { Tx } from "../db/db.ts";
import { lockQueues } from "./group.ts";
import { type HotQueue, readQueues } from "./queue-memory.ts";
import { queuesToLock as locksOfSend, type StoredResult, type StoredSend, send } from "./send.ts";
import { type HotSettle, queuesToLock as locksOfSettle, settle } from "./settle.ts";
import { type Tally, writeTally } from "./tally.ts";

/** Why a delivery failed (T12). `status` where there was an answer. */
export interface DeliveryError {
  class: string;
  status?: number;
  message: string;
}

/** The body of the message that stands for a delivery in an internal queue: its number, its notification's, and when it was created. */
export const deliveryBody = (no: number, notificationNo: number, createdAt: number): Uint8Array =>
  new TextEncoder().encode(`${no} ${notificationNo} ${createdAt}`);

/** What a queue is to get; attributes and meta are JSON texts. */
export type Content = Omit<StoredSend, "delayMs">;

/** One attempt that ended, with what leased its message. `deliveryNo` is `null` for a handshake, which has no record. */
export interface DeliverySettle {
  queueNo: number;
  seq: number;
  receipt: number;
  deliveryNo: number | null;
  /** Attempts spent, this one included. */
  attempts: number;
  outcome: "delivered" | "retry" | "failed";
  /** From now until the next attempt, in milliseconds. */
  delayMs: number;
  status: number | null;
  error: DeliveryError | null;
  /** What the subscribed queue gets: `delivered` only if it takes it. */
  content: Content | null;
  /** What the dead-letter queue gets of a failure. */
  deadLetter: Content | null;
}

/** `lost`: the lease was over; `missing` and `full`: the subscribed queue took nothing, and nothing was settled. */
export interface DeliverySettled {
  result: "settled" | "lost" | "missing" | "full";
  /** What became of the dead letter. */
  deadLetter: "stored" | "missing" | "full" | null;
}

const OUTCOMES = { delivered: "ack", retry: "retry", failed: "ack" } as const;
const whyNot = { queue_not_found: "missing", backlog_full: "full", quota_exceeded: "full" } as const;
/** What a send came to, in the words of a record. */
const fate = (result: StoredResult | undefined): "stored" | "missing" | "full" =>
  result === undefined ? "missing" : "refused" in result ? whyNot[result.refused] : "stored";

/** Settles attempts; answers each in order. Every message is named once. */
async function settleDeliveries(tx: Tx, rows: readonly DeliverySettle[]): Promise<DeliverySettled[]> {
  const queues = await readQueues(
    tx,
    rows.flatMap(({ queueNo, content, deadLetter }) => [queueNo, content?.queueNo ?? queueNo, deadLetter?.queueNo ?? queueNo]),
  );
  const settles = rows.map(
    ({ queueNo, seq, receipt, outcome, delayMs, error }): HotSettle => ({
      queueNo,
      seq,
      receipt,
      outcome: OUTCOMES[outcome],
      delayMs,
      ...(error === null ? {} : { error: error.message }),
    }),
  );
  const sends = rows.flatMap(({ content, deadLetter }) => [content, deadLetter].filter((each) => each !== null).map(sendOf));
  lockQueues(tx, [...locksOfSettle(settles, queues), ...locksOfSend(sends, queues)]);
  const tally: Tally = new Map();

  const results = rows.map((): DeliverySettled => ({ result: "settled", deadLetter: null }));
  await putInQueues(tx, rows, queues, tally, results);
  const open = rows.map((_, i) => i).filter((i) => (results[i] as DeliverySettled).result === "settled");
  const settled = await settle(
    tx,
    open.map((i) => settles[i] as HotSettle),
    queues,
    tally,
  );
  for (const [k, i] of open.entries()) {
    const { result } = settled[k] as (typeof settled)[number];
    if (result !== "acked" && result !== "retrying") results[i] = { result: "lost", deadLetter: null };
  }
  await buryFailures(tx, rows, queues, tally, results);
  tx.post("delivery.settle", recordsOf(tx, rows, results));
  writeTally(tx, tally);
  return results;
}

const sendOf = (content: Content): StoredSend => ({ ...content, delayMs: null });

/** Puts notifications into the queues that subscribe them, as far as their leases hold and the queues take them. */
async function putInQueues(
  tx: Tx,
  rows: readonly DeliverySettle[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
  results: DeliverySettled[],
): Promise<void> {
  const putting = rows.map((row, i) => ({ row, i })).filter(({ row }) => row.content !== null);
  if (putting.length === 0) return;
  const seqs = putting.map(({ row }) => row.seq).sort((a, b) => a - b);
  await tx.each(
    "lock.rows",
    seqs.map((seq) => [seq]),
  );
  const held = new Set(
    (
      await tx.each<{ seq: number }>(
        "delivery.held",
        putting.map(({ row }) => [row.seq, row.queueNo, row.receipt]),
      )
    ).map(({ seq }) => seq),
  );
  const going = putting.filter(({ row, i }) => {
    if (!held.has(row.seq)) results[i] = { result: "lost", deadLetter: null };
    return held.has(row.seq);
  });
  const sent = await send(
    tx,
    going.map(({ row }) => sendOf(row.content as Content)),
    queues,
    tally,
  );
  for (const [k, { i }] of going.entries()) {
    const result = fate(sent[k]);
    if (result !== "stored") results[i] = { result, deadLetter: null };
  }
}

/** Stores the envelopes of failures. A queue that does not take one loses it; the record says so. */
async function buryFailures(
  tx: Tx,
  rows: readonly DeliverySettle[],
  queues: ReadonlyMap<number, HotQueue>,
  tally: Tally,
  results: DeliverySettled[],
): Promise<void> {
  const failed = rows.map((row, i) => ({ row, i })).filter(({ row, i }) => row.deadLetter !== null && results[i]?.result === "settled");
  const sent = await send(
    tx,
    failed.map(({ row }) => sendOf(row.deadLetter as Content)),
    queues,
    tally,
  );
  for (const [k, { i }] of failed.entries()) results[i] = { result: "settled", deadLetter: fate(sent[k]) };
}

/** The rows of `delivery.settle`, in the order of their numbers, so that two transactions never wait for each other. */
function recordsOf(tx: Tx, rows: readonly DeliverySettle[], results: readonly DeliverySettled[]): (string | number | null)[][] {
  const records: [number, ...(string | number | null)[]][] = [];
  for (const [i, row] of rows.entries()) {
    const { result, deadLetter } = results[i] as DeliverySettled;
    if (result !== "settled" || row.deliveryNo === null) continue;
    const ended = row.outcome === "retry" ? null : tx.now;
    records.push([
      row.deliveryNo,
      row.outcome === "retry" ? "pending" : row.outcome,
      row.attempts,
      row.outcome === "retry" ? tx.now + row.delayMs : null,
      row.outcome === "delivered" ? tx.now : null,
      ended,
      row.status,
      row.error === null ? null : JSON.stringify(row.error),
      deadLetter,
    ]);
  }
  return records.sort(([a], [b]) => a - b);
}

/** Every cold verb of attempts. */
export const deliveryVerbs = { settleDeliveries };
