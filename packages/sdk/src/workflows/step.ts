/**
 * The steps of a workflow's function (W7). Each is a name, a plan and a reading of the outcome; the execution does the rest. What is
 * wrong with a call itself rejects its promise and is not recorded, since it is wrong on every replay.
 */
import { hex, type StepRecord } from "@millrace/contract/wire";
import { type Duration, toSeconds } from "../duration.ts";
import type { ApiError } from "../errors.ts";
import { sha256 } from "../hmac.ts";
import { asDate } from "../meta.ts";
import { NonRetryableError } from "../outcome.ts";
import { type Bench, type StepContext, tryStep } from "./attempt.ts";
import type { Plan, Reach } from "./host.ts";
import { maySendAgain, type QueueMessage, type QueuesClient, type SentToQueue } from "./queues-client.ts";
import { type Retry, type RetryPolicy, readRetry } from "./retry.ts";
import { encodeValue, type Recorded } from "./value.ts";
import type { AnyWorkflow, Workflow } from "./workflow.ts";

/** How a step of one's own function behaves. */
export interface StepOptions {
  /** The workflow's unless given. */
  retry?: Retry;
  /** How long a try may take; its `signal` is aborted then. As long as the execution unless given. */
  timeout?: Duration;
}

/** What a run waits for. */
export interface WaitOptions {
  /** The queue's id. */
  queueId: string;
  /** 1 to 256 letters, digits and `_ . : -`. */
  key: string;
  /** 1 second to 30 days; then the wait ends with `null`. */
  timeoutSeconds: number;
  /** Also takes a message that came up to this long before the wait and that no run has taken; up to 7 days. */
  lookback?: Duration;
}

/** A message that a run waited for. `groupId` and `seq` on FIFO queues. */
export interface WorkflowMessage {
  messageId: string;
  body: string;
  attributes: Record<string, string>;
  sentAt: string;
  queueId: string;
  groupId?: string;
  seq?: string;
}

/** How a run starts another. */
export interface ChildOptions {
  /** Whether to wait for its end; `true` unless given. */
  wait?: boolean;
  /** The app of the workflow by id or name; this run's own unless given. */
  app?: string;
}

/** What a workflow's function does step by step. A step's name is its id; of several with one name the later get `#2`, `#3`, … */
export interface Step {
  /** Carries out `work` once and records what it answers, as JSON. A failing try is made again, by `retry`; then rejects with `StepError`. */
  run<T>(name: string, work: (context: StepContext) => T | Promise<T>, options?: StepOptions): Promise<Recorded<T>>;
  /** Waits, up to 365 days. */
  sleep(name: string, duration: Duration): Promise<void>;
  /** Waits until an instant: a date, Unix milliseconds or an ISO 8601 text. */
  sleepUntil(name: string, at: Date | number | string): Promise<void>;
  /** Waits for a message with this key; `null` after the timeout. */
  waitForMessage(name: string, options: WaitOptions): Promise<WorkflowMessage | null>;
  /** Sends 1 to 10 messages, once however often the run is executed; one result each. */
  sendToQueue(name: string, client: QueuesClient, queueId: string, messages: readonly QueueMessage[]): Promise<SentToQueue[]>;
  /** Starts a run of another workflow and answers what it answers. */
  startRun<Input, Output>(
    name: string,
    workflow: Workflow<Input, Output>,
    input: Input,
    options?: ChildOptions & { wait?: true },
  ): Promise<Recorded<Output>>;
  /** Starts a run of another workflow, by name. */
  startRun<Output = unknown>(name: string, workflow: string, input: unknown, options?: ChildOptions & { wait?: true }): Promise<Output>;
  /** Starts a run and does not wait for it. */
  startRun<Input, Output>(
    name: string,
    workflow: Workflow<Input, Output> | string,
    input: Input,
    options: ChildOptions & { wait: false },
  ): Promise<{ runId: string }>;
  /** The present, the same on every replay. */
  now(): Promise<Date>;
  /** A number in [0, 1), the same on every replay. */
  random(): Promise<number>;
  /** A fresh UUID, the same on every replay. */
  uuid(): Promise<string>;
}

/** What steps need of their execution. */
export interface StepTools {
  reach: Reach;
  bench: Bench;
  runId: string;
  retry: RetryPolicy;
  random(): number;
  uuid(): string;
  /** Sends: the client's own way unless a test looks on. */
  send?(queueId: string, messages: readonly QueueMessage[], idempotencyKey: string): Promise<SentToQueue[]>;
}

const maxInputBytes = 262_144;
/** An input that is not sent along with others, in characters. */
const largeInput = 16_384;
const utf8 = new TextEncoder();

/** Half a character, or U+0000: no journal holds them. */
const unfit = /\0|\p{Surrogate}/u;

function checkName(name: string): void {
  if (typeof name !== "string" || name === "" || name.length > 250 || name.includes("#") || unfit.test(name)) {
    throw new RangeError(`name: a step's name must have 1 to 250 characters, all of them whole, and no #, got ${String(name)}`);
  }
}

/** W16: what makes every try of a send the same. */
const sendHash = async (runId: string, stepId: string): Promise<string> => hex(await sha256(utf8.encode(`${runId}:${stepId}`)));

