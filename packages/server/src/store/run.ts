/**
 * Runs (W3): their beginning and their reading. A run begins with its row and its first wake-up, in one transaction;
 * its id is what makes beginning it twice harmless.
 */
import { type ErrorCode, Fault } from "@millrace/contract";
import type { Tx } from "../db/db.ts";
import { type Begun, beginRun, beginRuns, type NewRun } from "./begin-run.ts";
import { once } from "./once.ts";
import { RUN, type RunRow, runOf, STEP, type StepRow, stepOf } from "./run-rows.ts";
import type { IdempotencyKey } from "./types.ts";
import { carryOut, type Effects, noEffects } from "./wake.ts";

/** A request to begin a run of an app. */
export interface RunRequest {
  appNo: number;
  given: NewRun;
  key: IdempotencyKey | null;
}

/** What came of a request. */
export type RequestedRun = { run: RunRow } | { refused: ErrorCode; message: string };

/** What beginning came to, for who asked for a new run: `app_not_found`, `workflow_not_found` or, when the id is taken, `run_exists`. */
function answerOf(begun: Begun, { workflow, id }: NewRun): RequestedRun {
  if ("refused" in begun) {
    const what = begun.refused === "app_not_found" ? "app" : `workflow ${workflow.slice(0, 100)} in this app`;
    return { refused: begun.refused, message: `there is no ${what}` };
  }
  if (begun.begun === "existing") return { refused: "run_exists", message: `there is a run ${id} already` };
  return { run: begun.run };
}

/** Begins a run under an idempotency key, which is stored with the run and never with a refusal. */
async function requestedOnce(tx: Tx, { appNo, given }: RunRequest, key: IdempotencyKey, effects: Effects): Promise<RequestedRun> {
  try {
    const begin = async (): Promise<RunRow> => {
      const answer = answerOf(await beginRun(tx, appNo, given, effects), given);
      if ("refused" in answer) throw new Fault(answer.refused, answer.message);
      return answer.run;
    };
    return { run: (await once(tx, key, begin)).result };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    await tx.query("DELETE FROM idempotency WHERE scope = :scope AND key = :key AND answer IS NULL", { scope: key.scope, key: key.key });
    return { refused: error.code, message: error.message };
  }
}

/** Every cold verb that begins or reads runs. */
export const runVerbs = {
  /** Begins runs on requests that came at the same time; answers each in order. A refusal concerns its own request alone. */
  async requestRuns(tx: Tx, requests: readonly RunRequest[]): Promise<RequestedRun[]> {
    const effects = noEffects();
    const plain = requests.filter(({ key }) => key === null);
    const begun = (await beginRuns(tx, plain, effects)).values();
    const answers: RequestedRun[] = [];
    for (const request of requests) {
      if (request.key === null) answers.push(answerOf(begun.next().value as Begun, request.given));
      else answers.push(await requestedOnce(tx, request, request.key, effects));
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
