/** The handlers of apps and runs together, over one look-up of both. */
import type { Access } from "../../identity/access.ts";
import type { Apps } from "../../workflow/app.ts";
import type { Runs } from "../../workflow/run.ts";
import { appHandlers } from "./apps.ts";
import { createReach } from "./reach.ts";
import { runHandlers } from "./runs.ts";

/** Every handler of workflows. */
export function workflowHandlers(deps: { access: Access; apps: Apps; runs: Runs }) {
  const reach = createReach(deps);
  return { ...appHandlers({ ...deps, reach }), ...runHandlers({ ...deps, reach }) };
}
