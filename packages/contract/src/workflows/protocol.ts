/**
 * What executors send (docs/protocol.md), with its bounds: announcements, step records, answers; and the tasks that pull workers get. Unknown members are passed over, for a
 * newer minor version may have sent them. Payloads stay JSON texts; that they parse is checked, so that every journal can be read.
 */
import { z } from "zod";
import { cut } from "../wire/format.ts";
import { type Announcement, type ExecutionAnswer, protocolLimits, type RunError, type StepRecord } from "../wire/workflow-protocol.ts";

const DAY_MS = 86_400_000;
const withoutNul = (text: string): boolean => !text.includes("\0");
const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};
const json = z.string().refine(parses, "JSON text").nullish();
const ms = (min: number, max: number) => z.int().min(min).max(max);
const instant = ms(0, Number.MAX_SAFE_INTEGER);
/** No database text holds U+0000, nor half a character. */
const unfit = /\0|\p{Surrogate}/gu;
const cutTo = (max: number) => z.string().overwrite((text) => cut(text, max).replace(unfit, "\ufffd"));

/** The name of a workflow. */
export const workflowName = z.string().regex(/^[A-Za-z0-9_.-]{1,128}$/, "1 to 128 of letters, digits, _ - .");

/** A run's id of the caller's own choice. Those of version 8 follow from a message or a step: nobody may take them beforehand. */
export const givenRunId = z
  .string()
  .regex(
    /^[0-9a-f]{8}-[0-9a-f]{4}-[0-79a-f][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    "a UUID in lower case, not of version 8, which the server's own are",
  );

/** An error; over-long texts are cut, for the failure they tell of has happened all the same. */
export const runError: z.ZodType<RunError> = z.object({
  code: cutTo(64).optional(),
  name: cutTo(200),
  message: cutTo(2_000),
  stack: cutTo(8_000).optional(),
});

const version = z.string().regex(/^\d{1,6}\.\d{1,6}$/, "a version such as 1.2");
const build = z.string().min(1).max(200).refine(withoutNul, "without U+0000");

/** W2: what a push app answers to a sync and a pull worker says with every poll. */
export const announcement: z.ZodType<Announcement> = z.object({
  protocol: version,
  buildId: build,
  sdk: z.string().max(200).optional(),
  workflows: z
    .array(z.object({ name: workflowName, timeoutMs: ms(1_000, 365 * DAY_MS).nullish(), concurrency: z.int().min(1).max(1_000).nullish() }))
    .max(1_000),
});

const id = z
  .string()
  .min(1)
  .max(256)
  .refine((text) => text.search(unfit) < 0, "well-formed text without U+0000");
const tried = { id, type: z.enum(["run", "send"]), attempt: z.int().min(1).max(1_000_000), startedAt: instant.optional() };
const pending = { id, status: z.literal("pending") };

/** A step as an executor records it. */
export const stepRecord: z.ZodType<StepRecord> = z.discriminatedUnion("type", [
  z.discriminatedUnion("status", [
    z.object({ ...tried, status: z.literal("completed"), result: json }),
    z.object({ ...tried, status: z.literal("failed"), error: runError }),
    z.object({
      ...tried,
      // A try that asked for a later one without being counted leaves 0 of them.
      attempt: z.int().min(0).max(1_000_000),
      status: z.literal("retrying"),
      error: runError,
      delayMs: ms(0, 30 * DAY_MS),
    }),
  ]),
  z.object({ id, type: z.literal("value"), status: z.literal("completed"), result: json }),
  z
    .object({ ...pending, type: z.literal("sleep"), forMs: ms(0, 365 * DAY_MS).optional(), until: instant.optional() })
    .refine(({ forMs, until }) => (forMs === undefined) !== (until === undefined), "either forMs or until"),
  z.object({
    ...pending,
    type: z.literal("wait"),
    queueId: z.string().max(200).refine(withoutNul, "without U+0000"),
    key: z.string().regex(/^[A-Za-z0-9_.:-]{1,256}$/, "1 to 256 of letters, digits, _ . : -"),
    timeoutMs: ms(1_000, 30 * DAY_MS),
    lookbackMs: ms(0, 7 * DAY_MS).optional(),
  }),
  z.object({
    ...pending,
    type: z.literal("child"),
    workflow: workflowName,
    input: json,
    appId: z.string().max(200).refine(withoutNul, "without U+0000").optional(),
    runId: givenRunId.optional(),
    wait: z.boolean(),
  }),
]);

const steps = z.array(stepRecord).max(protocolLimits.callSteps).optional();

/** What ends an execution. */
export const executionAnswer: z.ZodType<ExecutionAnswer> = z.discriminatedUnion("status", [
  z.object({ status: z.literal("completed"), output: json, steps }),
  z.object({ status: z.literal("failed"), error: runError, steps }),
  z.object({ status: z.literal("cancelled"), error: runError.optional(), steps }),
  z.object({ status: z.literal("suspended"), again: z.boolean().optional(), steps }),
  z.object({
    status: z.literal("blocked"),
    reason: z.object({
      code: z.enum(["nondeterminism", "workflow_not_found", "protocol_unsupported"]),
      message: cutTo(2_000),
    }),
  }),
]);

const token = z.string().min(1).max(500);

/** The calls with which executions report; `protocol` is the caller's version. */
export const executionCalls = {
  steps: z.object({
    protocol: version,
    executions: z
      .array(z.object({ token, steps: z.array(stepRecord).min(1).max(protocolLimits.callSteps) }))
      .min(1)
      .max(protocolLimits.callExecutions)
      .refine(
        (executions) => executions.reduce((sum, { steps: some }) => sum + some.length, 0) <= protocolLimits.callSteps,
        `at most ${protocolLimits.callSteps} steps in all`,
      ),
  }),
  journal: z.object({ protocol: version, token, after: z.string().regex(/^\d{1,15}$/, "the next of a page") }),
  heartbeat: z.object({
    protocol: version,
    tokens: z.array(token).min(1).max(protocolLimits.callExecutions),
    /** `false` only looks: no lease grows. */
    extend: z.boolean().optional(),
  }),
  end: z.object({
    protocol: version,
    buildId: build.optional(),
    executions: z
      .array(z.object({ token, answer: executionAnswer }))
      .min(1)
      .max(protocolLimits.callExecutions),
  }),
} as const;

/** What a pull worker asks for. */
export const pollCall = z.object({
  protocol: version,
  buildId: build,
  sdk: z.string().max(200).optional(),
  workflows: z
    .array(z.object({ name: workflowName, timeoutMs: ms(1_000, 365 * DAY_MS).nullish(), concurrency: z.int().min(1).max(1_000).nullish() }))
    .max(1_000),
  max: z.int().min(1).max(100),
  waitSeconds: z.int().min(0).max(20),
});

/** A step as the journal of a task has it. */
const journalStep = z.object({
  id: z.string(),
  type: z.enum(["run", "send", "value", "sleep", "wait", "child"]),
  status: z.enum(["pending", "retrying", "completed", "failed", "cancelled"]),
  attempt: z.int().optional(),
  order: z.int().optional(),
  retryAt: z.int().optional(),
  until: z.int().optional(),
  runId: z.string().optional(),
  result: z.string().nullish(),
  error: runError.optional(),
});

/** One execution of a run, as the answer of a poll has it. */
export const task = z.object({
  type: z.literal("execute"),
  protocol: z.string(),
  executionId: z.string(),
  token: z.string(),
  callbackUrl: z.string(),
  now: z.int(),
  leaseMs: z.int(),
  run: z.object({ id: z.string(), appId: z.string(), workflow: z.string(), attempt: z.int(), createdAt: z.int() }),
  input: z.string().nullable(),
  cancelled: z.boolean(),
  journal: z.object({ steps: z.array(journalStep), next: z.string().nullable() }),
});
