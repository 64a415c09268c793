/**
 * The commonest end by far, as one statement for all of a transaction: a run whose steps have all ended completes, and nobody waits for that.
 * The change of the run's row is its lock and shows that the hand-out is the run's. Invariant: whatever is less plain is left as it is,
 * for `endExecutions` to decide.
 */
import { Fault } from "@millrace/contract";
import { protocolLimits } from "@millrace/contract/wire";
import type { Tx } from "../db/db.ts";
import { type EndReport, STALE } from "./report.ts";
import { bytesOf } from "./step-change.ts";
import { carryOut, freePlace, noEffects } from "./wake.ts";

/** Whether a report says no more than that its run has completed. */
export const isPlainEnd = ({ answer, told }: EndReport): boolean =>
  answer.status === "completed" && !told && (answer.steps === undefined || answer.steps.length === 0);

/**
 * Completes the runs of plain ends, each of another run; answers in order which did. The others are retried, cancelled, somebody's child
 * or of an app that wants results, have an output that is too large, or their report is stale. Throws `stale_execution`, and nothing
 * was done, when a wake-up is no longer held.
 */
async function completeRuns(tx: Tx, reports: readonly EndReport[]): Promise<boolean[]> {
  const ends = new Map<number, { report: EndReport; output: Uint8Array | null }>();
  for (const report of reports) {
    const output = bytesOf(report.answer.status === "completed" ? report.answer.output : null);
    if ((output?.length ?? 0) <= protocolLimits.outputBytes) ends.set(report.handout.runNo, { report, output });
  }
  // Runs are locked in one order everywhere, and the plan takes them as they come.
  const sorted = [...ends.values()].sort((a, b) => a.report.handout.runNo - b.report.handout.runNo);
  const effects = noEffects();
  const done = new Set<EndReport>();
  for (const row of await tx.each<{ no: number; app_no: number; workflow: string }>(
    "run.complete",
    sorted.map(({ report: { handout }, output }) => {
      const { runNo, seq, receipt } = handout;
      return [runNo, seq, receipt, Number(output !== null), output ?? new Uint8Array()];
    }),
  )) {
    const { report } = ends.get(row.no) as { report: EndReport };
    const { queueNo, seq, receipt } = report.handout;
    effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
    freePlace(effects, { appNo: row.app_no, workflow: row.workflow });
    done.add(report);
  }
  const { settled } = await carryOut(tx, effects);
  if (settled.some(({ result }) => result !== "acked")) throw new Fault("stale_execution", STALE.message);
  return reports.map((report) => done.has(report));
}

/** Cold verbs: plain ends. */
export const completeRunsVerbs = { completeRuns };
