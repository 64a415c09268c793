/** `@millrace/sdk/workflows`: everything that is public. */
export { NonRetryableError, RetryLaterError } from "../outcome.ts";
export { type StepContext, StepTimeoutError } from "./attempt.ts";
export type { ConnectionOptions } from "./connection.ts";
export { CancelledError, StepError, ValueError } from "./errors.ts";
export type { TestClock } from "./memory.ts";
export { type QueueMessage, QueuesClient, type SendToQueueOptions, type SentToQueue } from "./queues-client.ts";
export type { Retry } from "./retry.ts";
export { type ServeOptions, serve, toNodeHandler } from "./serve.ts";
export { type StartedRun, type StartRunOptions, startRun } from "./start-run.ts";
export type { ChildOptions, Step, StepOptions, WaitOptions, WorkflowMessage } from "./step.ts";
export { type TestedRun, type TestedStep, type TestWorkflowOptions, testWorkflow } from "./test-workflow.ts";
export type { Recorded } from "./value.ts";
export { type WorkerErrorContext, type WorkerOptions, type WorkerSummary, worker } from "./worker.ts";
export { type RunInfo, type Workflow, type WorkflowContext, type WorkflowFunction, type WorkflowOptions, workflow } from "./workflow.ts";
