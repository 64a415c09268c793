/**
 * Starts by messages (W12): the run is made, or found by the id that the message gives it, and the message is acknowledged, in one
 * transaction. So a message starts one run, however often it is delivered, and is gone with it.
 */
import type { Tx } from "../db/db.ts";
import { demandSettled, type Held, heldOf } from "./held.ts";
import { beginRun } from "./run.ts";
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

/** `started` and `existing` messages are acknowledged; those refused are left to the caller; `stale`: the lease is over. */
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
  const outcomes: StartOutcome[] = [];
  const nos = await tx.sequence(rows.length);
  for (const [i, { projectNo, appId, queueNo, seq, receipt, runId, workflow, input, source }] of rows.entries()) {
    const appNo = apps.get(`${projectNo} ${appId}`);
    if (!held.has(seq)) outcomes.push("stale");
    else if (appNo === undefined) outcomes.push("app_not_found");
    else {
      const begun = await beginRun(tx, appNo, { id: runId, workflow, input, source, no: nos[i] as number }, effects);
      if ("refused" in begun) outcomes.push(begun.refused);
      else {
        outcomes.push(begun.begun === "new" ? "started" : "existing");
        effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
      }
    }
  }
  const { settled } = await carryOut(tx, effects);
  demandSettled(settled);
  return outcomes;
}

/** Cold verbs: starts by messages. */
export const startVerbs = { startRuns };
