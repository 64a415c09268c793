/** One try of a step's function: its time limit, and the record of how it ended. Whatever the function does, the outcome is a record. */
import type { StepRecord } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import { cancelledRecord, recordOf } from "./errors.ts";
import { judge, type RetryPolicy } from "./retry.ts";
import type { Fan } from "./signals.ts";
import { encodeValue } from "./value.ts";

/** What a step's function is given. */
export interface StepContext {
  runId: string;
  /** The step's id: its name, with `#n` for repeats. */
  stepId: string;
  /** 1 for the first try. */
  attempt: number;
  /** Aborted when the try is over its time, the run is cancelled, or the execution is lost. */
  signal: AbortSignal;
}

/** A try that took longer than its step's `timeout`. It counts as failed and is tried again like any other. */
export class StepTimeoutError extends Error {
  constructor(stepId: string, seconds: number) {
    super(`step ${stepId} took longer than ${seconds} s`);
    this.name = "StepTimeoutError";
  }
}

/** What every try of one step has in common. */
export interface Trial {
  runId: string;
  id: string;
  type: "run" | "send";
  policy: RetryPolicy;
  timeoutSeconds: number | undefined;
  work(context: StepContext): unknown;
}

/** How tries are made: time, and who else has to know that one is under way. */
export interface Bench {
  runtime: Pick<Runtime, "wait">;
  /** Signals for tries, aborted when the execution is lost or the run is cancelled. */
  tries(): Fan;
  /** Whether the run was cancelled while it is executed. */
  cancelled(): boolean;
  /** The server's present, as well as it is known. */
  now(): number;
}

const maxResultBytes = 262_144;

/** What a step's function is given. Most never look at their signal, and one costs more than all else of a try: it is made when they do. */
class Context implements StepContext {
  readonly runId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly #tries: () => Fan;
  #over: AbortController | undefined;

  constructor({ runId, id }: Trial, attempt: number, { tries }: Bench) {
    this.runId = runId;
    this.stepId = id;
    this.attempt = attempt;
    this.#tries = tries;
  }
  get signal(): AbortSignal {
    return this.#own().signal;
  }
  /** Aborts the signal, also for whoever asks for it afterwards. */
  abort(reason: unknown): void {
    this.#own().abort(reason);
  }
  /** The try is over. */
  release(): void {
    if (this.#over !== undefined) this.#tries().release(this.#over);
  }
  #own(): AbortController {
    this.#over ??= this.#tries().fork();
    return this.#over;
  }
}

/** What the function comes to before so many seconds have passed; then its signal is aborted. */
async function inTime({ id, work }: Trial, seconds: number, context: Context, bench: Bench): Promise<unknown> {
  const result = (async () => work(context))();
  const settled = new AbortController();
  try {
    const late = bench.runtime.wait(seconds * 1000, settled.signal).then(() => {
      if (settled.signal.aborted) return result;
      const error = new StepTimeoutError(id, seconds);
      context.abort(error);
      throw error;
    });
    return await Promise.race([result, late]);
  } finally {
    settled.abort();
  }
}

/** Makes try `attempt` (from 1). Never rejects. */
export async function tryStep(trial: Trial, attempt: number, bench: Bench): Promise<StepRecord> {
  const { id, type, timeoutSeconds } = trial;
  const startedAt = bench.now();
  const context = new Context(trial, attempt, bench);
  try {
    const value = await (timeoutSeconds === undefined ? trial.work(context) : inTime(trial, timeoutSeconds, context, bench));
    const result = encodeValue(value, `the result of step ${id}`, maxResultBytes);
    return { id, type, status: "completed", attempt, startedAt, result };
  } catch (thrown) {
    // What gives up because it is told to is no failure to try again.
    if (bench.cancelled()) return { id, type, status: "failed", attempt, startedAt, error: cancelledRecord };
    const error = recordOf(thrown);
    const verdict = judge(thrown, attempt, trial.policy);
    if (!verdict.again) return { id, type, status: "failed", attempt, startedAt, error };
    return { id, type, status: "retrying", attempt: verdict.spent ? attempt : attempt - 1, startedAt, error, delayMs: verdict.delayMs };
  } finally {
    context.release();
  }
}
