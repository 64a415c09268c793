/**
 * The commonest report by far, as two statements for all of a transaction: steps that were carried out to their end and that the journal does
 * not have. To count them in the run's row is to lock it and to see that the hand-out is the run's. Invariant: whatever is less plain is
 * left as it is, for `recordReports` to decide.
 */
import { protocolLimits } from "@millrace/contract/wire";
import type { Tx, Value } from "../db/db.ts";
import { insertOf } from "./record-steps.ts";
import type { StepsReport, StepsResult } from "./report.ts";
import { decideStep, type StepChange } from "./step-change.ts";

/** Whether a report tells of nothing but steps that ended, each once. */
export const isPlain = ({ steps }: Pick<StepsReport, "steps">): boolean =>
  steps.every(({ status }) => status === "completed" || status === "failed") && new Set(steps.map(({ id }) => id)).size === steps.length;

/** Whether a call failed because the journal had one of its steps. */
export { isTaken } from "../db/db.ts";

/** The steps of a report as they are to be stored; `null` where one is not to be stored as it was reported. */
function changesOf(tx: Tx, { steps, protocol }: StepsReport): StepChange[] | null {
  const changes: StepChange[] = [];
  for (const record of steps) {
    const decision = decideStep(record, undefined, { now: tx.now, protocol, cancelled: false });
    if (decision.kind !== "change" || decision.change.status !== record.status) return null;
    changes.push(decision.change);
  }
  return changes;
}

/**
 * Records plain reports; answers in order. `null`: nothing was recorded, for the run is retried or cancelled, or the report is stale, beyond
 * a limit or a run's second one here. Fails with all of them when the journal has one of the steps.
 */
async function recordEnded(tx: Tx, reports: readonly StepsReport[]): Promise<(StepsResult | null)[]> {
  const changed = new Map<number, { of: StepsReport; changes: StepChange[] }>();
  for (const report of reports) {
    const changes = changed.has(report.handout.runNo) ? null : changesOf(tx, report);
    if (changes !== null) changed.set(report.handout.runNo, { of: report, changes });
  }
  // Runs are locked in one order everywhere, and the plan takes them as they come.
  const rows = [...changed.values()].sort((a, b) => a.of.handout.runNo - b.of.handout.runNo).map(countOf);
  const counted = await tx.each<{ no: number; steps: number; ended: number }>("run.record", rows);
  const done = new Set<StepsReport>();
  const inserts: Value[][] = [];
  for (const { no, steps, ended } of counted) {
    const { of, changes } = changed.get(no) as { of: StepsReport; changes: StepChange[] };
    for (const [i, change] of changes.entries())
      inserts.push(insertOf(tx, no, change, { position: steps + i, childId: null, order: ended + i + 1 }));
    done.add(of);
  }
  tx.post("step.insert", inserts);
  return reports.map((report) => (done.has(report) ? { steps: [], cancelled: false } : null));
}

/** What a report adds to its run, as a row of `run.record`. */
function countOf({ of: { handout }, changes }: { of: StepsReport; changes: StepChange[] }): Value[] {
  const bytes = changes.reduce((sum, change) => sum + change.bytes, 0);
  const { steps, journalBytes } = protocolLimits;
  return [handout.runNo, handout.seq, handout.receipt, changes.length, bytes, steps, journalBytes];
}

/** Cold verbs: reports of ended steps. */
export const recordEndedVerbs = { recordEnded };
