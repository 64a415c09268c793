/** Apps, workflows, runs and steps as their API shows them: ISO times outside, milliseconds inside. Never a secret but a fresh one. */
import type { Answer, Operations } from "@millrace/contract";
import type { AppRow } from "../store/app.ts";
import type { RunRow, StepRow } from "../store/run-rows.ts";
import type { WorkflowRow } from "../store/workflow.ts";
import { payloadOf, shownError } from "./rules.ts";

/** An app as its API shows it. */
export type WireApp = Answer<Operations["GetApp"]>;
/** A run as its API shows it. */
export type WireRun = Answer<Operations["GetRun"]>;
/** A step as its API shows it. */
export type WireStep = Answer<Operations["ListSteps"]>["steps"][number];
/** A workflow as its API shows it. */
export type WireWorkflow = Answer<Operations["ListWorkflows"]>["workflows"][number];

const iso = (ms: number): string => new Date(ms).toISOString();
const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));

/** The wire form; `signingSecret` is given on create and rotate alone. */
export function wireApp(row: AppRow, signingSecret: string | null): WireApp {
  const { id, resourceName, name, mode, url, maxConcurrency, state, protocol, buildId, syncError, notifications } = row;
  const shown = notifications && {
    queueId: notifications.queueId,
    on: notifications.on,
    workflows: notifications.workflows,
    groupBy: notifications.groupBy,
  };
  return {
    id,
    resourceName,
    name,
    mode,
    url,
    signingSecret,
    notifications: shown,
    maxConcurrency,
    state,
    protocol,
    buildId,
    syncedAt: isoOrNull(row.syncedAt),
    syncError,
    status: {
      health: row.failing ? "failing" : "healthy",
      lastError: row.lastError === null ? null : { ...row.lastError, at: iso(row.lastError.at) },
      lastSuccessAt: isoOrNull(row.lastSuccessAt),
    },
    unclaimedMessages: row.unclaimed,
    droppedResults: row.unnotified,
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}

/** The wire form of a workflow. */
export function wireWorkflow({ name, timeoutMs, concurrency, announcedAt }: WorkflowRow): WireWorkflow {
  return { name, timeoutSeconds: timeoutMs === null ? null : timeoutMs / 1000, concurrency, announcedAt: iso(announcedAt) };
}

/** The wire form of a run of the app with this id. */
export function wireRun(appId: string, row: RunRow): WireRun {
  const { id, workflow, status, attempt, executions, steps, journalBytes, source } = row;
  return {
    id,
    appId,
    workflow,
    status,
    reason: row.reason && shownError(row.reason),
    attempt,
    executions,
    steps,
    journalBytes,
    source,
    error: row.error && shownError(row.error),
    cancelledAt: isoOrNull(row.cancelAt),
    createdAt: iso(row.createdAt),
    startedAt: isoOrNull(row.startedAt),
    endedAt: isoOrNull(row.endedAt),
    timeoutAt: iso(row.timeoutAt),
  };
}

/** The wire form of a step; with its result only where it was read. */
export function wireStep(row: StepRow): WireStep {
  const { id, type, status, attempt } = row;
  return {
    id,
    type,
    status,
    attempt,
    dueAt: isoOrNull(row.dueAt),
    childRunId: row.childId,
    startedAt: iso(row.startedAt),
    endedAt: isoOrNull(row.endedAt),
    error: row.error && shownError(row.error),
    ...(row.result === null ? {} : { result: payloadOf(row.result) }),
  };
}
