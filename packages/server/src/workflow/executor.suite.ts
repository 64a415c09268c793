/**
 * An executor for tests, in plain JavaScript and by docs/protocol.md alone: a real HTTP endpoint with workflow functions. It replays a
 * journal in its recorded order, records steps by real calls, and can be told to break at any event, as a process that is killed does.
 */
import { createHmac } from "node:crypto";
import { setImmediate as macrotask } from "node:timers/promises";
import type { ExecutionAnswer, JournalStep, RunError, StepRecord, Task } from "@millrace/contract/wire";
import { type ReceivedRequest, type Receiver, type ReceiverAnswer, receiver } from "@millrace/testkit";

export class Cancelled extends Error {}
/** What a step that failed for good throws. */
export class StepFailed extends Error {
  readonly error: RunError;
  constructor(error: RunError) {
    super(error.message);
    this.error = error;
  }
}
/** Ends the process's execution without an answer. */
class Broken extends Error {}

/** What a function may do. */
export interface Step {
  run<T>(id: string, work: (attempt: number) => T | Promise<T>, retry?: { most: number; delayMs: number }): Promise<T>;
  sleep(id: string, forMs: number): Promise<void>;
  wait(id: string, queueId: string, key: string, timeoutMs: number, lookbackMs?: number): Promise<{ body: string } | null>;
  child(id: string, workflow: string, input: unknown, wait?: boolean, appId?: string): Promise<unknown>;
}
export type Workflow = (input: never, step: Step) => Promise<unknown>;

export interface Executor {
  readonly receiver: Receiver;
  /** The functions by name; to be changed for a new deployment, with `buildId`. */
  workflows: Record<string, Workflow>;
  buildId: string;
  protocol: string;
  /** Limits by workflow. */
  concurrency: Record<string, number>;
  /** Tasks in order, and the ids of steps whose work was begun. */
  readonly tasks: Task[];
  readonly effects: string[];
  /** Breaks the process at its `n`th event from now (events: a step's work is done, a record is stored, an answer is ready). */
  breakAt(n: number): void;
  /** How many events there were so far. */
  readonly events: number;
  /** Executes a task as a pull worker does, and answers what is to be reported; `null`: the process broke. */
  execute(task: Task): Promise<ExecutionAnswer | null>;
  /** What the executor answers instead, once. */
  instead(answer: ReceiverAnswer): void;
  close(): Promise<void>;
}

const errorOf = (error: unknown): RunError =>
  error instanceof StepFailed ? error.error : { code: "user", name: (error as Error).name, message: (error as Error).message };

/** Posts to a call of the protocol; answers the JSON. */
export async function report(url: string, body: object): Promise<{ status: number; json: Record<string, never> }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ protocol: "1.2", ...body }),
  });
  return { status: response.status, json: (await response.json()) as Record<string, never> };
}

