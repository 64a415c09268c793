/** One task, from its journal's pages to its answer: what push and pull have in common. */
import { type ExecutionAnswer, type JournalStep, speaks, type Task } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import type { Callback } from "./callbacks.ts";
import { blocked, ExecutionOver, type Host } from "./host.ts";
import type { Reporter } from "./reporter.ts";
import { runWorkflow } from "./run.ts";
import type { Halt } from "./signals.ts";
import { turn } from "./turn.ts";
import type { AnyWorkflow } from "./workflow.ts";

/** What a transport adds to a task. */
export interface Surrounds {
  workflows: ReadonlyMap<string, AnyWorkflow>;
  /** The server that the task is from. */
  callback: Callback;
  runtime: Runtime;
  /** Aborted when the execution is lost, by the transport or because the server says so. */
  lost: Halt;
  /** Whether no step may begin any more. */
  closing(): boolean;
}

/** A pause before a step's retry that is waited for here instead of giving the run back. */
const lingerMs = 2000;

/** All steps of a journal of several pages. */
async function wholeJournal({ journal, token }: Task, reporter: Reporter): Promise<JournalStep[]> {
  const steps = [...journal.steps];
  for (let { next } = journal; next !== null; ) {
    const page = await reporter.page(token, next);
    steps.push(...page.steps);
    next = page.next;
  }
  return steps;
}

/** Moves a run on as far as it goes. `undefined`: the execution is lost, or the server has ended it already. Never rejects. */
export async function runTask(task: Task, around: Surrounds): Promise<ExecutionAnswer | undefined> {
  const { runtime, lost } = around;
  const { reporter, watch } = around.callback;
  if (!speaks(task.protocol)) return blocked("protocol_unsupported", `this SDK speaks 1.2, not ${task.protocol}`);
  const workflow = around.workflows.get(task.run.workflow);
  if (workflow === undefined) return blocked("workflow_not_found", `no workflow ${task.run.workflow} here`);
  const startedAt = runtime.now();
  let { steps } = task.journal;
  try {
    if (task.journal.next !== null) steps = await wholeJournal(task, reporter);
  } catch (error) {
    return error instanceof ExecutionOver ? error.answer : undefined;
  }
  const meanwhile = watch.follow(task, lost);
  const host: Host = {
    async record(records) {
      const said = await reporter.record(task.token, records, lost);
      meanwhile.hear(said.standing);
      return said.steps;
    },
    turn,
    now: () => task.now + Math.round(runtime.now() - startedAt),
    wait: runtime.wait,
    patience: (ms) => runtime.wait(ms, lost.signal),
    lingerMs,
    // A cancellation is told to the code by the next execution, whose journal has it in its place.
    closing: () => around.closing() || meanwhile.cancelling.aborted,
    signal: lost,
    cancelling: meanwhile.cancelling,
    onEnded: meanwhile.onEnded,
  };
  const { id: runId, attempt } = task.run;
  const run = { runId, attempt, cancelled: task.cancelled, steps, input: task.input };
  try {
    return await runWorkflow(workflow, run, { host, runtime });
  } finally {
    meanwhile.stop();
  }
}
