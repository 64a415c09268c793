/**
 * Blocked runs (W8): they wait with a reason until their app changes or somebody retries them. One whose workflow was not there is also looked
 * at again by itself: of a deployment that is rolling out, the old part may have been asked.
 */
import type { RunRow } from "./run-rows.ts";

const SHORTEST_MS = 5_000;
const LONGEST_MS = 300_000;

const isSought = ({ reason }: RunRow): boolean => reason?.code === "workflow_not_found";

/** Whether no wake-up makes the run go on. */
export const isBlocked = (run: RunRow): boolean => run.reason !== null && !isSought(run);

/** When a run that is blocked for this reason is to be executed again, in milliseconds: a quarter of its age, within bounds. `null`: never. */
export function soughtInMs(run: RunRow, code: string, now: number): number | null {
  if (code !== "workflow_not_found") return null;
  return Math.min(Math.max(Math.round((now - run.createdAt) / 4), SHORTEST_MS), LONGEST_MS);
}
