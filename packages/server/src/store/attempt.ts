/**
 * Cold verbs of delivery attempts (P15): the last 100 failed ones of a subscription, and with `recordAttempts` up to 1,000 in all,
 * for 24 hours. Nothing else of a delivery is kept, and no message depends on it.
 */
import type { Tx, Value } from "../db/db.ts";

/** How many failed attempts, and how many of any outcome, are kept of one subscription. */
const FAILED = 100;
const ALL = 1000;
const KEPT_MS = 24 * 3_600_000;

/** One request and what came of it. `agoMs`: how long before the store's now it began. `answer`: at most 1 KiB of text. */
export interface AttemptRow {
  subscriptionId: string;
  queueNo: number;
  deliveryId: string;
  agoMs: number;
  durationMs: number;
  outcome: "delivered" | "failed";
  class: "http" | "timeout" | "connection" | "refused" | "tls" | "message" | "workflow" | null;
  status: number | null;
  message: string | null;
  messageIds: readonly string[];
  answer: string | null;
}

/** An attempt as it was kept; `at` in milliseconds since 1970. */
export type KeptAttempt = Omit<AttemptRow, "subscriptionId" | "queueNo" | "agoMs"> & { at: number };

/** Rows of one INSERT: within the parameters that an engine takes. */
const CHUNK = 100;

/** Every cold verb of attempts. */
export const attemptVerbs = {
  /** Keeps attempts, oldest first, and trims what is over the bounds; those of subscriptions that are gone are passed over. */
  async addAttempts(tx: Tx, rows: readonly AttemptRow[]): Promise<number> {
    const numbers = new Map<string, number>();
    for (const { subscriptionId } of rows) {
      if (numbers.has(subscriptionId)) continue;
      const [found] = await tx.query("SELECT no FROM subscription WHERE id = :id", { id: subscriptionId });
      if (found !== undefined) numbers.set(subscriptionId, Number(found.no));
    }
    const kept = rows.filter((row) => numbers.has(row.subscriptionId));
    if (kept.length === 0) return 0;
    const drawn = await tx.sequence(kept.length);
    for (let from = 0; from < kept.length; from += CHUNK) {
      const params: Record<string, Value> = {};
      const tuples = kept.slice(from, from + CHUNK).map(({ subscriptionId, queueNo: _, agoMs, ...record }, i) => {
        params[`n${i}`] = drawn[from + i] ?? null;
        params[`s${i}`] = numbers.get(subscriptionId) ?? null;
        params[`a${i}`] = tx.now - agoMs;
        params[`o${i}`] = record.outcome;
        params[`r${i}`] = JSON.stringify(record);
        return `(:n${i}, :s${i}, :a${i}, :o${i}, :r${i})`;
      });
      await tx.query(`INSERT INTO attempt (no, subscription_no, at, outcome, record) VALUES ${tuples.join(", ")}`, params);
    }
    for (const subscription of numbers.values()) {
      await tx.query(
        `DELETE FROM attempt WHERE subscription_no = :s AND no <= (SELECT no FROM attempt WHERE subscription_no = :s
           ORDER BY no DESC LIMIT 1 OFFSET ${ALL})`,
        { s: subscription },
      );
      await tx.query(
        `DELETE FROM attempt WHERE subscription_no = :s AND outcome = 'failed' AND no <= (SELECT no FROM attempt
           WHERE subscription_no = :s AND outcome = 'failed' ORDER BY no DESC LIMIT 1 OFFSET ${FAILED})`,
        { s: subscription },
      );
    }
    return kept.length;
  },

  /** The attempts kept of a queue's subscription, newest first, from before number `before` on (`null`: from the newest). */
  async listAttempts(
    tx: Tx,
    ask: { subscriptionId: string; queueNo: number; before: number | null; limit: number },
  ): Promise<{ attempts: KeptAttempt[]; next: number | null }> {
    const found = await tx.query(
      `SELECT a.no AS no, a.at AS at, a.record AS record FROM attempt a WHERE a.subscription_no = (SELECT no FROM subscription WHERE id = :id)
         AND a.at > :since ${ask.before === null ? "" : "AND a.no < :before"} ORDER BY a.no DESC LIMIT :n`,
      { id: ask.subscriptionId, since: tx.now - KEPT_MS, n: ask.limit + 1, ...(ask.before === null ? {} : { before: ask.before }) },
    );
    const page = found.slice(0, ask.limit);
    return {
      attempts: page.map((row) => ({ ...(JSON.parse(String(row.record)) as Omit<KeptAttempt, "at">), at: Number(row.at) })),
      next: found.length > ask.limit ? Number(page.at(-1)?.no) : null,
    };
  },

  /** Removes what is older than 24 hours. */
  async expireAttempts(tx: Tx): Promise<null> {
    await tx.query("DELETE FROM attempt WHERE at <= :until", { until: tx.now - KEPT_MS });
    return null;
  },
};
