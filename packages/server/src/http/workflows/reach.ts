/**
 * From the references of a path to an app and a run, with the permission checked in the same step (A6, W4). What the key does not see is
 * not there: an app that it does not see has no runs for it either.
 */
import { Fault } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { Caller, ProjectRow } from "../../identity/caller.ts";
import type { AppIdentity, AppRow, Apps } from "../../workflow/app.ts";
import type { RunRow, Runs } from "../../workflow/run.ts";

/** The references of a path. */
export interface AppParams {
  organizationId: string;
  projectId: string;
  appId: string;
}

/** The resource that an app is, and what its workflows stand below. */
export function appResource(project: ProjectRow, name: string): string {
  return `${project.organization.name}/${project.name}/apps/${name}`;
}

const appMissing = (): Fault => new Fault("app_not_found", "there is no such app, or the key does not reach it");
/** What a run is that the key does not see. */
export const runMissing = (): Fault => new Fault("run_not_found", "there is no such run in this app, or the key does not reach it");

/** Finds an app of a project by id, resource name or name. */
export type FindApp<App = AppRow> = (projectNo: number, reference: string) => Promise<App | null>;

export interface AppReach<App = AppRow> {
  /** `permission` is checked on the app; `null` asks only whether the key sees it or a workflow of it. */
  app(caller: Caller, params: AppParams, permission: string | null): Promise<{ project: ProjectRow; app: App }>;
  /** An app, and `permission` checked on one of its workflows, whether it was announced or not. */
  workflow(caller: Caller, params: AppParams, workflow: string, permission: string): Promise<{ project: ProjectRow; app: App }>;
}

export interface Reach extends AppReach<AppIdentity> {
  /** A run, and `permission` checked on its workflow. */
  run(
    caller: Caller,
    params: AppParams & { runId: string },
    permission: string,
  ): Promise<{ project: ProjectRow; app: AppIdentity; run: RunRow }>;
}

/** Makes the look-ups of apps. */
export function createAppReach<App extends { name: string }>(access: Access, findApp: FindApp<App>): AppReach<App> {
  const app: AppReach<App>["app"] = async (caller, params, permission) => {
    const project = await access.project(caller, params, null);
    const found = await findApp(project.no, params.appId);
    if (found === null) throw appMissing();
    access.demand(caller, permission, appResource(project, found.name), appMissing);
    return { project, app: found };
  };
  return {
    app,
    async workflow(caller, params, workflow, permission) {
      const reached = await app(caller, params, null);
      const resource = `${appResource(reached.project, reached.app.name)}/${workflow}`;
      // The key sees the app, so nothing is given away: whether there is such a workflow is not asked.
      const lacking = () => new Fault("permission_denied", `the key lacks the permission ${permission} on ${resource}`, { permission });
      access.demand(caller, permission, resource, lacking);
      return reached;
    },
  };
}

/** Makes the look-ups of runs and of their apps, of which nothing is asked that changes. */
export function createReach({ access, apps, runs }: { access: Access; apps: Pick<Apps, "identify">; runs: Pick<Runs, "find"> }): Reach {
  const reach = createAppReach(access, apps.identify);
  return {
    ...reach,
    async run(caller, params, permission) {
      const reached = await reach.app(caller, params, null);
      const run = await runs.find(reached.app, params.runId);
      if (run === null) throw runMissing();
      access.demand(caller, permission, `${appResource(reached.project, reached.app.name)}/${run.workflow}`, runMissing);
      return { ...reached, run };
    },
  };
}
