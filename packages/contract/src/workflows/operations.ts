/** Every operation on apps, workflows and runs, by name. Permissions on runs are checked on `<app>/<workflow>` (W4). */
import { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import { type Operation, operation } from "../operation.ts";
import { page, paging, reference, uuid } from "../shapes.ts";
import { pollCall, task } from "./protocol.ts";
import type { workflowRoutes } from "./routes.ts";
import * as w from "./shapes.ts";

const project = z.strictObject({ organizationId: reference, projectId: reference });
const app = project.extend({ appId: reference });
const run = app.extend({ runId: uuid });

const atProject: readonly ErrorCode[] = ["organization_not_found", "project_not_found"];
const atApp: readonly ErrorCode[] = [...atProject, "app_not_found"];
const atRun: readonly ErrorCode[] = [...atApp, "run_not_found"];
const payload = (name: "input" | "output") => z.object({ [name]: z.unknown() });

export const workflowOperations = {
  CreateApp: operation({
    summary: "Create an app. The signing secret of a push app is in this answer only; its workflows are asked for at once.",
    permission: "workflows.apps.create",
    status: 201,
    idempotent: true,
    errors: [...atProject, "name_taken", "invalid_target", "queue_not_found"],
    params: project,
    body: w.createApp,
    answer: w.app,
  }),
  ListApps: operation({
    summary: "List a project's apps by name.",
    permission: "workflows.apps.list",
    errors: atProject,
    params: project,
    query: paging,
    answer: page("apps", w.app),
  }),
  GetApp: operation({ summary: "Show an app.", permission: "workflows.apps.get", errors: atApp, params: app, answer: w.app }),
  UpdateApp: operation({
    summary: "Change an app. What is not given stays. Where run results go also needs queues.messages.send on that queue.",
    permission: "workflows.apps.update",
    errors: [...atApp, "invalid_target", "queue_not_found"],
    params: app,
    body: w.updateApp,
    answer: w.app,
  }),
  DeleteApp: operation({
    summary: "Delete an app with its runs.",
    permission: "workflows.apps.delete",
    status: 204,
    errors: atApp,
    params: app,
    answer: z.undefined(),
  }),
  SyncApp: operation({
    summary: "Ask a push app for its workflows. Runs that are blocked on another build are woken.",
    permission: "workflows.apps.sync",
    errors: atApp,
    params: app,
    answer: w.app,
  }),
  RotateAppSecret: operation({
    summary: "Make a new signing secret, shown once; both sign for 24 hours.",
    permission: "workflows.apps.update",
    idempotent: true,
    errors: [...atApp, "not_signed"],
    params: app,
    answer: w.app,
  }),
  ListWorkflows: operation({
    summary: "List the workflows that an app has announced.",
    permission: "workflows.apps.get",
    errors: atApp,
    params: app,
    query: paging,
    answer: page("workflows", w.workflow),
  }),
  PollTasks: operation({
    summary: "Take runs of a pull app to execute: waits until there is one. What tasks hold is said by the workflow protocol.",
    permission: "workflows.apps.work",
    errors: [...atApp, "protocol_unsupported"],
    params: app,
    body: pollCall,
    answer: z.object({ protocol: z.string(), tasks: z.array(task) }),
  }),
  StartRun: operation({
    summary: "Start a run of a workflow.",
    permission: "workflows.runs.start",
    status: 201,
    idempotent: true,
    errors: [...atApp, "workflow_not_found", "run_exists", "payload_too_large"],
    params: app,
    body: w.startRun,
    answer: w.run,
  }),
  ListRuns: operation({
    summary: "List an app's runs, newest first.",
    permission: "workflows.runs.list",
    errors: atApp,
    params: app,
    query: w.listRuns,
    answer: page("runs", w.run),
  }),
  CancelRuns: operation({
    summary: "Cancel runs by id or by filter. Those that can't be cancelled are passed over.",
    permission: "workflows.runs.cancel",
    errors: atApp,
    params: app,
    body: w.steerRuns,
    answer: w.steeredRuns,
  }),
  RetryRuns: operation({
    summary: "Retry runs by id or by filter. Those that can't be retried are passed over, and completed ones unless they are asked for.",
    permission: "workflows.runs.retry",
    errors: atApp,
    params: app,
    body: w.steerRuns,
    answer: w.steeredRuns,
  }),
  GetRun: operation({ summary: "Show a run.", permission: "workflows.runs.get", errors: atRun, params: run, answer: w.run }),
  ListSteps: operation({
    summary: "List a run's steps in the order in which they were recorded; results only for keys with workflows.runs.getPayload.",
    permission: "workflows.runs.get",
    errors: atRun,
    params: run,
    query: paging,
    answer: page("steps", w.step),
  }),
  GetRunInput: operation({
    summary: "Read a run's input.",
    permission: "workflows.runs.getPayload",
    errors: atRun,
    params: run,
    answer: payload("input"),
  }),
  GetRunOutput: operation({
    summary: "Read the output of a run that completed; null of every other run.",
    permission: "workflows.runs.getPayload",
    errors: atRun,
    params: run,
    answer: payload("output"),
  }),
  CancelRun: operation({
    summary: "Ask a run to end: what it waits for ends as cancelled, and its code may clean up.",
    permission: "workflows.runs.cancel",
    errors: [...atRun, "run_ended"],
    params: run,
    answer: w.run,
  }),
  RetryRun: operation({
    summary: "Run an ended run once more with its completed steps, or let a blocked one go on.",
    permission: "workflows.runs.retry",
    errors: [...atRun, "run_not_ended"],
    params: run,
    answer: w.run,
  }),
} satisfies Record<keyof typeof workflowRoutes, Operation>;
