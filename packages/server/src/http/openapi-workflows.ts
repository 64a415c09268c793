/** Examples of the operations on apps and runs: one plausible body and answer each. A test holds each against its shape. */
import type { OperationName } from "@millrace/contract";

const at = "2026-10-13T18:00:00.000Z";
const end = "2026-10-13T18:01:35.000Z";
const appId = "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8";
const runId = "01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c";
const queueId = "01999f3b-0000-7000-8000-000000000007";
const signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";

const app = {
  id: appId,
  resourceName: "wfa_8k2m4n6p9q1r",
  name: "billing-jobs",
  mode: "push",
  url: "https://billing.example.com/workflows",
  signingSecret: null,
  notifications: { queueId, on: ["failed", "timedOut"], workflows: null, groupBy: "run" },
  maxConcurrency: 100,
  state: "active",
  protocol: "1.2",
  buildId: "9f2c41d",
  syncedAt: at,
  syncError: null,
  status: { health: "healthy", lastError: null, lastSuccessAt: at },
  unclaimedMessages: 0,
  droppedResults: 0,
  createdAt: at,
  updatedAt: at,
};
const run = {
  id: runId,
  appId,
  workflow: "chargeCustomer",
  status: "completed",
  reason: null,
  attempt: 1,
  executions: 2,
  steps: 3,
  journalBytes: 412,
  source: { kind: "message", queueId, messageId: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f" },
  error: null,
  cancelledAt: null,
  createdAt: at,
  startedAt: at,
  endedAt: end,
  timeoutAt: "2026-11-12T18:00:00.000Z",
};
const open = {
  ...run,
  status: "queued",
  executions: 0,
  steps: 0,
  journalBytes: 0,
  startedAt: null,
  endedAt: null,
  source: { kind: "api" },
};
const steered = { runIds: [runId], more: false, nextCursor: null };

/** Bodies by operation. */
export const workflowBodies: Partial<Record<OperationName, unknown>> = {
  CreateApp: { name: "billing-jobs", mode: "push", url: app.url },
  UpdateApp: { notifications: { queueId, on: ["failed", "timedOut"], workflows: null } },
  PollTasks: {
    protocol: "1.2",
    buildId: "9f2c41d",
    sdk: "millrace-typescript/0.1.0",
    workflows: [{ name: "chargeCustomer" }],
    max: 10,
    waitSeconds: 20,
  },
  StartRun: { workflow: "chargeCustomer", input: { orderId: 1042 } },
  CancelRuns: { filter: { status: "waiting", workflow: "chargeCustomer" } },
  RetryRuns: { runIds: [runId] },
};

/** Answers by operation. */
export const workflowAnswers: Partial<Record<OperationName, unknown>> = {
  CreateApp: { ...app, signingSecret, protocol: null, buildId: null, syncedAt: null, notifications: null },
  ListApps: { apps: [app], nextCursor: null },
  GetApp: app,
  UpdateApp: app,
  SyncApp: app,
  RotateAppSecret: { ...app, signingSecret },
  ListWorkflows: {
    workflows: [{ name: "chargeCustomer", timeoutSeconds: 86_400, concurrency: null, announcedAt: at }],
    nextCursor: null,
  },
  PollTasks: {
    protocol: "1.2",
    tasks: [
      {
        type: "execute",
        protocol: "1.2",
        executionId: "01999f60-5e6f-7081-92a3-b4c5d6e7f809",
        token: "eyJyIjox.c2ln",
        callbackUrl: "https://millrace.example.com/v1/workflow-executions",
        now: 1_791_309_600_000,
        leaseMs: 30_000,
        run: { id: runId, appId, workflow: "chargeCustomer", attempt: 1, createdAt: 1_791_309_595_000 },
        input: '{"orderId":1042}',
        cancelled: false,
        journal: { steps: [], next: null },
      },
    ],
  },
  StartRun: open,
  ListRuns: { runs: [run], nextCursor: null },
  CancelRuns: steered,
  RetryRuns: steered,
  GetRun: run,
  ListSteps: {
    steps: [
      {
        id: "charge",
        type: "run",
        status: "completed",
        attempt: 1,
        dueAt: null,
        childRunId: null,
        startedAt: at,
        endedAt: at,
        error: null,
        result: { chargeId: "ch_1042" },
      },
      {
        id: "paid",
        type: "wait",
        status: "pending",
        attempt: 0,
        dueAt: "2026-10-14T18:00:00.000Z",
        childRunId: null,
        startedAt: at,
        endedAt: null,
        error: null,
      },
    ],
    nextCursor: null,
  },
  GetRunInput: { input: { orderId: 1042 } },
  GetRunOutput: { output: { shipped: true } },
  CancelRun: { ...run, status: "waiting", endedAt: null, cancelledAt: at },
  RetryRun: { ...open, attempt: 2 },
};
