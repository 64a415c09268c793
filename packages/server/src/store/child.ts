/**
 * Runs that a run starts (`startRun`): begun in the transaction that records the step. The child's id follows from the run, its attempt
 * and the step, so that nothing begins twice.
 */
import type { StepRecord } from "@millrace/contract/wire";
import type { Tx } from "../db/db.ts";
import { findApp } from "./app.ts";
import { beginRun } from "./begin-run.ts";
import { derivedId } from "./derived-id.ts";
import type { RunRow } from "./run-rows.ts";
import { bytesOf } from "./step-change.ts";
import type { Effects } from "./wake.ts";

type ChildRecord = Extract<StepRecord, { type: "child" }>;
type ChildError = { code: "app_not_found" | "workflow_not_found" | "run_exists"; message: string };

/** Begins the run of a `child` step; an error is the step's own. */
export async function startChild(
  tx: Tx,
  { run, projectNo }: { run: RunRow; projectNo: number },
  record: ChildRecord,
  effects: Effects,
): Promise<{ runId: string } | { error: ChildError }> {
  let appNo = run.appNo;
  if (record.appId !== undefined) {
    const app = await findApp(tx, projectNo, record.appId);
    if (app === null) return { error: { code: "app_not_found", message: `the project has no app ${record.appId}` } };
    appNo = app.no;
  }
  const begun = await beginRun(
    tx,
    appNo,
    {
      id: record.runId ?? derivedId(`${run.id}:${run.attempt}:${record.id}`),
      workflow: record.workflow,
      input: bytesOf(record.input),
      source: { kind: "run", runId: run.id, stepId: record.id },
      ...(record.wait ? { parent: { no: run.no, stepId: record.id } } : {}),
    },
    effects,
  );
  if ("refused" in begun) {
    const what = begun.refused === "app_not_found" ? "app" : `workflow ${record.workflow} in the app`;
    return { error: { code: begun.refused, message: `there is no ${what}` } };
  }
  const { source, id } = begun.run;
  const ours = begun.begun === "new" || (source.kind === "run" && source.runId === run.id && source.stepId === record.id);
  return ours ? { runId: id } : { error: { code: "run_exists", message: `there is a run ${id} already` } };
}
