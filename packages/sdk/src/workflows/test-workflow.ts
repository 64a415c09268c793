/** Runs a workflow without a server: its steps for real, its waiting in no time. What it did is then replayed, and must be done again. */
import type { ExecutionAnswer, JournalStep, RunError } from "@millrace/contract/wire";
import { type Duration, toSeconds } from "../duration.ts";
import { platform } from "../runtime.ts";
import type { Host } from "./host.ts";
import { createMemory, type TestClock, type TestMessage } from "./memory.ts";
import type { QueueMessage } from "./queues-client.ts";
import { runWorkflow } from "./run.ts";
import { turn } from "./turn.ts";
import { decodeValue, encodeValue, type Recorded } from "./value.ts";
import { workflow as define, type Workflow, type WorkflowFunction } from "./workflow.ts";

/** What a run is tested with. */
export interface TestWorkflowOptions<Input> {
  input?: Input;
  /** For its `waitForMessage`: each comes to the first wait that it fits, or `after` some time to a run that waits then. */
  messages?: readonly (Omit<TestMessage, "afterMs"> & { after?: Duration })[];
  /** What runs of other workflows answer that it starts, by the workflow's name. */
  runs?: Readonly<Record<string, (input: unknown) => unknown>>;
  /** Cancels the run after some time. */
  cancelAfter?: Duration;
  /** Time, which sleeps and timeouts move on; it begins now unless given. */
  clock?: TestClock;
  runId?: string;
}

/** A step of a tested run. */
export interface TestedStep {
  id: string;
  type: JournalStep["type"];
  status: JournalStep["status"];
  result: unknown;
  error: RunError | undefined;
}

/** How a tested run ended. */
export interface TestedRun<Output> {
  /** `timedOut`: its waits took longer than the workflow's `timeout`, or 30 days. */
  status: "completed" | "failed" | "cancelled" | "timedOut";
  /** Of a completed run. */
  output: Output | undefined;
  error: RunError | undefined;
  steps: TestedStep[];
  /** What `sendToQueue` sent, in order: nothing leaves the process. */
  sent: { queueId: string; messages: readonly QueueMessage[]; idempotencyKey: string }[];
  /** How often the function was called. */
  executions: number;
}

/** How long a run may take unless its workflow says otherwise. */
const defaultTimeoutSeconds = 30 * 86_400;
/** Beyond this the run goes round in circles. */
const maxExecutions = 100_000;

function standingClock(): TestClock {
  let now = Date.now();
  return {
    now: () => now,
    advance(ms) {
      now += ms;
    },
  };
}

/**
 * Runs a workflow, or a workflow's bare function, to its end. Rejects when it can never end, and when a replay of its own journal comes
 * to something else: then it does something outside of its steps that is not the same every time.
 */
export async function testWorkflow<Input, Output>(
  tested: Workflow<Input, Output> | WorkflowFunction<Input, Output>,
  options: TestWorkflowOptions<Input> = {},
): Promise<TestedRun<Recorded<Output>>> {
  const workflow = typeof tested === "function" ? define("tested", tested) : tested;
  const clock = options.clock ?? standingClock();
  const sent: TestedRun<Output>["sent"] = [];
  const { timeoutSeconds = defaultTimeoutSeconds } = workflow;
  const memory = createMemory({
    clock,
    timeoutMs: timeoutSeconds * 1000,
    messages: (options.messages ?? []).map(({ after, ...message }) => ({
      ...message,
      ...(after === undefined ? {} : { afterMs: toSeconds("after", after) * 1000 }),
    })),
    runs: options.runs ?? {},
    uuid: platform.uuid,
    ...(options.cancelAfter === undefined ? {} : { cancelAfterMs: toSeconds("cancelAfter", options.cancelAfter) * 1000 }),
  });
  const runId = options.runId ?? platform.uuid();
  const input = encodeValue(options.input, "input", Number.MAX_SAFE_INTEGER);
  const lost = new AbortController();

  const execute = (record: Host["record"]): Promise<ExecutionAnswer | undefined> => {
    const host: Host = {
      record,
      turn,
      now: () => clock.now(),
      // Time moves only while nothing is under way.
      wait: () => new Promise(() => {}),
      patience: platform.wait,
      lingerMs: -1,
      closing: () => false,
      signal: lost.signal,
    };
    const run = { runId, attempt: 1, cancelled: memory.cancelled, steps: memory.load(), input };
    const send = async (queueId: string, messages: readonly QueueMessage[], idempotencyKey: string) => {
      sent.push({ queueId, messages, idempotencyKey });
      return messages.map(({ groupId }, index) => ({
        messageId: platform.uuid(),
        ...(groupId === undefined ? {} : { seq: String(index) }),
      }));
    };
    return runWorkflow(workflow, run, { host, runtime: platform, send });
  };

  const ended = (executions: number, status: TestedRun<Output>["status"], output: unknown, error: RunError | undefined) => ({
    status,
    output: output as Recorded<Output> | undefined,
    error,
    steps: memory.load().map(({ id, type, status, result, error }) => ({ id, type, status, result: decodeValue(result), error })),
    sent,
    executions,
  });

  for (let executions = 1; executions <= maxExecutions; executions += 1) {
    const answer = await execute(async (records) => memory.record(records));
    if (answer === undefined || answer.status === "blocked") throw new Error(answer?.reason.message ?? "the execution was lost");
    if (answer.status === "suspended") {
      memory.keep(answer.steps ?? []);
      if (await memory.wake()) continue;
      if (!memory.timedOut) throw new Error("the run waits for something that never comes");
      const message = `the run took longer than ${timeoutSeconds} s`;
      return ended(executions, "timedOut", undefined, { code: "timeout", name: "TimeoutError", message });
    }
    await expectSame(answer, execute);
    if (answer.status !== "completed") return ended(executions, memory.cancelled ? "cancelled" : answer.status, undefined, answer.error);
    return memory.cancelled
      ? ended(executions, "cancelled", undefined, undefined)
      : ended(executions, "completed", decodeValue(answer.output), undefined);
  }
  throw new Error(`the run is not over after ${maxExecutions} executions`);
}

/** Replays an ended run from its journal, recording nothing. */
async function expectSame(
  answer: ExecutionAnswer,
  execute: (record: Host["record"]) => Promise<ExecutionAnswer | undefined>,
): Promise<void> {
  const again = await execute(async ([first]) => {
    throw new Error(`a replay came to step ${first?.id}, which the run did not have`);
  });
  const told = (given: ExecutionAnswer | undefined): string =>
    given?.status === "completed"
      ? (given.output ?? "nothing")
      : given?.status === "failed"
        ? given.error.message
        : (given?.status ?? "nothing");
  if (again?.status === "blocked") throw new Error(again.reason.message);
  if (again?.status !== answer.status || told(again) !== told(answer)) {
    throw new Error(
      `a replay of the run ended with ${told(again)} instead of ${told(answer)}: the function does something outside of its steps that differs each time`,
    );
  }
}
