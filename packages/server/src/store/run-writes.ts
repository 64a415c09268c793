/**
 * What one transaction writes of many runs: gathered, so that every kind of change is one statement however many runs and steps it
 * concerns. Invariant: whoever reads what may lie here, or writes the same by a statement of its own, has it written first.
 */
import type { Tx, Value } from "../db/db.ts";

/** What a transaction recorded of a run. */
interface Recorded {
  added: number;
  endedSteps: number;
  bytes: number;
}

/** Changes of runs and their journals that are not written yet: rows of the statements of their names. */
export interface RunWrites {
  begun: Value[][];
  steps: Value[][];
  recorded: Map<number, Recorded>;
  waiting: Value[][];
  ended: Value[][];
}

/** Nothing yet. */
export const noWrites = (): RunWrites => ({ begun: [], steps: [], recorded: new Map(), waiting: [], ended: [] });

/** Adds to what a run counts of its journal; `endedSteps` is what it counts now. */
export function addRecorded({ recorded }: RunWrites, runNo: number, { added, endedSteps, bytes }: Recorded): void {
  const sum = recorded.get(runNo);
  recorded.set(runNo, { added: added + (sum?.added ?? 0), endedSteps, bytes: bytes + (sum?.bytes ?? 0) });
}

/** Writes what was gathered: it travels with what is asked next, the commit at the latest. */
export function writeRuns(tx: Tx, writes: RunWrites): void {
  tx.post("run.begun", writes.begun.splice(0));
  tx.post("step.insert", writes.steps.splice(0));
  tx.post(
    "run.recorded",
    [...writes.recorded].map(([no, { added, endedSteps, bytes }]) => [no, added, endedSteps, bytes]),
  );
  writes.recorded.clear();
  tx.post("run.wait", writes.waiting.splice(0));
  tx.post("run.end", writes.ended.splice(0));
}