/** One try of a send. Messages of a FIFO queue, which are those with a group, get a `dedupId` each (W16). */
async function sendOnce(
  { send }: StepTools,
  client: QueuesClient,
  queueId: string,
  messages: readonly QueueMessage[],
  { runId, stepId, signal }: StepContext,
): Promise<SentToQueue[]> {
  const hash = await sendHash(runId, stepId);
  const keyed = messages.map((message, index) =>
    message.groupId === undefined || message.dedupId !== undefined ? message : { ...message, dedupId: `${hash}:${index}` },
  );
  const idempotencyKey = `wfq_${hash}`;
  if (send !== undefined) return send(queueId, keyed, idempotencyKey);
  try {
    return await client.send(queueId, keyed, { idempotencyKey, signal });
  } catch (error) {
    if (maySendAgain(error)) throw error;
    const { code, message } = error as ApiError;
    throw Object.assign(new NonRetryableError(`${code}: ${message}`, { cause: error }), { name: "ApiError" });
  }
}

/** Options of a step that has none. */
const plain: StepOptions = {};
const ignore = (): void => {};

/** The same steps, none of which takes the process with it when it fails and nobody awaits it. */
function unheard(step: Step): Step {
  const methods = Object.entries(step) as [string, (...given: unknown[]) => Promise<unknown>][];
  const quiet = methods.map(([name, method]) => [
    name,
    (...given: unknown[]) => {
      const outcome = method(...given);
      outcome.catch(ignore);
      return outcome;
    },
  ]);
  return Object.fromEntries(quiet) as Step;
}

/** Makes the steps of one execution. */
export function createStep(tools: StepTools): Step {
  const { reach, bench, runId, retry, random, uuid } = tools;
  const value = (name: string, make: () => unknown): Promise<unknown> =>
    reach("value", name, (id) => ({
      kind: "work",
      perform: async () => ({ id, type: "value", status: "completed", result: JSON.stringify(make()) }),
    }));
  const tried = (id: string, type: "run" | "send", work: (context: StepContext) => unknown, options: StepOptions): Plan => {
    const policy = options.retry === undefined ? retry : readRetry(options.retry, retry);
    const timeoutSeconds = options.timeout === undefined ? undefined : toSeconds("timeout", options.timeout, 1);
    return { kind: "work", perform: (attempt) => tryStep({ runId, id, type, policy, timeoutSeconds, work }, attempt, bench) };
  };
  const pending = (type: "sleep" | "wait" | "child", name: string, eager: boolean, record: (id: string) => StepRecord): Promise<unknown> =>
    reach(type, name, (id) => ({ kind: "pending", record: record(id), eager }));

  return unheard({
    // What most steps are, so without a promise of its own. What its plan throws rejects it as well.
    run<T>(name: string, work: (context: StepContext) => T | Promise<T>, options: StepOptions = plain) {
      return reach("run", name, (id) => {
        checkName(name);
        return tried(id, "run", work, options);
      }) as Promise<Recorded<T>>;
    },
    async sleep(name, duration) {
      checkName(name);
      const forMs = toSeconds("duration", duration) * 1000;
      await pending("sleep", name, false, (id) => ({ id, type: "sleep", status: "pending", forMs }));
    },
    async sleepUntil(name, at) {
      checkName(name);
      const until = asDate(at instanceof Date ? at.getTime() : at)?.getTime();
      if (until === undefined) throw new RangeError(`at: must be a date, Unix milliseconds or an ISO 8601 text, got ${String(at)}`);
      await pending("sleep", name, false, (id) => ({ id, type: "sleep", status: "pending", until }));
    },
    async waitForMessage(name, { queueId, key, timeoutSeconds, lookback }) {
      checkName(name);
      if (!/^[A-Za-z0-9_.:-]{1,256}$/.test(key)) throw new RangeError(`key: must be 1 to 256 letters, digits and _ . : -, got ${key}`);
      const timeoutMs = toSeconds("timeoutSeconds", timeoutSeconds, 1, 30 * 86_400) * 1000;
      const lookbackMs = lookback === undefined ? undefined : toSeconds("lookback", lookback, 0, 7 * 86_400) * 1000;
      const eager = lookbackMs !== undefined && lookbackMs > 0;
      const message = await pending("wait", name, eager, (id) => ({
        id,
        type: "wait",
        status: "pending",
        queueId,
        key,
        timeoutMs,
        lookbackMs,
      }));
      return (message ?? null) as WorkflowMessage | null;
    },
    async sendToQueue(name, client, queueId, messages) {
      checkName(name);
      if (messages.length < 1 || messages.length > 10) throw new RangeError(`messages: must be 1 to 10, got ${messages.length}`);
      const work = (context: StepContext) => sendOnce(tools, client, queueId, messages, context);
      return (await reach("send", name, (id) => tried(id, "send", work, plain))) as SentToQueue[];
    },
    async startRun(name: string, target: AnyWorkflow | string, given: unknown, options: ChildOptions = {}) {
      checkName(name);
      const workflow = typeof target === "string" ? target : target.name;
      const input = encodeValue(given, `the input of ${workflow}`, maxInputBytes);
      const { wait = true, app: appId } = options;
      // A child that is not waited for has its end, the run's id, as soon as the server knows of it; a large input goes by itself.
      const eager = !wait || (input?.length ?? 0) > largeInput;
      return pending("child", name, eager, (id) => ({
        id,
        type: "child",
        status: "pending",
        workflow,
        input,
        appId,
        wait,
      })) as Promise<never>;
    },
    now: async () => new Date((await value("now", () => bench.now())) as number),
    random: async () => (await value("random", random)) as number,
    uuid: async () => (await value("uuid", uuid)) as string,
  });
}
