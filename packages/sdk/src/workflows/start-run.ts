/** Starting runs from outside of workflows. */
import { variable } from "../environment.ts";
import { ConfigurationError } from "../errors.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import type { Workflow } from "./workflow.ts";

/** Of which app, and as which run. */
export interface StartRunOptions extends ConnectionOptions {
  /** By id or name; `MILLRACE_APP`. */
  app?: string;
  /** The run's id, a UUID in lower case and not of version 8: a second start with it is refused. */
  runId?: string;
  /** Starts with the same key start one run, for 48 hours; a fresh one unless given. */
  idempotencyKey?: string;
}

/** A run that was started. */
export interface StartedRun {
  id: string;
  status: string;
}

/** Starts a run of a workflow, given by itself or by name. Rejects with `ApiError` when it is refused. */
export async function startRun<Input>(
  workflow: Workflow<Input, unknown> | string,
  input: Input,
  options: StartRunOptions = {},
): Promise<StartedRun> {
  const { transport, projectPath, runtime } = connect(options, 4);
  const app = options.app ?? variable("MILLRACE_APP");
  if (app === undefined) throw new ConfigurationError("No app. Set MILLRACE_APP, or pass app.");
  const answer = await transport({
    method: "POST",
    path: `${projectPath()}/apps/${encodeURIComponent(app)}/runs`,
    body: { workflow: typeof workflow === "string" ? workflow : workflow.name, input, runId: options.runId },
    idempotencyKey: options.idempotencyKey ?? runtime.uuid(),
    repeat: "always",
  });
  const { id, status } = answer as StartedRun;
  return { id, status };
}
