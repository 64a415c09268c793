/**
 * Beginning an execution (W5, W9): a claimed wake-up becomes a run with its journal, or nothing when there is nothing to do. The run
 * remembers by which hand-out of which message it is executed; every later write of the execution must name that one.
 */
import type { Row, Tx } from "../db/db.ts";
import { holdAppPlaces } from "./app-places.ts";
import { isBlocked } from "./blocked.ts";
import { dueByRun, endDue } from "./due.ts";
import { heldOf } from "./held.ts";
import { type JournalRows, readJournal } from "./journal.ts";
import { lockWorkflows, type Places, takePlace } from "./parking.ts";
import { numberEnds } from "./record-steps.ts";
import { hasEnded } from "./run-end.ts";
import { numberOrNull, type RunRow, runOf, STEP, stepOf } from "./run-rows.ts";
import { carryOut, type Effects, noEffects } from "./wake.ts";

/** A claimed wake-up of a run. */
export interface WakeUp {
  queueNo: number;
  seq: number;
  receipt: number;
  runId: string;
  /** Sent for the end of a sleep, a wait or a retry's pause: of no use once that came by another way. */
  timer: boolean;
  /** Who polled for it: whose workflows these are, and nobody else's. A push app has no such. */
  puller?: { workflows: readonly string[] };
}

/** How long a wake-up is left to workers that have its workflow. */
const LEFT_TO_OTHERS_MS = 1_000;

/** A run to be executed, with the first page of its journal; `now` is the store's present. */
export interface Begun {
  run: RunRow;
  input: Uint8Array | null;
  journal: JournalRows;
  now: number;
}

/** A run as executions lock it: by what it is executed, if it is, and how many of its steps' ends the code has learned of. */
export interface HeldRun {
  run: RunRow;
  projectNo: number;
  seq: number | null;
  receipt: number | null;
  endedSteps: number;
}

/** Locks runs until the transaction ends, `withParents` those that wait for them too; runs that are not there are missing. */
export async function holdRuns(tx: Tx, nos: readonly number[], withParents = false): Promise<HeldRun[]> {
  // One order everywhere, parents among them: who holds one run never waits for one before it.
  const sorted = [...nos].sort((a, b) => a - b).map((no) => [no]);
  if (withParents) tx.post("lock.families", sorted);
  return (await tx.each<Row>("run.hold", sorted)).map((row) => ({
    run: runOf(row),
    projectNo: Number(row.project_no),
    seq: numberOrNull(row.execution_seq),
    receipt: numberOrNull(row.execution_receipt),
    endedSteps: Number(row.ended_steps),
  }));
}

/** The numbers of runs by their ids. */
async function numbersOf(tx: Tx, ids: readonly string[]): Promise<number[]> {
  const unique = [...new Set(ids)].map((id) => [id]);
  return (await tx.each<{ no: number }>("run.number", unique)).map(({ no }) => no);
}

/** Takes back further wake-ups of runs that stand there already: what they tell of, their executions are shown. */
async function takeOthers(tx: Tx, wakes: readonly WakeUp[], effects: Effects): Promise<void> {
  const queues = new Map(wakes.map(({ runId, queueNo }) => [runId, queueNo]));
  const others = await tx.each<{ seq: number; group_key: string }>(
    "wake.others",
    wakes.map(({ queueNo, runId, seq }) => [queueNo, runId, seq]),
  );
  for (const { seq, group_key: runId } of others) effects.removals.push({ queueNo: queues.get(runId) as number, seq, runId });
}

/** The inputs of runs by their numbers. */
async function inputsOf(tx: Tx, nos: readonly number[]): Promise<Map<number, Uint8Array | null>> {
  const rows = await tx.each<{ no: number; input: Uint8Array | null }>(
    "run.input",
    nos.map((no) => [no]),
  );
  return new Map(rows.map(({ no, input }) => [no, input]));
}

/** The first page of a run's journal, after what others ended since the last execution has got its place. */
async function firstPage(tx: Tx, { no, steps }: RunRow, pageBytes: number): Promise<JournalRows> {
  if (steps === 0) return { steps: [], next: null };
  const rows = await tx.query(
    `SELECT ${STEP} FROM step WHERE run_no = :no AND ended_order IS NULL AND status NOT IN ('pending', 'retrying')
     ORDER BY ended_at, position`,
    { no },
  );
  await numberEnds(tx, no, rows.map(stepOf));
  return readJournal(tx, no, -1, pageBytes);
}

