/** Method and path of every operation on apps and runs. Free of any import, as `../routes.ts`. */
const apps = "/v1/organizations/{organizationId}/projects/{projectId}/apps";
const app = `${apps}/{appId}`;
const runs = `${app}/runs`;
const run = `${runs}/{runId}`;

export const workflowRoutes = {
  CreateApp: { method: "POST", path: apps },
  ListApps: { method: "GET", path: apps },
  GetApp: { method: "GET", path: app },
  UpdateApp: { method: "PATCH", path: app },
  DeleteApp: { method: "DELETE", path: app },
  SyncApp: { method: "POST", path: `${app}/sync` },
  RotateAppSecret: { method: "POST", path: `${app}/rotate-secret` },
  ListWorkflows: { method: "GET", path: `${app}/workflows` },
  PollTasks: { method: "POST", path: `${app}/poll` },
  StartRun: { method: "POST", path: runs },
  ListRuns: { method: "GET", path: runs },
  CancelRuns: { method: "POST", path: `${runs}/cancel` },
  RetryRuns: { method: "POST", path: `${runs}/retry` },
  GetRun: { method: "GET", path: run },
  ListSteps: { method: "GET", path: `${run}/steps` },
  GetRunInput: { method: "GET", path: `${run}/input` },
  GetRunOutput: { method: "GET", path: `${run}/output` },
  CancelRun: { method: "POST", path: `${run}/cancel` },
  RetryRun: { method: "POST", path: `${run}/retry` },
} as const;
