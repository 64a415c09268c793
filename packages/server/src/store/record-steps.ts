/**
 * Recording steps into the journal of a locked run: all of one call or none (protocol: `POST …/steps` and the steps of an answer).
 * Timers, waits and child runs begin in the same transaction, so that what is recorded as pending is certain to be woken.
 */
import { protocolLimits, type StepRecord } from "@millrace/contract/wire";
import type { Tx, Value } from "../db/db.ts";
import { startChild } from "./child.ts";
import { endDue } from "./due.ts";
import { type RunRow, type StepRow, stepOf } from "./run-rows.ts";
import { addRecorded, writeRuns } from "./run-writes.ts";
import { type Decision, decideStep, isFinished, type StepChange } from "./step-change.ts";
import { openWait, type WaitKey } from "./wait.ts";
import { type Effects, wakeUp } from "./wake.ts";

/** A run whose steps are recorded: `queueNo` wakes it, `protocol` is what its executor speaks. */
export interface Recording {
  run: RunRow;
  endedSteps: number;
  projectNo: number;
  queueNo: number;
  /** The wake-up by which it is executed. */
  heldSeq: number;
  protocol: string;
  /** The keys of the waits among the steps, by step id; a queue that is not there is missing. Locked. */
  keys: ReadonlyMap<string, WaitKey>;
  /** The steps that are there already, of those to be recorded. */
  known: ReadonlyMap<string, StepRow>;
}

/** Timers whose numbers are known once the effects are carried out: `send` is the wake-up's place among them. */
export interface Timer {
  runNo: number;
  stepId: string;
  send: number;
}

/** `run` and `endedSteps` as they are afterwards. */
export type Recorded =
  | { steps: StepRow[]; run: RunRow; endedSteps: number }
  | { error: { code: "nondeterminism" | "limit_exceeded"; message: string } };

/** Steps of runs by their ids, as far as they are there. */
export async function findSteps(tx: Tx, wanted: ReadonlyMap<number, ReadonlySet<string>>): Promise<Map<number, Map<string, StepRow>>> {
  const found = new Map([...wanted.keys()].map((runNo) => [runNo, new Map<string, StepRow>()]));
  const pairs = [...wanted].flatMap(([runNo, ids]) => [...ids].map((id) => [runNo, id]));
  for (const row of await tx.each("step.find", pairs)) {
    const step = stepOf(row);
    found.get(step.runNo)?.set(step.id, step);
  }
  return found;
}

/** Records steps, at least one; answers those of the sleeps, waits and children among them, as they stand. Nothing is stored with an error. */
export async function recordSteps(
  tx: Tx,
  recording: Recording,
  records: readonly StepRecord[],
  effects: Effects,
  timers: Timer[],
): Promise<Recorded> {
  const { run, protocol, known } = recording;
  const standing = new Map(known);
  const changes: StepChange[] = [];
  for (const record of records) {
    const decision: Decision = decideStep(record, standing.get(record.id), { now: tx.now, protocol, cancelled: run.cancelAt !== null });
    if (decision.kind === "mismatch") return { error: { code: "nondeterminism", message: decision.message } };
    if (decision.kind === "same") continue;
    changes.push(decision.change);
    standing.set(record.id, sketch(run, decision.change, standing.get(record.id)));
  }
  const added = changes.filter(({ isNew }) => isNew).length;
  const bytes = changes.reduce((sum, change) => sum + change.bytes, 0);
  if (run.steps + added > protocolLimits.steps)
    return { error: { code: "limit_exceeded", message: `a run has at most ${protocolLimits.steps} steps` } };
  if (run.journalBytes + bytes > protocolLimits.journalBytes)
    return { error: { code: "limit_exceeded", message: "a run's journal has at most 64 MiB" } };

  let position = await nextPosition(tx, run);
  let { endedSteps } = recording;
  const { writes } = effects;
  for (const change of changes) {
    const was = known.get(change.record.id);
    const childId = await begun(tx, recording, change, effects);
    if (isFinished(change.status)) endedSteps++;
    else if (change.dueAt !== null) {
      timers.push({ runNo: run.no, stepId: change.record.id, send: effects.sends.length });
      effects.sends.push(wakeUp(recording.queueNo, run.id, "timer", change.dueAt - tx.now));
    }
    if (was?.timerSeq != null) effects.removals.push({ queueNo: recording.queueNo, seq: was.timerSeq, runId: run.id });
    const order = isFinished(change.status) ? endedSteps : null;
    if (change.isNew) writes.steps.push(insertOf(tx, run.no, change, { position: position++, childId, order }));
    else {
      // A step may be told of twice in one call.
      writeRuns(tx, writes);
      await update(tx, run.no, change, order);
    }
  }
  if (changes.length > 0) addRecorded(writes, run.no, { added, endedSteps, bytes });
  const over = [...known.values()].filter(({ status, dueAt }) => status === "pending" && dueAt !== null && dueAt <= tx.now);
  await endDue(tx, { queueNo: recording.queueNo, runId: run.id, heldSeq: recording.heldSeq }, over, effects);
  const asked = records.filter(({ status, id }) => status === "pending" || standing.get(id)?.status !== status).map(({ id }) => id);
  if (asked.length > 0) writeRuns(tx, writes);
  const { steps, numbered } = asked.length === 0 ? { steps: [], numbered: 0 } : await shown(tx, run.no, asked);
  const after = { ...run, steps: run.steps + added, journalBytes: run.journalBytes + bytes };
  return { steps, run: after, endedSteps: endedSteps + numbered };
}

