/**
 * Cold verbs of workflows (W2): what an app's executors announced. A sync says all that a push app has; the workers of a pull app each
 * say what they have, and together they have all of it. Another build wakes what was blocked on the one before (W8).
 */
import type { Row, Tx } from "../db/db.ts";
import { lockRun, RUN, runOf } from "./run-rows.ts";
import { carryOut, freePlace, noEffects, wakeUp } from "./wake.ts";

/** A workflow as announced. Durations in milliseconds, `null` where the executor did not say. */
export interface WorkflowSettings {
  name: string;
  timeoutMs: number | null;
  concurrency: number | null;
}
export type WorkflowRow = WorkflowSettings & { announcedAt: number };

/** What an executor said of itself and of its workflows. */
export interface Announcement {
  protocol: string;
  buildId: string;
  workflows: WorkflowSettings[];
  /** Whether these are all there are: true of a sync, false of a poll. */
  all: boolean;
}

/** How many blocked runs are woken in one transaction. */
const WOKEN_AT_ONCE = 500;

function workflowOf(row: Row): WorkflowRow {
  const settings = JSON.parse(String(row.settings)) as Omit<WorkflowSettings, "name">;
  return { name: String(row.name), ...settings, announcedAt: Number(row.announced_at) };
}

/** A workflow of an app; `null` when none of its executors has announced it. */
export async function getWorkflow(tx: Tx, appNo: number, name: string): Promise<WorkflowRow | null> {
  const [row] = await tx.query("SELECT name, settings, announced_at FROM workflow WHERE app_no = :appNo AND name = :name", { appNo, name });
  return row === undefined ? null : workflowOf(row);
}

/** Every cold verb of workflows. */
export const workflowVerbs = {
  getWorkflow,

  /** Up to `limit` workflows of an app whose names come after `after`, by name. */
  async listWorkflows(tx: Tx, appNo: number, after: string | null, limit: number): Promise<WorkflowRow[]> {
    const rows = await tx.query(
      `SELECT name, settings, announced_at FROM workflow WHERE app_no = :appNo${after === null ? "" : " AND name > :after"}
       ORDER BY name LIMIT :limit`,
      { appNo, limit, ...(after === null ? {} : { after }) },
    );
    return rows.map(workflowOf);
  },

  /** Stores an announcement; answers whether the build is another than before: then `wakeBlocked` is due. `null`: the app is gone. */
  async announce(tx: Tx, appNo: number, given: Announcement): Promise<{ otherBuild: boolean } | null> {
    const [app] = await tx.query("UPDATE app SET no = no WHERE no = :appNo RETURNING build_id", { appNo });
    if (app === undefined) return null;
    await tx.query("UPDATE app SET protocol = :protocol, build_id = :buildId, synced_at = :now, sync_error = NULL WHERE no = :appNo", {
      appNo,
      protocol: given.protocol,
      buildId: given.buildId,
      now: tx.now,
    });
    const known = await tx.query("SELECT name FROM workflow WHERE app_no = :appNo", { appNo });
    const names = new Set(given.workflows.map(({ name }) => name));
    if (given.all)
      for (const { name } of known)
        if (!names.has(String(name)))
          await tx.query("DELETE FROM workflow WHERE app_no = :appNo AND name = :name", { appNo, name: String(name) });
    for (const { name, ...settings } of given.workflows)
      await tx.query(
        `INSERT INTO workflow (app_no, name, settings, announced_at) VALUES (:appNo, :name, :settings, :now)
         ON CONFLICT (app_no, name) DO UPDATE SET settings = excluded.settings, announced_at = excluded.announced_at`,
        { appNo, name, settings: JSON.stringify(settings), now: tx.now },
      );
    // A limit may have been raised.
    const effects = noEffects();
    const parked = await tx.query("SELECT DISTINCT workflow FROM run WHERE app_no = :appNo AND parked = 1", { appNo });
    for (const { workflow } of parked) freePlace(effects, { appNo, workflow: String(workflow) });
    await carryOut(tx, effects);
    return { otherBuild: app.build_id !== given.buildId };
  },

  /** Stores why a sync failed; what was announced before stays. */
  async saveSyncError(tx: Tx, appNo: number, error: string): Promise<null> {
    await tx.query("UPDATE app SET sync_error = :error WHERE no = :appNo", { appNo, error });
    return null;
  },

  /** Wakes runs of an app that are blocked; answers whether there may be more. */
  async wakeBlocked(tx: Tx, appNo: number): Promise<boolean> {
    const [app] = await tx.query("SELECT queue_no FROM app WHERE no = :appNo", { appNo });
    if (app === undefined) return false;
    const found = await tx.query(`SELECT ${RUN} FROM run WHERE app_no = :appNo AND reason IS NOT NULL ORDER BY no LIMIT :limit`, {
      appNo,
      limit: WOKEN_AT_ONCE,
    });
    const effects = noEffects();
    for (const { no } of found.map(runOf)) {
      const run = await lockRun(tx, no);
      if (run === null || run.reason === null) continue;
      await tx.query("UPDATE run SET reason = NULL, status = 'queued' WHERE no = :no", { no });
      effects.sends.push(wakeUp(Number(app.queue_no), run.id, "synced"));
    }
    await carryOut(tx, effects);
    return found.length === WOKEN_AT_ONCE;
  },
};
