/**
 * The rows of workflows as verbs take and answer them: an app, a run, a step of its journal. Times are milliseconds since 1970.
 * Payloads are the bytes of JSON texts, stored as they came: whoever shows them says that they are JSON.
 */
import type { RunError, StepStatus, StepType } from "@millrace/contract/wire";
import type { Row, Tx, Value } from "../db/db.ts";

/** What ends a run. */
export type EndStatus = "completed" | "failed" | "cancelled" | "timedOut";
/** W3. `queued` and `waiting` runs are woken by messages of their app's queue; `running` ones are being executed. */
export type RunStatus = "queued" | "running" | "waiting" | EndStatus;

/** What started a run. */
export type RunSource =
  | { kind: "api" }
  | { kind: "message"; queueId: string; messageId: string }
  | { kind: "run"; runId: string; stepId: string };

export interface RunRow {
  no: number;
  id: string;
  appNo: number;
  workflow: string;
  status: RunStatus;
  /** Why a `waiting` run waits for another build or for somebody (an executor's `blocked`); else `null`. */
  reason: RunError | null;
  /** Begins at 1; a retry of an ended run adds one. */
  attempt: number;
  /** How often the function was begun, over all attempts. */
  executions: number;
  /** What counts against the limits of W3. */
  steps: number;
  journalBytes: number;
  source: RunSource;
  /** The step of another run that waits for this one's end. */
  parent: { no: number; stepId: string } | null;
  /** When the cancellation was asked for; cleared by a retry. */
  cancelAt: number | null;
  timeoutMs: number;
  timeoutAt: number;
  createdAt: number;
  startedAt: number | null;
  endedAt: number | null;
  error: RunError | null;
}

export interface StepRow {
  runNo: number;
  /** The step's name, with `#n` for repeats. */
  id: string;
  /** The order in which steps were recorded first, from 0. */
  position: number;
  type: StepType;
  status: StepStatus;
  /** Attempts made. */
  attempt: number;
  /** The end of a sleep, the timeout of a wait, the next try. */
  dueAt: number | null;
  /** The number of the delayed wake-up for `dueAt`. */
  timerSeq: number | null;
  /** The run that a `child` step started. */
  childId: string | null;
  startedAt: number;
  endedAt: number | null;
  /** Of a finished step that an execution was shown: its place in the order in which the code learned of ends. */
  endedOrder: number | null;
  error: RunError | null;
  /** JSON bytes; `null` when there is none. */
  result: Uint8Array | null;
}

/** The columns that `runOf` reads: everything but the payloads. */
export const RUN = `no, id, app_no, workflow, status, reason, attempt, executions, steps, journal_bytes, source, parent_no, parent_step,
  cancel_at, timeout_ms, timeout_at, created_at, started_at, ended_at, error`;
/** The columns that `stepOf` reads. */
export const STEP =
  "run_no, id, position, type, status, attempt, due_at, timer_seq, child_id, started_at, ended_at, ended_order, error, result";

/** A number that may be absent. */
export const numberOrNull = (value: Value | undefined): number | null => (value === null || value === undefined ? null : Number(value));
const textOrNull = (value: Value | undefined): string | null => (value === null || value === undefined ? null : String(value));
const errorOf = (value: Value | undefined): RunError | null =>
  value === null || value === undefined ? null : (JSON.parse(String(value)) as RunError);

/** A run as stored, by the columns of `RUN`. */
export function runOf(row: Row): RunRow {
  const parentNo = numberOrNull(row.parent_no);
  return {
    no: Number(row.no),
    id: String(row.id),
    appNo: Number(row.app_no),
    workflow: String(row.workflow),
    status: row.status as RunStatus,
    reason: errorOf(row.reason),
    attempt: Number(row.attempt),
    executions: Number(row.executions),
    steps: Number(row.steps),
    journalBytes: Number(row.journal_bytes),
    source: JSON.parse(String(row.source)) as RunSource,
    parent: parentNo === null ? null : { no: parentNo, stepId: String(row.parent_step) },
    cancelAt: numberOrNull(row.cancel_at),
    timeoutMs: Number(row.timeout_ms),
    timeoutAt: Number(row.timeout_at),
    createdAt: Number(row.created_at),
    startedAt: numberOrNull(row.started_at),
    endedAt: numberOrNull(row.ended_at),
    error: errorOf(row.error),
  };
}

/** A step as stored, by the columns of `STEP`. */
export function stepOf(row: Row): StepRow {
  return {
    runNo: Number(row.run_no),
    id: String(row.id),
    position: Number(row.position),
    type: row.type as StepType,
    status: row.status as StepStatus,
    attempt: Number(row.attempt),
    dueAt: numberOrNull(row.due_at),
    timerSeq: numberOrNull(row.timer_seq),
    childId: textOrNull(row.child_id),
    startedAt: Number(row.started_at),
    endedAt: numberOrNull(row.ended_at),
    endedOrder: numberOrNull(row.ended_order),
    error: errorOf(row.error),
    result: (row.result as Uint8Array | null | undefined) ?? null,
  };
}

/** Locks a run until the transaction ends and answers it; `null` when there is none. Locks of wait keys come first (`wait.ts`). */
export async function lockRun(tx: Tx, no: number): Promise<RunRow | null> {
  const [row] = await tx.each<Row>("run.hold", [[no]]);
  return row === undefined ? null : runOf(row);
}
