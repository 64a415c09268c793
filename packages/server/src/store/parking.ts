/**
 * How many executions of one workflow are under way at once (W18), where it sets a limit. A run that finds no place is parked: its wake-up is
 * taken back, and it waits without cost until an execution of the workflow is over, which wakes as many as there are places. Both look
 * under the workflow's lock, so that nobody is parked unseen.
 */
import type { Tx } from "../db/db.ts";
import { inList } from "./in-list.ts";
import { type Remembered, remembered } from "./remembered.ts";
import type { RunRow } from "./run-rows.ts";

/** A workflow of an app. */
export interface WorkflowKey {
  appNo: number;
  workflow: string;
}

/** Wakes so many at most in one transaction. */
const WOKEN_AT_ONCE = 200;

const nameOf = ({ appNo, workflow }: WorkflowKey): string => `${appNo} ${workflow}`;

/** How many executions of a workflow may be under way, `null` for any number. */
function limitOf(tx: Tx, { appNo, workflow }: WorkflowKey, memory: Remembered): Promise<number | null> {
  return remembered(memory, `limit of ${nameOf({ appNo, workflow })}`, async () => {
    const [row] = await tx.query("SELECT settings FROM workflow WHERE app_no = :appNo AND name = :workflow", { appNo, workflow });
    return row === undefined ? null : (JSON.parse(String(row.settings)) as { concurrency: number | null }).concurrency;
  });
}

/**
 * Locks those of these workflows that set a limit until the transaction ends: all that it will ask about, at once and after the runs, for
 * two transactions that lock them one by one would wait for each other in a circle.
 */
export async function lockWorkflows(tx: Tx, keys: Iterable<WorkflowKey>, memory: Remembered): Promise<void> {
  const limited = new Map<string, [number, string]>();
  for (const key of keys) if ((await limitOf(tx, key, memory)) !== null) limited.set(nameOf(key), [key.appNo, key.workflow]);
  tx.post("lock.workflows", [...limited.values()]);
}

/** The executions of a workflow that are under way, the workflow being locked. */
async function underWay(tx: Tx, { appNo, workflow }: WorkflowKey): Promise<number> {
  const [row] = await tx.query(
    "SELECT count(*) AS n FROM run WHERE app_no = :appNo AND status = 'running' AND status <> 'completed' AND workflow = :workflow",
    { appNo, workflow },
  );
  return Number(row?.n ?? 0);
}

/** The places of one transaction's workflows that are left. */
export type Places = Map<string, number>;

/** Takes a place for an execution of a locked run of a locked workflow, or parks the run: answers whether it got one. */
export async function takePlace(tx: Tx, run: RunRow, places: Places, memory: Remembered): Promise<boolean> {
  const limit = await limitOf(tx, run, memory);
  if (limit === null) return true;
  const name = nameOf(run);
  const left = places.get(name) ?? limit - (await underWay(tx, run));
  places.set(name, left - 1);
  if (left > 0) return true;
  places.set(name, left);
  await tx.query("UPDATE run SET parked = 1, status = 'queued' WHERE no = :no", { no: run.no });
  return false;
}

/** Unparks the runs of workflows that have places; answers their ids with their apps, to be woken. */
export async function unpark(tx: Tx, over: readonly WorkflowKey[], memory: Remembered): Promise<{ appNo: number; id: string }[]> {
  await lockWorkflows(tx, over, memory);
  const woken: { appNo: number; id: string }[] = [];
  for (const key of over) {
    const limit = await limitOf(tx, key, memory);
    const places = limit === null ? WOKEN_AT_ONCE : Math.min(limit - (await underWay(tx, key)), WOKEN_AT_ONCE);
    if (places <= 0) continue;
    const parked = await tx.query<{ no: number }>(
      "SELECT no FROM run WHERE app_no = :appNo AND workflow = :workflow AND parked = 1 ORDER BY no LIMIT :places",
      { appNo: key.appNo, workflow: key.workflow, places },
    );
    if (parked.length === 0) continue;
    const list = inList(
      "no",
      parked.map(({ no }) => no),
    );
    for (const { id } of await tx.query<{ id: string }>(
      `UPDATE run SET parked = 0 WHERE no IN (${list.text}) AND parked = 1 AND ended_at IS NULL RETURNING id`,
      list.params,
    ))
      woken.push({ appNo: key.appNo, id });
  }
  return woken;
}
