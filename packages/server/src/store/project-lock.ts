/** The lock that verbs take which judge a project's queues together: links of dead letters, ends of queues, what hangs on a queue. */
import type { Tx } from "../db/db.ts";

/** Locks a project until the transaction ends. The counters come before it in every verb that locks both. */
export async function lockProject(tx: Tx, projectNo: number): Promise<void> {
  await tx.query("UPDATE project SET created_at = created_at WHERE no = :projectNo", { projectNo });
}