/** The place of the next new step. A retried run has lost steps in between. */
async function nextPosition(tx: Tx, run: RunRow): Promise<number> {
  if (run.attempt === 1) return run.steps;
  const [row] = await tx.query("SELECT coalesce(max(position), -1) + 1 AS next FROM step WHERE run_no = :no", { no: run.no });
  return Number(row?.next ?? 0);
}

/** A step as a change leaves it, as far as later records of the same call need it. */
function sketch(run: RunRow, change: StepChange, was: StepRow | undefined): StepRow {
  const { record, status, attempt, dueAt } = change;
  const base: StepRow = was ?? {
    runNo: run.no,
    id: record.id,
    position: 0,
    type: record.type,
    status,
    attempt,
    dueAt,
    timerSeq: null,
    childId: null,
    startedAt: 0,
    endedAt: null,
    endedOrder: null,
    error: null,
    result: null,
  };
  return { ...base, status, attempt, dueAt };
}

/** Opens the wait or starts the child of a new step; what can't be done fails the step. Answers the child's id. */
async function begun(tx: Tx, recording: Recording, change: StepChange, effects: Effects): Promise<string | null> {
  const { record, status } = change;
  if (status !== "pending") return null;
  if (record.type === "wait") {
    const key = recording.keys.get(record.id);
    if (key === undefined) fail(change, "queue_not_found", `the project has no queue with the id ${record.queueId}`);
    else {
      const message = await openWait(tx, { ...key, runNo: recording.run.no, stepId: record.id, lookbackMs: record.lookbackMs ?? 0 });
      if (message !== null) Object.assign(change, { status: "completed", result: message, dueAt: null });
    }
  } else if (record.type === "child") {
    const child = await startChild(tx, recording, record, effects);
    if ("error" in child) fail(change, child.error.code, child.error.message);
    else {
      if (!record.wait) Object.assign(change, { status: "completed", result: new TextEncoder().encode(`{"runId":"${child.runId}"}`) });
      return child.runId;
    }
  }
  return null;
}

function fail(change: StepChange, code: string, message: string): void {
  Object.assign(change, { status: "failed", error: { code, name: code, message }, dueAt: null });
}

/** A new step as a row of `step.insert`. */
export function insertOf(
  tx: Tx,
  runNo: number,
  { record, status, attempt, dueAt, error, result }: StepChange,
  { position, childId, order }: { position: number; childId: string | null; order: number | null },
): Value[] {
  const startedAt = Math.min(("startedAt" in record && record.startedAt) || tx.now, tx.now);
  const due = isFinished(status) ? null : dueAt;
  const told = error === null ? null : JSON.stringify(error);
  const known = Number(result !== null);
  const row = [runNo, record.id, position, record.type, status, attempt, due, childId, startedAt, Number(isFinished(status)), order];
  return [...row, told, known, result ?? new Uint8Array()];
}

async function update(tx: Tx, runNo: number, change: StepChange, order: number | null): Promise<void> {
  const { record, status, attempt, dueAt, error, result } = change;
  await tx.query(
    `UPDATE step SET status = :status, attempt = :attempt, due_at = :dueAt, timer_seq = NULL, ended_at = :endedAt, ended_order = :order,
       error = :error, result = :result WHERE run_no = :runNo AND id = :id`,
    {
      runNo,
      id: record.id,
      status,
      attempt,
      dueAt: isFinished(status) ? null : dueAt,
      endedAt: isFinished(status) ? tx.now : null,
      order,
      error: error === null ? null : JSON.stringify(error),
      result,
    },
  );
}

/** Steps as they stand. What others ended meanwhile gets its place now: the code learns of it by this answer. */
async function shown(tx: Tx, runNo: number, ids: readonly string[]): Promise<{ steps: StepRow[]; numbered: number }> {
  const found = await findSteps(tx, new Map([[runNo, new Set(ids)]]));
  const steps = [...(found.get(runNo)?.values() ?? [])].sort((a, b) => a.position - b.position);
  const unseen = steps.filter(({ status, endedOrder }) => isFinished(status) && endedOrder === null);
  await numberEnds(tx, runNo, unseen);
  return { steps, numbered: unseen.length };
}

/** Gives finished steps their places in the order in which the code learns of ends, and writes these into `steps`. */
export async function numberEnds(tx: Tx, runNo: number, steps: readonly StepRow[]): Promise<void> {
  if (steps.length === 0) return;
  const [counted] = await tx.query("UPDATE run SET ended_steps = ended_steps + :n WHERE no = :runNo RETURNING ended_steps", {
    runNo,
    n: steps.length,
  });
  let order = Number(counted?.ended_steps ?? steps.length) - steps.length;
  for (const step of steps) {
    step.endedOrder = ++order;
    await tx.query("UPDATE step SET ended_order = :order WHERE run_no = :runNo AND id = :id", { runNo, id: step.id, order });
  }
}