/**
 * Begins the executions of claimed wake-ups, each of another run; answers in order. `null`: there is nothing to do. Either the run has
 * ended or is gone, waits for another build or for a place among its workflow's executions, or its timer came to nothing: then the
 * wake-up was acknowledged; or the puller does not have its workflow, and it was given back; or its lease is over. `full`: it was given
 * back because as many runs of the app are executed as may be.
 * A page of a journal has about `pageBytes`.
 */
async function beginExecutions(tx: Tx, wakeUps: readonly WakeUp[], pageBytes: number): Promise<(Begun | "full" | null)[]> {
  const appPlaces = await holdAppPlaces(
    tx,
    wakeUps.filter(({ puller }) => puller !== undefined).map(({ queueNo }) => queueNo),
  );
  const nos = await numbersOf(
    tx,
    wakeUps.map(({ runId }) => runId),
  );
  const held = new Map((await holdRuns(tx, nos)).map((one) => [one.run.id, one]));
  const [due, leased] = await Promise.all([
    dueByRun(
      tx,
      [...held.values()].flatMap(({ run }) => (run.steps === 0 ? [] : [run.no])),
    ),
    heldOf(tx, wakeUps),
  ]);
  const effects = noEffects();
  const begins: WakeUp[] = [];
  const places: Places = new Map();
  const fresh = wakeUps.flatMap(({ runId, seq }) => {
    const one = held.get(runId);
    return one === undefined || one.seq === seq ? [] : [one.run];
  });
  await lockWorkflows(tx, fresh, effects.memory);
  const begun: (Begun | "full" | null)[] = [];
  for (const wake of wakeUps) {
    const { queueNo, seq, receipt } = wake;
    if (!leased.has(seq)) {
      begun.push(null);
      continue;
    }
    const one = held.get(wake.runId);
    const dues = one === undefined ? [] : (due.get(one.run.no) ?? []);
    // Handed out again: the execution that this wake-up began was lost.
    const again = one?.seq === seq;
    if (
      one === undefined ||
      hasEnded(one.run) ||
      isBlocked(one.run) ||
      (wake.timer && dues.length === 0 && !again && one.run.reason === null)
    ) {
      effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
      begun.push(null);
      continue;
    }
    const { puller } = wake;
    const left = puller === undefined ? 1 : (appPlaces.get(queueNo) ?? 0);
    const isForeign = puller?.workflows.includes(one.run.workflow) === false;
    if (isForeign || (!again && left <= 0)) {
      effects.settles.push({ queueNo, seq, receipt, outcome: "release", delayMs: isForeign ? LEFT_TO_OTHERS_MS : 0 });
      begun.push(isForeign ? null : "full");
      continue;
    }
    if (!again && !(await takePlace(tx, one.run, places, effects.memory))) {
      effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
      begun.push(null);
      continue;
    }
    if (!again) appPlaces.set(queueNo, left - 1);
    begins.push(wake);
    await endDue(tx, { queueNo, runId: wake.runId, heldSeq: seq }, dues, effects);
    const journal = await firstPage(tx, one.run, pageBytes);
    const { run } = one;
    effects.writes.begun.push([run.no, seq, receipt]);
    const started: RunRow = { ...run, status: "running", startedAt: run.startedAt ?? tx.now, executions: run.executions + 1 };
    begun.push({ run: started, input: null, journal, now: tx.now });
  }
  // Nothing has woken a run before its first execution but its start.
  await takeOthers(
    tx,
    begins.filter(({ runId }) => !isNew(held.get(runId)?.run)),
    effects,
  );
  const inputs = await inputsOf(
    tx,
    begun.flatMap((each) => (isBegun(each) ? [each.run.no] : [])),
  );
  await carryOut(tx, effects);
  return begun.map((each) => (isBegun(each) ? { ...each, input: inputs.get(each.run.no) ?? null } : each));
}

/** Whether a run was never handed out nor ended. */
const isNew = (run: RunRow | undefined): boolean => run !== undefined && run.executions === 0 && run.attempt === 1;

const isBegun = (each: Begun | "full" | null): each is Begun => each !== null && each !== "full";

/** Cold verbs: the beginning of executions. */
export const executionVerbs = { beginExecutions };
