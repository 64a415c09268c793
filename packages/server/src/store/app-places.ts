/**
 * How many runs of a pull app are executed at once (W1). A push app's lane sees to that itself; the workers of a pull app ask wherever they
 * like, so it is counted here, under a lock that those who begin executions of one app take first of all: so the bound is exact.
 */
import type { Tx } from "../db/db.ts";
import { inList } from "./in-list.ts";

/** How many executions of the apps with these queues of wake-ups may begin, by queue. Locked until the transaction ends. */
export async function holdAppPlaces(tx: Tx, queueNos: Iterable<number>): Promise<Map<number, number>> {
  const nos = [...new Set(queueNos)];
  if (nos.length === 0) return new Map();
  tx.post(
    "lock.appPlaces",
    nos.map((no) => [no]),
  );
  const list = inList("no", nos);
  const rows = await tx.query(
    `SELECT a.queue_no AS queue_no, a.max_concurrency AS most,
       (SELECT count(*) FROM run r WHERE r.app_no = a.no AND r.status = 'running' AND r.status <> 'completed') AS open
     FROM app a WHERE a.queue_no IN (${list.text})`,
    list.params,
  );
  return new Map(rows.map((row) => [Number(row.queue_no), Number(row.most) - Number(row.open)]));
}