/** Opens an executor. `tls` serves it over HTTPS. */
export async function openExecutor(tls: { key: string; cert: string }): Promise<Executor> {
  let breakIn = Number.POSITIVE_INFINITY;
  let events = 0;
  const insteads: ReceiverAnswer[] = [];

  const event = (): void => {
    events++;
    if (--breakIn === 0) throw new Broken("killed");
  };

  const journalOf = async (task: Task): Promise<JournalStep[]> => {
    const steps = [...task.journal.steps];
    for (let { next } = task.journal; next !== null; ) {
      const { json } = await report(`${task.callbackUrl}/journal`, { token: task.token, after: next });
      const page = json as unknown as Task["journal"];
      steps.push(...page.steps);
      next = page.next;
    }
    return steps;
  };

  const execute = async (task: Task): Promise<ExecutionAnswer> => {
    const workflow = executor.workflows[task.run.workflow];
    if (workflow === undefined) return { status: "blocked", reason: { code: "workflow_not_found", message: `no ${task.run.workflow}` } };
    const journal = new Map((await journalOf(task)).map((step) => [step.id, step]));
    const left: StepRecord[] = [];
    const reached = new Set<string>();
    const told: { order: number; tell: () => void }[] = [];
    let broken: Broken | undefined;
    let busy = 0;
    let mismatch: string | null = null;

    const record = async (step: StepRecord): Promise<JournalStep | undefined> => {
      const { status, json } = await report(`${task.callbackUrl}/steps`, {
        protocol: executor.protocol,
        executions: [{ token: task.token, steps: [step] }],
      });
      if (status !== 200) throw new Broken(`records are refused: ${JSON.stringify(json)}`);
      const [entry] = json.executions as unknown as [{ ok: boolean; error?: { code: string; message: string }; steps: JournalStep[] }];
      if (!entry.ok) throw new Broken(`${entry.error?.code}: ${entry.error?.message}`);
      event();
      return entry.steps.find(({ id }) => id === step.id);
    };
    const never = <T>(): Promise<T> => new Promise<T>(() => {});
    /** Answers a step from the journal, or carries it out. */
    const take = async <T>(id: string, type: string, known: (step: JournalStep) => Promise<T>, fresh: () => Promise<T>): Promise<T> => {
      reached.add(id);
      const step = journal.get(id);
      if (step !== undefined && step.type !== type) {
        mismatch ??= `step "${id}" is recorded as ${step.type}, and the code came with ${type}`;
        return never();
      }
      if (step === undefined || step.status === "retrying") {
        busy++;
        try {
          return await fresh();
        } catch (error) {
          if (error instanceof Broken) broken = error;
          throw error;
        } finally {
          busy--;
        }
      }
      if (step.status === "pending") return never();
      // The ends of steps are told one after the other, in the order in which the code learned of them.
      await new Promise<void>((tell) => told.push({ order: step.order ?? 0, tell }));
      return known(step);
    };
    const finished = async <T>(step: JournalStep): Promise<T> => {
      if (step.status === "cancelled") throw new Cancelled(`${step.id} was cancelled`);
      if (step.status === "failed") throw new StepFailed(step.error as RunError);
      return (step.result == null ? undefined : JSON.parse(step.result)) as T;
    };
    /** A step that others end: recorded at once, so that it begins. */
    const waited = <T>(step: StepRecord): Promise<T> =>
      take<T>(step.id, step.type, finished, async () => {
        const shown = await record(step);
        if (shown === undefined || shown.status === "pending") {
          busy--;
          try {
            return await never<T>();
          } finally {
            busy++;
          }
        }
        return finished<T>(shown);
      });

    const step: Step = {
      run: <T>(id: string, work: (attempt: number) => T | Promise<T>, retry = { most: 1, delayMs: 0 }) =>
        take<T>(id, "run", finished, async () => {
          const before = journal.get(id);
          if (before?.status === "retrying" && (before.retryAt ?? 0) > task.now) {
            busy--;
            return never<never>().finally(() => busy++);
          }
          const attempt = (before?.attempt ?? 0) + 1;
          executor.effects.push(id);
          try {
            const result = await work(attempt);
            event();
            await record({ type: "run", id, status: "completed", attempt, result: JSON.stringify(result) });
            return result;
          } catch (error) {
            if (error instanceof Broken) throw error;
            const failure = errorOf(error);
            if (attempt < retry.most) {
              await record({ type: "run", id, status: "retrying", attempt, error: failure, delayMs: retry.delayMs });
              busy--;
              return never<never>().finally(() => busy++);
            }
            await record({ type: "run", id, status: "failed", attempt, error: failure });
            throw new StepFailed(failure);
          }
        }),
      sleep: (id, forMs) => waited<void>({ type: "sleep", id, status: "pending", forMs }),
      wait: (id, queueId, key, timeoutMs, lookbackMs) =>
        waited({ type: "wait", id, status: "pending", queueId, key, timeoutMs, lookbackMs }),
      child: (id, workflow, input, wait = true, appId) =>
        waited({ type: "child", id, status: "pending", workflow, input: JSON.stringify(input), wait, appId }),
    };

    let end: ExecutionAnswer | undefined;
    const input = (task.input === null ? undefined : JSON.parse(task.input)) as never;
    workflow(input, step).then(
      (output) => {
        end = { status: "completed", output: output === undefined ? null : JSON.stringify(output) };
      },
      (error: unknown) => {
        end = error instanceof Cancelled ? { status: "cancelled" } : { status: "failed", error: errorOf(error) };
      },
    );
    for (;;) {
      await macrotask();
      if (broken !== undefined) throw broken;
      if (mismatch !== null) return { status: "blocked", reason: { code: "nondeterminism", message: mismatch } };
      if (end !== undefined) break;
      told.sort((a, b) => a.order - b.order);
      const next = told.shift();
      if (next !== undefined) next.tell();
      else if (busy === 0) {
        await macrotask();
        if (busy === 0 && told.length === 0 && end === undefined) break;
      }
    }
    const missing = [...journal.keys()].find((id) => !reached.has(id));
    if (missing !== undefined)
      return {
        status: "blocked",
        reason: { code: "nondeterminism", message: `step "${missing}" is recorded, and the code never came to it` },
      };
    event();
    return end ?? { status: "suspended", steps: left };
  };

  const answer = async (request: ReceivedRequest): Promise<ReceiverAnswer> => {
    const other = insteads.shift();
    if (other !== undefined) return other;
    const call = request.json<Task | { type: "sync" }>();
    if (call.type === "sync") {
      const { buildId, protocol } = executor;
      return {
        body: JSON.stringify({
          protocol,
          buildId,
          sdk: "test",
          workflows: Object.keys(executor.workflows).map((name) => ({ name, concurrency: executor.concurrency[name] })),
        }),
      };
    }
    executor.tasks.push(call);
    const given = await executor.execute(call);
    if (given === null) return { drop: "request" };
    return { body: JSON.stringify({ protocol: executor.protocol, buildId: executor.buildId, ...given }) };
  };

  const executor: Executor = {
    receiver: await receiver({ tls, answer }),
    workflows: {},
    buildId: "build-1",
    protocol: "1.2",
    concurrency: {},
    tasks: [],
    effects: [],
    get events() {
      return events;
    },
    breakAt(n) {
      breakIn = n;
    },
    async execute(task) {
      try {
        return await execute(task);
      } catch (error) {
        if (error instanceof Broken) return null;
        throw error;
      }
    },
    instead: (given) => insteads.push(given),
    close: () => executor.receiver.close(),
  };
  return executor;
}

/** Whether a request's `EZGH-Signature` is genuine under the secret. */
export function isGenuine(request: ReceivedRequest, secret: string): boolean {
  const parts = String(request.headers["ezgh-signature"]).split(",");
  const t = parts.find((part) => part.startsWith("t="))?.slice(2) ?? "";
  const key = new Uint8Array(Buffer.from(secret.slice("whsec_".length), "base64url"));
  return parts.includes(`v1=${createHmac("sha256", key).update(`${t}.`).update(request.body).digest("hex")}`);
}
