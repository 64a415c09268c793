/**
 * The beginning of runs (W3): a run's row and its first wake-up, in one transaction, however many begin at once. A run's id is what makes
 * beginning it twice harmless. Part of a verb: of a start by the API, by a message or by another run.
 */
import { Fault } from "@millrace/contract";
import type { Tx, Value } from "../db/db.ts";
import { inList } from "./in-list.ts";
import { remembered } from "./remembered.ts";
import { RUN, type RunRow, type RunSource, runOf } from "./run-rows.ts";
import { type Effects, wakeQueueOf, wakeUp } from "./wake.ts";
import { getWorkflow } from "./workflow.ts";

/** How long a run may take unless its workflow says otherwise: 30 days. */
const RUN_TIMEOUT_MS = 30 * 86_400_000;

/** A run to begin; `id` a UUID in lower case, `input` JSON bytes. */
export interface NewRun {
  id: string;
  workflow: string;
  input: Uint8Array | null;
  source: RunSource;
  parent?: { no: number; stepId: string };
  /** `null`: what the workflow says, else 30 days. */
  timeoutMs?: number | null;
}

/** What beginning a run came to: `existing` ones are found by their id, whatever app they belong to. */
export type Begun = { begun: "new" | "existing"; run: RunRow } | { refused: "app_not_found" | "workflow_not_found" };

/** What a new run is made of, once its app and its workflow were found. */
interface Beginning {
  row: RunRow;
  queueNo: number;
  input: Uint8Array | null;
}

/** Begins runs of apps, or finds those that have their ids; answers in order and adds the wake-ups to `effects`. */
export async function beginRuns(tx: Tx, asked: readonly { appNo: number; given: NewRun }[], effects: Effects): Promise<Begun[]> {
  if (asked.length === 0) return [];
  const nos = await tx.sequence(asked.length);
  const begins = new Map<number, Beginning>();
  const refused = new Map<number, Begun>();
  for (const [i, { appNo, given }] of asked.entries()) {
    const queueNo = await wakeQueueOf(tx, appNo, effects);
    const workflow =
      queueNo === null
        ? null
        : await remembered(effects.memory, `workflow ${appNo} ${given.workflow}`, () => getWorkflow(tx, appNo, given.workflow));
    if (queueNo === null) refused.set(i, { refused: "app_not_found" });
    else if (workflow === null) refused.set(i, { refused: "workflow_not_found" });
    else {
      const timeoutMs = given.timeoutMs ?? workflow.timeoutMs ?? RUN_TIMEOUT_MS;
      begins.set(nos[i] as number, { row: newRow(tx, nos[i] as number, appNo, given, timeoutMs), queueNo, input: given.input });
    }
  }
  // In one order everywhere: two that begin the same runs must not wait for each other in a circle.
  const rows = [...begins.values()].sort((a, b) => (a.row.id < b.row.id ? -1 : 1)).map(insertOf);
  const made = new Set((await tx.each<{ no: number }>("run.insert", rows)).map(({ no }) => no));
  const others = asked.flatMap(({ given }, i) => (made.has(nos[i] as number) || isGone(refused.get(i)) ? [] : [given.id]));
  const existing = await runsById(tx, others);

  return asked.map(({ given }, i): Begun => {
    const begin = begins.get(nos[i] as number);
    if (begin !== undefined && made.has(begin.row.no)) {
      effects.sends.push(wakeUp(begin.queueNo, given.id, "started"));
      return { begun: "new", run: begin.row };
    }
    const why = refused.get(i);
    const run = isGone(why) ? undefined : existing.get(given.id);
    if (run !== undefined) return { begun: "existing", run };
    if (why !== undefined) return why;
    // Deleted between the two statements: its history had ended, so the message is a new one.
    throw new Fault("unavailable", "The run was removed meanwhile; try again.", { retryAfterSeconds: 1 });
  });
}

/** As `beginRuns`, of one. */
export async function beginRun(tx: Tx, appNo: number, given: NewRun, effects: Effects): Promise<Begun> {
  const [begun] = await beginRuns(tx, [{ appNo, given }], effects);
  return begun as Begun;
}

/** Whether an app is no more: its runs are not looked for. */
const isGone = (why: Begun | undefined): boolean => why !== undefined && "refused" in why && why.refused === "app_not_found";

async function runsById(tx: Tx, ids: readonly string[]): Promise<Map<string, RunRow>> {
  if (ids.length === 0) return new Map();
  const list = inList("id", [...new Set(ids)]);
  const rows = await tx.query(`SELECT ${RUN} FROM run WHERE id IN (${list.text})`, list.params);
  return new Map(rows.map(runOf).map((run) => [run.id, run]));
}

function newRow(tx: Tx, no: number, appNo: number, given: NewRun, timeoutMs: number): RunRow {
  const { id, workflow, source, parent = null } = given;
  return {
    no,
    id,
    appNo,
    workflow,
    status: "queued",
    reason: null,
    attempt: 1,
    executions: 0,
    steps: 0,
    journalBytes: 0,
    source,
    parent,
    cancelAt: null,
    timeoutMs,
    timeoutAt: tx.now + timeoutMs,
    createdAt: tx.now,
    startedAt: null,
    endedAt: null,
    error: null,
  };
}

/** A new run as a row of `run.insert`. */
function insertOf({ row, input }: Beginning): Value[] {
  const { no, id, appNo, workflow, source, parent, timeoutMs, timeoutAt } = row;
  const start = [no, id, appNo, workflow, JSON.stringify(source), parent?.no ?? null, parent?.stepId ?? null, timeoutMs, timeoutAt];
  return [...start, Number(input !== null), input ?? new Uint8Array()];
}
