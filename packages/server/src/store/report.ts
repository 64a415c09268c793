/**
 * What executions report (W5, W6): steps while they run, and their ends. Each names the hand-out it came by; a run that was handed out
 * again since, or has ended, refuses it as stale. An end is one transaction: steps, the run's state, everything it entails, and the
 * wake-up's acknowledgement.
 */
import { Fault } from "@millrace/contract";
import { type ExecutionAnswer, protocolLimits, type RunError, type StepRecord } from "@millrace/contract/wire";
import type { Tx } from "../db/db.ts";
import { soughtInMs } from "./blocked.ts";
import { type HeldRun, holdRuns } from "./execution.ts";
import { inList } from "./in-list.ts";
import { type JournalRows, readJournal } from "./journal.ts";
import { findSteps, type Recorded, recordSteps, type Timer } from "./record-steps.ts";
import { endRun, hasEnded } from "./run-end.ts";
import type { RunRow, StepRow } from "./run-rows.ts";
import { writeRuns } from "./run-writes.ts";
import { bytesOf, isFinished } from "./step-change.ts";
import { lockWaitKeys, type WaitKey } from "./wait.ts";
import { carryOut, type Effects, freePlace, noEffects, wakeUp } from "./wake.ts";

/** By which hand-out of which wake-up a run is executed. */
export interface Handout {
  runNo: number;
  queueNo: number;
  seq: number;
  receipt: number;
}

/** An execution's steps; `protocol` is what its executor speaks. */
export interface StepsReport {
  handout: Handout;
  protocol: string;
  steps: StepRecord[];
}

/** An execution's end. `told`: its task said that the run is cancelled. */
export interface EndReport {
  handout: Handout;
  protocol: string;
  told: boolean;
  answer: ExecutionAnswer;
}

/** Why a report was refused: codes of the protocol. */
export interface Refusal {
  code: "stale_execution" | "nondeterminism" | "limit_exceeded";
  message: string;
}

/** `cancelled`: the run's cancellation was asked for. */
export type StepsResult = { steps: StepRow[]; cancelled: boolean } | { error: Refusal };

/** What a report is told that came by another hand-out than the run's. */
export const STALE: Refusal = { code: "stale_execution", message: "the run has ended or was handed to another execution" };
const limit = (message: string): RunError => ({ code: "limit_exceeded", name: "limit_exceeded", message });

/** What the reports of one transaction share. */
interface Reporting {
  held: Map<number, HeldRun>;
  keys: Map<number, Map<string, WaitKey>>;
  /** The steps that are there already of those reported, by run; used up by a run's first report. */
  known: Map<number, Map<string, StepRow>>;
  effects: Effects;
  timers: Timer[];
}

type Reported = readonly { handout: Handout; steps: readonly StepRecord[] }[];

/** The keys of the waits among reported steps, by run and step; those of queues that are not there are missing. */
async function waitKeysOf(tx: Tx, reports: Reported): Promise<Map<number, Map<string, WaitKey>>> {
  const keys = new Map<number, Map<string, WaitKey>>();
  const waiting = reports.filter(({ steps }) => steps.some(({ type }) => type === "wait"));
  if (waiting.length === 0) return keys;
  const list = inList(
    "no",
    waiting.map(({ handout }) => handout.runNo),
  );
  const rows = await tx.query(
    `SELECT r.no AS no, r.app_no AS app_no, a.project_no AS project_no FROM run r JOIN app a ON a.no = r.app_no WHERE r.no IN (${list.text})`,
    list.params,
  );
  const apps = new Map(rows.map((row) => [Number(row.no), row]));
  for (const { handout, steps } of waiting)
    for (const step of steps) {
      const app = apps.get(handout.runNo);
      if (step.type !== "wait" || app === undefined) continue;
      const [queue] = await tx.query(
        `SELECT no FROM queue WHERE id = :id AND project_no = :project
         UNION SELECT no FROM placed_queue WHERE id = :id AND project_no = :project`,
        { id: step.queueId, project: app.project_no as number },
      );
      if (queue === undefined) continue;
      const known = keys.get(handout.runNo) ?? new Map<string, WaitKey>();
      keys.set(handout.runNo, known.set(step.id, { appNo: Number(app.app_no), queueNo: Number(queue.no), key: step.key }));
    }
  return keys;
}

/** Locks what the reports of one transaction need, wait keys first; of runs that end, those that wait for them too. */
async function open(tx: Tx, reports: Reported, ending: boolean): Promise<Reporting> {
  const keys = await waitKeysOf(tx, reports);
  lockWaitKeys(
    tx,
    [...keys.values()].flatMap((some) => [...some.values()]),
  );
  const nos = [...new Set(reports.map(({ handout }) => handout.runNo))].sort((a, b) => a - b);
  const wanted = new Map<number, Set<string>>();
  for (const { handout, steps } of reports) for (const { id } of steps) idsIn(wanted, handout.runNo).add(id);
  const [runs, known] = await Promise.all([holdRuns(tx, nos, ending), findSteps(tx, wanted)]);
  const held = new Map(runs.map((one) => [one.run.no, one]));
  return { held, keys, known, effects: noEffects(), timers: [] };
}

