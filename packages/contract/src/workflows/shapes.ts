/**
 * The shapes of apps, workflows and runs (W1 to W3), declared once. Times are ISO 8601 UTC with milliseconds, durations whole seconds.
 * Payloads are JSON values here; what executors send is in `protocol.ts`.
 */
import { z } from "zod";
import { errorClass, paging, queueName, reference, uuid, withoutNul } from "../shapes.ts";
import { givenRunId, workflowName } from "./protocol.ts";

const time = z.string();

/** Not of a UUID's or a resource name's form, so that a reference is never two things. */
export const appName = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/, "1 to 128 of letters, digits, _ . -")
  .refine((name) => queueName.safeParse(name).success, "not . or .. nor of a UUID's form")
  .refine((name) => !/^wfa_[a-z0-9]{12}$/.test(name), "not of a resource name's form");

const ending = z.enum(["completed", "failed", "cancelled", "timedOut"]);
export const runStatus = z.enum(["queued", "running", "waiting", ...ending.options]);

/** W17: where a message goes for each run that ends. `workflows` `null`: of all workflows. */
export const notifications = z.strictObject({
  queueId: reference,
  on: z.array(ending).min(1).max(4),
  workflows: z.array(workflowName).min(1).max(100).nullable().optional(),
  groupBy: z.enum(["run", "workflow"]).optional(),
});

const maxConcurrency = z.int().min(1).max(1000);
export const createApp = z.strictObject({
  name: appName,
  mode: z.enum(["push", "pull"]),
  url: z.string().min(1).optional(),
  maxConcurrency: maxConcurrency.optional(),
  notifications: notifications.nullable().optional(),
});
export const updateApp = z.strictObject({
  url: z.string().min(1).optional(),
  maxConcurrency: maxConcurrency.optional(),
  notifications: notifications.nullable().optional(),
  state: z.enum(["active", "paused"]).optional(),
});
export const app = z.object({
  id: z.string(),
  resourceName: z.string(),
  name: z.string(),
  mode: z.enum(["push", "pull"]),
  url: z.string().nullable(),
  /** On create and rotate only; `null` of a pull app and everywhere else. */
  signingSecret: z.string().nullable(),
  notifications: z
    .object({
      queueId: z.string(),
      on: z.array(ending),
      workflows: z.array(z.string()).nullable(),
      groupBy: z.enum(["run", "workflow"]),
    })
    .nullable(),
  maxConcurrency: z.int(),
  state: z.enum(["active", "paused"]),
  protocol: z.string().nullable(),
  buildId: z.string().nullable(),
  syncedAt: time.nullable(),
  syncError: z.string().nullable(),
  status: z.object({
    health: z.enum(["healthy", "failing"]),
    lastError: z.object({ at: time, class: errorClass, status: z.int().optional(), message: z.string() }).nullable(),
    lastSuccessAt: time.nullable(),
  }),
  /** Kept messages that no run took in time, and run results that were dropped, since the app was made. */
  unclaimedMessages: z.int(),
  droppedResults: z.int(),
  createdAt: time,
  updatedAt: time,
});

export const workflow = z.object({
  name: z.string(),
  timeoutSeconds: z.number().nullable(),
  concurrency: z.int().nullable(),
  announcedAt: time,
});

/** `input` is any JSON value; its text has at most 262,144 bytes. */
export const startRun = z.strictObject({
  workflow: workflowName,
  input: z.unknown().optional(),
  runId: givenRunId.optional(),
  timeoutSeconds: z.int().min(1).max(31_536_000).optional(),
});
const failure = z.object({ code: z.string().optional(), name: z.string(), message: z.string(), stack: z.string().optional() });
export const run = z.object({
  id: z.string(),
  appId: z.string(),
  workflow: z.string(),
  status: runStatus,
  /** What a blocked run waits for somebody to mend. */
  reason: failure.nullable(),
  attempt: z.int(),
  executions: z.int(),
  steps: z.int(),
  journalBytes: z.int(),
  source: z.union([
    z.object({ kind: z.literal("api") }),
    z.object({ kind: z.literal("message"), queueId: z.string(), messageId: z.string() }),
    z.object({ kind: z.literal("run"), runId: z.string(), stepId: z.string() }),
  ]),
  error: failure.nullable(),
  cancelledAt: time.nullable(),
  createdAt: time,
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  timeoutAt: time,
});
const runFilter = {
  status: runStatus.optional(),
  workflow: workflowName.optional(),
  since: z.iso.datetime().optional(),
  until: z.iso.datetime().optional(),
  /** Part of an id, a workflow's name, a message's or queue's id it was started by, or its error. */
  text: z.string().min(1).max(200).refine(withoutNul, "without U+0000").optional(),
};
export const listRuns = paging.extend(runFilter);
/** Either runs by id, or the newest 1,000 that a filter finds, from `cursor` on. */
export const steerRuns = z
  .strictObject({
    runIds: z.array(uuid).min(1).max(100).optional(),
    filter: z.strictObject(runFilter).optional(),
    cursor: paging.shape.cursor,
  })
  .refine(({ runIds, filter }) => (runIds === undefined) !== (filter === undefined), "either runIds or filter")
  .refine(({ filter, cursor }) => cursor === undefined || filter !== undefined, "a cursor only with a filter");
/** The runs that were changed; `more` when the filter may find older ones, from `nextCursor` on. */
export const steeredRuns = z.object({ runIds: z.array(z.string()), more: z.boolean(), nextCursor: z.string().nullable() });

export const step = z.object({
  id: z.string(),
  type: z.enum(["run", "send", "value", "sleep", "wait", "child"]),
  status: z.enum(["pending", "retrying", "completed", "failed", "cancelled"]),
  attempt: z.int(),
  /** The end of a sleep, a wait's timeout, the next try. */
  dueAt: time.nullable(),
  childRunId: z.string().nullable(),
  startedAt: time,
  endedAt: time.nullable(),
  error: failure.nullable(),
  /** Only for keys that may read payloads, and only where there is one. */
  result: z.unknown().optional(),
});
