/**
 * The message about a run that ended (W17): a JSON text of at most 256 KiB. A completed run's output lies in it where it fits, counted
 * over the whole body; else the message names the path to read it from. Nothing is cut.
 */
import type { RunError } from "./workflow-protocol.ts";

/** The most bytes of a message's body. */
export const RESULT_BYTES = 262_144;

/** How a run ended; times in milliseconds since 1970, `output` a JSON text or `null`. */
export interface EndedRun {
  runId: string;
  appId: string;
  workflow: string;
  status: "completed" | "failed" | "cancelled" | "timedOut";
  attempt: number;
  output: string | null;
  error: RunError | null;
  startedAt: number | null;
  endedAt: number;
  /** The path of the run's output in the API. */
  outputPath: string;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** The body of the message. The output's text goes in as it is, so that no number is changed on the way. */
export function runResult(run: EndedRun): string {
  const { runId, appId, workflow, status, attempt } = run;
  const head = JSON.stringify({ type: "workflows.run.ended", runId, appId, workflow, status, attempt }).slice(0, -1);
  const times = { startedAt: run.startedAt === null ? null : iso(run.startedAt), endedAt: iso(run.endedAt) };
  const tail = JSON.stringify(times).slice(1);
  if (status === "completed") {
    if (run.output === null) return `${head},"output":null,${tail}`;
    const inline = `${head},"output":${run.output},${tail}`;
    if (inline.length <= RESULT_BYTES && new TextEncoder().encode(inline).length <= RESULT_BYTES) return inline;
    return `${head},"outputRef":${JSON.stringify(run.outputPath)},${tail}`;
  }
  if (run.error === null || status === "cancelled") return `${head},${tail}`;
  const { code, name, message } = run.error;
  return `${head},"error":${JSON.stringify({ code: code ?? "user", name, message })},${tail}`;
}
