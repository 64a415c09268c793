/** The handlers of apps, runs and tasks together. */
import type { Access } from "../../identity/access.ts";
import type { Apps } from "../../workflow/app.ts";
import type { WorkflowEngine } from "../../workflow/engine.ts";
import type { Runs } from "../../workflow/run.ts";
import { appHandlers } from "./apps.ts";
import { createAppReach, createReach } from "./reach.ts";
import { runHandlers } from "./runs.ts";
import { taskHandlers } from "./tasks.ts";

/** Every handler of workflows. */
export function workflowHandlers(deps: { access: Access; apps: Apps; runs: Runs; engine: WorkflowEngine }) {
  const reach = createReach(deps);
  const apps = appHandlers({ ...deps, reach: createAppReach(deps.access, deps.apps.find) });
  return { ...apps, ...runHandlers({ ...deps, reach }), ...taskHandlers({ ...deps, reach }) };
}