/** The ids that are wanted of a run. */
function idsIn(wanted: Map<number, Set<string>>, runNo: number): Set<string> {
  const ids = wanted.get(runNo) ?? new Set<string>();
  wanted.set(runNo, ids);
  return ids;
}

/** The run of a report, unless the report is stale. */
function current({ held }: Reporting, { runNo, seq, receipt }: Handout): RunRow | null {
  const one = held.get(runNo);
  return one === undefined || hasEnded(one.run) || one.seq !== seq || one.receipt !== receipt ? null : one.run;
}

async function record(tx: Tx, reporting: Reporting, run: RunRow, { handout, protocol, steps }: StepsReport): Promise<Recorded> {
  const one = reporting.held.get(run.no) as HeldRun;
  if (steps.length === 0) return { steps: [], run, endedSteps: one.endedSteps };
  const ids = new Set(steps.map(({ id }) => id));
  let known = reporting.known.get(run.no);
  if (known === undefined) {
    // A second report of a run in one transaction must see what the first one stored.
    writeRuns(tx, reporting.effects.writes);
    known = (await findSteps(tx, new Map([[run.no, ids]]))).get(run.no) ?? new Map();
  }
  reporting.known.delete(run.no);
  const recording = {
    run,
    protocol,
    endedSteps: one.endedSteps,
    known,
    queueNo: handout.queueNo,
    heldSeq: handout.seq,
    projectNo: one.projectNo,
    keys: reporting.keys.get(run.no) ?? new Map(),
  };
  const recorded = await recordSteps(tx, recording, steps, reporting.effects, reporting.timers);
  // What a later report of the same transaction must know.
  if (!("error" in recorded)) reporting.held.set(run.no, { ...one, run: recorded.run, endedSteps: recorded.endedSteps });
  return recorded;
}

/** Carries the effects out and writes down which wake-ups the timers are. Throws `stale_execution` when a wake-up is no longer held. */
async function finish(tx: Tx, { effects, timers }: Reporting): Promise<void> {
  const { settled, sent } = await carryOut(tx, effects);
  if (settled.some(({ result }) => result === "stale" || result === "gone")) throw new Fault("stale_execution", STALE.message);
  for (const { runNo, stepId, send } of timers)
    await tx.query("UPDATE step SET timer_seq = :seq WHERE run_no = :runNo AND id = :stepId", { runNo, stepId, seq: sent[send] ?? null });
}

/** Records the steps of executions; one result each, in order. A run that goes beyond its limits is failed (W3). */
async function recordReports(tx: Tx, reports: readonly StepsReport[]): Promise<StepsResult[]> {
  const reporting = await open(tx, reports, false);
  const results: StepsResult[] = [];
  for (const report of reports) {
    const run = current(reporting, report.handout);
    if (run === null) {
      results.push({ error: STALE });
      continue;
    }
    const recorded = await record(tx, reporting, run, report);
    if (!("error" in recorded)) results.push({ steps: recorded.steps, cancelled: run.cancelAt !== null });
    else {
      results.push(recorded);
      if (recorded.error.code === "limit_exceeded") await close(tx, reporting, run, report.handout, recorded.error.message);
    }
  }
  await finish(tx, reporting);
  return results;
}

/** Fails a run for its size. */
async function close(tx: Tx, reporting: Reporting, run: RunRow, { queueNo, seq, receipt }: Handout, message: string): Promise<void> {
  const one = reporting.held.get(run.no) as HeldRun;
  one.run = await endRun(tx, run, { status: "failed", error: limit(message) }, reporting.effects);
  reporting.effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
}

/** Ends executions; one result each, in order: `null` when it counted. */
async function endExecutions(tx: Tx, reports: readonly EndReport[]): Promise<({ error: Refusal } | null)[]> {
  const withSteps = reports.map((report) => ({ ...report, steps: ("steps" in report.answer && report.answer.steps) || [] }));
  const reporting = await open(tx, withSteps, true);
  const results: ({ error: Refusal } | null)[] = [];
  for (const report of withSteps) {
    const run = current(reporting, report.handout);
    if (run === null) {
      results.push({ error: STALE });
      continue;
    }
    const recorded = await record(tx, reporting, run, report);
    const { run: now } = reporting.held.get(run.no) as HeldRun;
    if ("error" in recorded && recorded.error.code === "limit_exceeded") {
      await close(tx, reporting, now, report.handout, recorded.error.message);
    } else {
      await end(tx, reporting, now, { ...report, answer: answerAfter(recorded, report.answer) });
    }
    results.push(null);
  }
  await finish(tx, reporting);
  return results;
}

