/**
 * Starts by messages (W12): the run is made, or found by the id that the message gives it, and the message is acknowledged, in one
 * transaction. So a message starts one run, however often it is delivered, and is gone with it.
 */
import type { Tx } from "../db/db.ts";
import { beginRuns } from "./begin-run.ts";
import { isElsewhere } from "./elsewhere.ts";
import { demandSettled, type Held, heldOf } from "./held.ts";
import { carryOut, noEffects } from "./wake.ts";

/** A leased message that starts a run. `runId` is made of the message's ids, `input` is JSON bytes. */
export interface StartRow extends Held {
  projectNo: number;
  appId: string;
  workflow: string;
  runId: string;
  input: Uint8Array;
  source: { kind: "message"; queueId: string; messageId: string };
}

/**
 * `started` and `existing` messages are acknowledged, unless their queue is on another database; those refused are left to the caller;
 * `stale`: the lease is over.
 */
export type StartOutcome = "started" | "existing" | "app_not_found" | "workflow_not_found" | "stale";

/** The numbers of apps by project and id; those that don't exist are missing. */
export async function appNos(tx: Tx, rows: readonly { projectNo: number; appId: string }[]): Promise<Map<string, number>> {
  const nos = new Map<string, number>();
  for (const { projectNo, appId } of rows) {
    const key = `${projectNo} ${appId}`;
    if (nos.has(key)) continue;
    const [app] = await tx.query("SELECT no FROM app WHERE id = :appId AND project_no = :projectNo", { appId, projectNo });
    if (app !== undefined) nos.set(key, Number(app.no));
  }
  return nos;
}

/** Starts runs; answers each row in order. Throws `receipt_mismatch` when a lease ended meanwhile: then nothing was done. */
async function startRuns(tx: Tx, rows: readonly StartRow[]): Promise<StartOutcome[]> {
  const held = await heldOf(tx, rows);
  const apps = await appNos(tx, rows);
  const effects = noEffects();
  const appOf = ({ projectNo, appId }: StartRow) => apps.get(`${projectNo} ${appId}`);
  const begins = rows.filter((row) => held.has(row.seq) && appOf(row) !== undefined);
  const asked = begins.map((row) => {
    const { runId: id, workflow, input, source } = row;
    return { appNo: appOf(row) as number, given: { id, workflow, input, source } };
  });
  const begun = new Map((await beginRuns(tx, asked, effects)).map((one, i) => [begins[i], one]));
  const outcomes = rows.map((row): StartOutcome => {
    if (!held.has(row.seq)) return "stale";
    const one = begun.get(row);
    if (one === undefined) return "app_not_found";
    if ("refused" in one) return one.refused;
    const { queueNo, seq, receipt } = row;
    if (!isElsewhere(queueNo)) effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
    return one.begun === "new" ? "started" : "existing";
  });
  const { settled } = await carryOut(tx, effects);
  demandSettled(settled);
  return outcomes;
}

/** Cold verbs: starts by messages. */
export const startVerbs = { startRuns };
