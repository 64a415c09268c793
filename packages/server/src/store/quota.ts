/**
 * Quotas (W16): how many messages the clients of a project may send a day. Whoever sends for clients locks the row of the project, so that
 * the count is exact over transactions and nodes; a project without a quota has no row and costs nothing. What the server sends by itself
 * (occurrences of schedules, copies of notifications, run results, moves) neither counts nor is refused.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { DEFAULT_DATABASE } from "./database-numbers.ts";
import { lockCounter } from "./identity.ts";
import { dayOf } from "./quota-rules.ts";

/** A project's quota, and what of it is used today. */
export interface Quota {
  maxPerDay: number;
  sentToday: number;
}

interface QuotaRow {
  project_no: number;
  max_per_day: number;
  day: number;
  sent: number;
}

/** What is left today to those of the projects that have a quota. Locks it until the transaction ends; before any queue is locked. */
export async function holdQuotas(tx: Tx, projectNos: Iterable<number | null>): Promise<Map<number, number>> {
  const nos = [...new Set(projectNos)].filter((no) => no !== null).sort((a, b) => a - b);
  const left = new Map<number, number>();
  if (nos.length === 0) return left;
  const rows = nos.map((no) => [no]);
  tx.post("lock.quotas", rows);
  for (const { project_no: no, max_per_day: max, day, sent } of await tx.each<QuotaRow>("quota.read", rows))
    left.set(no, Math.max(0, max - (day === dayOf(tx.now) ? sent : 0)));
  return left;
}

/** Counts what clients sent: the project of each message, whose quota is held. */
export function countSent(tx: Tx, projectNos: readonly (number | null)[]): void {
  const sent = new Map<number, number>();
  for (const no of projectNos) if (no !== null) sent.set(no, (sent.get(no) ?? 0) + 1);
  tx.post(
    "quota.add",
    [...sent].map(([no, added]) => [no, dayOf(tx.now), added]),
  );
}

/** Cold verbs: quotas. */
export const quotaVerbs = {
  /**
   * Gives a project a quota or takes it away (`null`); another number leaves what was sent today counted. A project
   * with queues on other databases can have none. Throws `project_not_found`, `invalid_request`.
   */
  async setQuota(tx: Tx, projectNo: number, maxPerDay: number | null): Promise<void> {
    // As the placing of a queue does: of the two at once, one sees the other.
    await lockCounter(tx);
    const [project] = await tx.query("SELECT no FROM project WHERE no = :projectNo", { projectNo });
    if (project === undefined) throw new Fault("project_not_found", "the project was deleted");
    const [placed] = await tx.query(
      "SELECT q.name AS queue, d.name AS name FROM placed_queue q JOIN placed_database d ON d.no = q.database_no WHERE q.project_no = :projectNo LIMIT 1",
      { projectNo },
    );
    if (maxPerDay !== null && placed !== undefined)
      throw invalid(
        "maxMessagesPerDay",
        `null: quotas are counted on the database ${DEFAULT_DATABASE}`,
        `${placed.queue} is on ${placed.name}`,
      );
    if (maxPerDay === null) await tx.query("DELETE FROM quota WHERE project_no = :projectNo", { projectNo });
    else
      await tx.query(
        `INSERT INTO quota (project_no, max_per_day, day, sent) VALUES (:projectNo, :maxPerDay, :day, 0)
         ON CONFLICT (project_no) DO UPDATE SET max_per_day = excluded.max_per_day`,
        { projectNo, maxPerDay, day: dayOf(tx.now) },
      );
    // Which queues count against a quota is remembered with them.
    await tx.forget();
  },

  /** The quotas of those of the projects that have one, by project. */
  async quotasOf(tx: Tx, projectNos: readonly number[]): Promise<(Quota & { projectNo: number })[]> {
    const rows = await tx.each<QuotaRow>(
      "quota.read",
      projectNos.map((no) => [no]),
    );
    return rows.map(({ project_no: projectNo, max_per_day: maxPerDay, day, sent }) => ({
      projectNo,
      maxPerDay,
      sentToday: day === dayOf(tx.now) ? sent : 0,
    }));
  },
};
