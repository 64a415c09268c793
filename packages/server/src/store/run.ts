/**
 * Runs (W3): their beginning and their reading. A run begins with its row and its first wake-up, in one transaction;
 * its id is what makes beginning it twice harmless.
 */
import { type ErrorCode, Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { once } from "./once.ts";
import { remembered } from "./remembered.ts";
import { RUN, type RunRow, type RunSource, runOf, STEP, type StepRow, stepOf } from "./run-rows.ts";
import type { IdempotencyKey } from "./types.ts";
import { carryOut, type Effects, noEffects, wakeQueueOf, wakeUp } from "./wake.ts";
import { getWorkflow } from "./workflow.ts";

/** How long a run may take unless its workflow says otherwise: 30 days. */
export const RUN_TIMEOUT_MS = 30 * 86_400_000;

/** A run to begin; `id` a UUID in lower case, `input` JSON bytes. */
export interface NewRun {
  id: string;
  workflow: string;
  input: Uint8Array | null;
  source: RunSource;
  parent?: { no: number; stepId: string };
  /** `null`: what the workflow says, else 30 days. */
  timeoutMs?: number | null;
  /** A number that was drawn for it, where several begin at once. */
  no?: number;
}

/** What beginning a run came to: `existing` ones are found by their id, whatever app they belong to. */
export type Begun = { begun: "new" | "existing"; run: RunRow } | { refused: "app_not_found" | "workflow_not_found" };

/**
 * Begins a run of an app, or finds the one that has its id; adds the wake-up to `effects`. Part of a verb: of a start by the API, by a
 * message or by another run.
 */
export async function beginRun(tx: Tx, appNo: number, given: NewRun, effects: Effects): Promise<Begun> {
  const queueNo = await wakeQueueOf(tx, appNo, effects);
  if (queueNo === null) return { refused: "app_not_found" };
  const workflow = await remembered(effects.memory, `workflow ${appNo} ${given.workflow}`, () => getWorkflow(tx, appNo, given.workflow));
  const found = async (): Promise<RunRow | null> => {
    const [row] = await tx.query(`SELECT ${RUN} FROM run WHERE id = :id`, { id: given.id });
    return row === undefined ? null : runOf(row);
  };
  if (workflow === null) {
    const existing = await found();
    return existing === null ? { refused: "workflow_not_found" } : { begun: "existing", run: existing };
  }
  const timeoutMs = given.timeoutMs ?? workflow.timeoutMs ?? RUN_TIMEOUT_MS;
  const no = given.no ?? (await tx.sequence(1))[0];
  const [row] = await tx.query(
    `INSERT INTO run (no, id, app_no, workflow, status, attempt, executions, steps, journal_bytes, source, parent_no, parent_step,
       timeout_ms, timeout_at, created_at, input)
     VALUES (:no, :id, :appNo, :workflow, 'queued', 1, 0, 0, 0, :source, :parentNo, :parentStep, :timeoutMs, :timeoutAt, :now, :input)
     ON CONFLICT (id) DO NOTHING RETURNING ${RUN}`,
    {
      no: no as number,
      id: given.id,
      appNo,
      workflow: given.workflow,
      source: JSON.stringify(given.source),
      parentNo: given.parent?.no ?? null,
      parentStep: given.parent?.stepId ?? null,
      timeoutMs,
      timeoutAt: tx.now + timeoutMs,
      now: tx.now,
      input: given.input,
    },
  );
  if (row !== undefined) {
    effects.sends.push(wakeUp(queueNo, given.id, "started"));
    return { begun: "new", run: runOf(row) };
  }
  const existing = await found();
  // Deleted between the two statements: its history had ended, so the message is a new one.
  if (existing === null) throw new Fault("unavailable", "The run was removed meanwhile; try again.", { retryAfterSeconds: 1 });
  return { begun: "existing", run: existing };
}

/** A request to begin a run of an app. */
export interface RunRequest {
  appNo: number;
  given: NewRun;
  key: IdempotencyKey | null;
}

/** What came of a request. */
export type RequestedRun = { run: RunRow } | { refused: ErrorCode; message: string };

/** Begins a run on somebody's request. Throws `app_not_found`, `workflow_not_found` and, when the id is taken, `run_exists`. */
async function begunRun(tx: Tx, appNo: number, given: NewRun, effects: Effects): Promise<RunRow> {
  const begun = await beginRun(tx, appNo, given, effects);
  if ("refused" in begun) {
    const what = begun.refused === "app_not_found" ? "app" : `workflow ${given.workflow.slice(0, 100)} in this app`;
    throw new Fault(begun.refused, `there is no ${what}`);
  }
  if (begun.begun === "existing") throw new Fault("run_exists", `there is a run ${given.id} already`);
  return begun.run;
}

/** Every cold verb that begins or reads runs. */
export const runVerbs = {
  /**
   * Begins runs on requests that came at the same time; answers each in order. A refusal concerns its own request alone; an idempotency
   * key is stored with the run that it began, and never with a refusal.
   */
  async requestRuns(tx: Tx, requests: readonly RunRequest[]): Promise<RequestedRun[]> {
    const effects = noEffects();
    const answers: RequestedRun[] = [];
    const nos = await tx.sequence(requests.length);
    for (const [i, { appNo, given, key }] of requests.entries()) {
      try {
        const begin = () => begunRun(tx, appNo, { ...given, no: nos[i] as number }, effects);
        answers.push({ run: key === null ? await begin() : (await once(tx, key, begin)).result });
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        const { code, message } = error;
        answers.push({ refused: code, message });
        if (key !== null)
          await tx.query("DELETE FROM idempotency WHERE scope = :scope AND key = :key AND answer IS NULL", {
            scope: key.scope,
            key: key.key,
          });
      }
    }
    await carryOut(tx, effects);
    return answers;
  },

  /** A run of an app by its id; `null` when there is none. */
  async getRun(tx: Tx, appNo: number, id: string): Promise<RunRow | null> {
    const [row] = await tx.query(`SELECT ${RUN} FROM run WHERE id = :id AND app_no = :appNo`, { id, appNo });
    return row === undefined ? null : runOf(row);
  },

  /** The input or output of a run, as JSON bytes; `null` when it has none, or there is no such run. */
  async getPayload(tx: Tx, runNo: number, which: "input" | "output"): Promise<Uint8Array | null> {
    const [row] = await tx.query<{ payload: Uint8Array | null }>(`SELECT ${which} AS payload FROM run WHERE no = :runNo`, { runNo });
    return row?.payload ?? null;
  },

  /** A page of a run's steps in the order of their first record, after position `after`. Without `results` these are left unread. */
  async listSteps(
    tx: Tx,
    runNo: number,
    page: { after: number | null; limit: number; results: boolean },
  ): Promise<{ steps: StepRow[]; next: number | null }> {
    const columns = page.results ? STEP : STEP.replace(/, result$/, "");
    const rows = await tx.query(`SELECT ${columns} FROM step WHERE run_no = :runNo AND position > :after ORDER BY position LIMIT :limit`, {
      runNo,
      after: page.after ?? -1,
      limit: page.limit + 1,
    });
    const steps = rows.slice(0, page.limit).map(stepOf);
    return { steps, next: rows.length > page.limit ? (steps.at(-1)?.position ?? null) : null };
  },
};
