/** The handlers of apps, runs and tasks together, over one look-up of all. */
import type { Access } from "../../identity/access.ts";
import type { Apps } from "../../workflow/app.ts";
import type { WorkflowEngine } from "../../workflow/engine.ts";
import type { Runs } from "../../workflow/run.ts";
import { appHandlers } from "./apps.ts";
import { createReach } from "./reach.ts";
import { runHandlers } from "./runs.ts";
import { taskHandlers } from "./tasks.ts";

/** Every handler of workflows. */
export function workflowHandlers(deps: { access: Access; apps: Apps; runs: Runs; engine: WorkflowEngine }) {
  const reach = createReach(deps);
  return { ...appHandlers({ ...deps, reach }), ...runHandlers({ ...deps, reach }), ...taskHandlers({ ...deps, reach }) };
}