/** An answer in the light of its own steps: what ended as it was recorded, such as a wait whose message was kept, the code has not seen. */
function answerAfter(recorded: Recorded, answer: ExecutionAnswer): ExecutionAnswer {
  if ("error" in recorded) return { status: "blocked", reason: { ...recorded.error, code: "nondeterminism" } };
  const unseen = recorded.steps.some(({ type, status }) => ["sleep", "wait", "child"].includes(type) && isFinished(status));
  return answer.status === "suspended" && unseen ? { status: "suspended", again: true } : answer;
}

async function end(tx: Tx, reporting: Reporting, run: RunRow, { handout, told, answer }: EndReport): Promise<void> {
  const { effects, held } = reporting;
  const { queueNo, seq, receipt } = handout;
  const again = answer.status === "suspended" && answer.again === true;
  effects.settles.push({ queueNo, seq, receipt, outcome: again ? "release" : "ack", delayMs: 0 });
  const ending = endingOf(answer, told);
  if (ending !== null) {
    const one = held.get(run.no) as HeldRun;
    // Every step has ended, so there is nothing that it could wait for.
    const waiting = run.attempt > 1 || one.endedSteps < run.steps;
    one.run = await endRun(tx, run, ending, effects, waiting);
    return;
  }
  if (again) return;
  if (answer.status === "suspended" && !(await willBeWoken(tx, run, handout, reporting))) {
    const message = "the execution suspended, and nothing is pending that could wake the run";
    await endRun(tx, run, { status: "failed", error: { code: "protocol_violation", name: "protocol_violation", message } }, effects);
    return;
  }
  const soughtMs = answer.status === "blocked" ? soughtInMs(run, answer.reason.code, tx.now) : null;
  if (soughtMs !== null) effects.sends.push(wakeUp(queueNo, run.id, "timer", soughtMs));
  const reason = answer.status === "blocked" ? JSON.stringify({ ...answer.reason, name: answer.reason.code }) : null;
  effects.writes.waiting.push([run.no, reason]);
  freePlace(effects, run);
  (held.get(run.no) as HeldRun).seq = null;
}

/** How an answer ends its run; `null` when it does not. Whoever was told of the cancellation ends cancelled (W10). */
function endingOf(
  answer: ExecutionAnswer,
  told: boolean,
): { status: "completed" | "failed" | "cancelled"; output?: Uint8Array | null; error?: RunError | null } | null {
  switch (answer.status) {
    case "completed": {
      if (told) return { status: "cancelled" };
      const output = bytesOf(answer.output);
      if ((output?.length ?? 0) <= protocolLimits.outputBytes) return { status: "completed", output };
      return { status: "failed", error: limit(`the output has ${output?.length} bytes of JSON, at most 4 MiB are kept`) };
    }
    case "failed":
      return { status: told ? "cancelled" : "failed", error: { ...answer.error, code: answer.error.code ?? "user" } };
    case "cancelled":
      return { status: "cancelled", error: answer.error === undefined ? null : { ...answer.error, code: answer.error.code ?? "user" } };
    default:
      return null;
  }
}

/** Whether something will wake a run that suspends: a sleep, a wait, a pause, a child, or a wake-up that is there already. */
async function willBeWoken(tx: Tx, run: RunRow, { queueNo, seq }: Handout, { timers, effects }: Reporting): Promise<boolean> {
  if (timers.some(({ runNo }) => runNo === run.no) || effects.sends.some(({ groupKey }) => groupKey === run.id)) return true;
  writeRuns(tx, effects.writes);
  const [step] = await tx.query(
    `SELECT id FROM step WHERE run_no = :no AND (status = 'pending' OR (status = 'retrying' AND timer_seq IS NOT NULL)) LIMIT 1`,
    { no: run.no },
  );
  if (step !== undefined) return true;
  const [other] = await tx.query(
    "SELECT seq FROM message WHERE queue_no = :queueNo AND group_key = :runId AND dead_at IS NULL AND later_at IS NULL AND seq <> :seq LIMIT 1",
    { queueNo, runId: run.id, seq },
  );
  return other !== undefined;
}

/** A further page of the journal of a run that is being executed. Throws `stale_execution`. */
async function readExecution(tx: Tx, handout: Handout, after: number, pageBytes: number): Promise<JournalRows> {
  const [one] = await holdRuns(tx, [handout.runNo]);
  if (one === undefined || one.seq !== handout.seq || one.receipt !== handout.receipt || hasEnded(one.run))
    throw new Fault("stale_execution", STALE.message);
  return readJournal(tx, handout.runNo, after, pageBytes);
}

/** Cold verbs: what executions report. */
export const reportVerbs = { recordReports, endExecutions, readExecution };
