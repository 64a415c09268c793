/**
 * Messages on one database that act on another (A14, W12, W14): there the effect is a transaction of its own, which a second delivery of the
 * message finds done, and the message is settled on its own database afterwards. Where both are one, one transaction does both.
 */
import { databaseOf } from "./database-numbers.ts";
import type { Databases } from "./databases.ts";
import type { Held } from "./held.ts";
import type { SettleRow } from "./types.ts";

/** Whether a queue is on another database than the default one, where runs are: its messages are settled apart from what they do. */
export const isElsewhere = (queueNo: number): boolean => databaseOf(queueNo) !== 0;

/** Settles the rows that are elsewhere as `ended` says of their outcomes; `stale` are those whose lease was over by then. */
export async function settleElsewhere<Row extends Held, Outcome extends string>(
  { of }: Databases,
  rows: readonly Row[],
  outcomes: readonly Outcome[],
  ended: (outcome: Outcome, row: Row) => Pick<SettleRow, "outcome" | "delayMs"> | null,
): Promise<(Outcome | "stale")[]> {
  return Promise.all(
    outcomes.map(async (outcome, i): Promise<Outcome | "stale"> => {
      const row = rows[i] as Row;
      const end = isElsewhere(row.queueNo) ? ended(outcome, row) : null;
      if (end === null) return outcome;
      const { queueNo, seq, receipt } = row;
      const [settled] = await of(queueNo).store.settle([{ queueNo, seq, receipt, ...end }]);
      return settled?.result === "stale" || settled?.result === "gone" ? "stale" : outcome;
    }),
  );
}
