/** What a program writes down: a function with a name that is run step by step, and survives whatever runs it. */
import { type Duration, toSeconds } from "../duration.ts";
import type { Validate } from "../payload.ts";
import { type Retry, type RetryPolicy, readRetry } from "./retry.ts";
import type { Step } from "./step.ts";

/** The run that the function belongs to. */
export interface RunInfo {
  id: string;
  workflow: string;
  /** 1, and one more each time the ended run is retried. */
  attempt: number;
}

/** What a workflow's function is given. */
export interface WorkflowContext<Input> {
  input: Input;
  step: Step;
  run: RunInfo;
  /** Whether the run was cancelled: its waits throw `CancelledError`, what cleans up may still run steps. */
  cancelled: boolean;
}

/**
 * Must do the same every time as far as its steps' results are the same: what is not sure to (time, chance, network, files) belongs
 * into steps, and only steps are awaited.
 */
export type WorkflowFunction<Input, Output> = (context: WorkflowContext<Input>) => Output | Promise<Output>;

/** How a workflow's runs behave. */
export interface WorkflowOptions<Input> {
  /** Checks the input: a schema (Zod, Valibot, ArkType), or a function that answers it or throws. What does not fit fails the run. */
  input?: Validate<Input>;
  /** Of its steps, unless they say otherwise: 3 more tries, after 1 s, 2 s and 4 s. */
  retry?: Retry;
  /** How long a run may take, waits included; 30 days unless given. */
  timeout?: Duration;
  /** Runs of it that are executed at the same time; only the app's bound unless given. */
  concurrency?: number;
}

/** A workflow. `Input` and `Output` are what `startRun` takes and answers. */
export interface Workflow<Input, Output> {
  readonly name: string;
  readonly run: WorkflowFunction<Input, Output>;
  readonly input: Validate<Input> | undefined;
  readonly retry: RetryPolicy;
  readonly timeoutSeconds: number | undefined;
  readonly concurrency: number | undefined;
}

/** Any workflow, whatever it takes and answers. */
// biome-ignore lint/suspicious/noExplicitAny: a function's input may be anything, and `unknown` would refuse those that say what it is
export type AnyWorkflow = Workflow<any, unknown>;

/** Makes a workflow. Throws a `RangeError` for a name or an option out of bounds. */
// biome-ignore lint/suspicious/noExplicitAny: without a schema the input is what its sender says it is
export function workflow<Input = any, Output = unknown>(
  name: string,
  run: WorkflowFunction<Input, Output>,
  options: WorkflowOptions<Input> = {},
): Workflow<Input, Output> {
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(name)) throw new RangeError(`name: must be 1 to 128 of letters, digits, _ - ., got ${name}`);
  const { concurrency } = options;
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 1000)) {
    throw new RangeError(`concurrency: must be a whole number from 1 to 1000, got ${concurrency}`);
  }
  return {
    name,
    run,
    input: options.input,
    retry: readRetry(options.retry),
    timeoutSeconds: options.timeout === undefined ? undefined : toSeconds("timeout", options.timeout, 1),
    concurrency,
  };
}

/** Workflows by name. Throws a `RangeError` when two have the same. */
export function byName(workflows: readonly AnyWorkflow[]): Map<string, AnyWorkflow> {
  const named = new Map<string, AnyWorkflow>();
  for (const each of workflows) {
    if (named.has(each.name)) throw new RangeError(`workflows: two have the name ${each.name}`);
    named.set(each.name, each);
  }
  return named;
}
