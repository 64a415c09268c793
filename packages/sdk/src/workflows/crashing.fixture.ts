/** Executes a run on a journal in memory and lets its process die as often as a test says: right behind any record, or in front of it. */
import type { ExecutionAnswer, JournalStep } from "@millrace/contract/wire";
import { ExecutionOver, type Host } from "./host.ts";
import { createMemory, type Memory, type MemoryOptions } from "./memory.ts";
import { runWorkflow } from "./run.ts";
import { turn } from "./turn.ts";
import type { AnyWorkflow } from "./workflow.ts";

export interface Crashing {
  memory: Memory;
  /** One execution of a workflow; dies behind the `after`-th record (from 1), or in front of it with `before`. */
  execute(workflow: AnyWorkflow, crash?: { at: number; before?: boolean }): Promise<ExecutionAnswer | undefined>;
  /** Executes to the end, waking as needed. */
  finish(workflow: AnyWorkflow): Promise<ExecutionAnswer>;
  steps(): JournalStep[];
  /** Records so far, over all executions. */
  records(): number;
}

export function crashing(given: Partial<MemoryOptions> & { input?: unknown; attempt?: number } = {}): Crashing {
  let now = 1_000_000;
  let ids = 0;
  let records = 0;
  const clock = {
    now: () => now,
    advance(ms: number) {
      now += ms;
    },
  };
  const memory = createMemory({ clock, messages: [], runs: {}, uuid: () => `id-${++ids}`, ...given });
  const input = given.input === undefined ? undefined : JSON.stringify(given.input);

  const execute: Crashing["execute"] = async (workflow, crash) => {
    const lost = new AbortController();
    let recorded = 0;
    let dead = false;
    const host: Host = {
      async record(made) {
        // As a network does: the answer comes later than everything that is ready now.
        await turn();
        // A server refuses what a dead execution still has under way.
        if (dead) throw new ExecutionOver("stale");
        recorded += 1;
        records += 1;
        const dies = crash !== undefined && recorded >= crash.at;
        dead = dies;
        if (dies && crash.before === true) throw new ExecutionOver("killed");
        const answered = memory.record(made);
        if (dies) throw new ExecutionOver("killed");
        return answered;
      },
      turn,
      now: () => now,
      wait: () => new Promise(() => {}),
      patience: turn,
      lingerMs: -1,
      closing: () => false,
      signal: lost.signal,
    };
    const attempt = given.attempt ?? 1;
    const run = { runId: "run-1", attempt, cancelled: memory.cancelled, steps: memory.load(), input };
    const runtime = { wait: host.wait, random: () => 0.25, uuid: () => `id-${++ids}` };
    const answer = await runWorkflow(workflow, run, { host, runtime });
    dead = true;
    if (answer?.status === "suspended") memory.keep(answer.steps ?? []);
    return answer;
  };

  return {
    memory,
    execute,
    steps: () => memory.load(),
    records: () => records,
    async finish(workflow) {
      for (let n = 0; n < 1000; n += 1) {
        const answer = await execute(workflow);
        if (answer?.status !== "suspended") return answer as ExecutionAnswer;
        if (!(await memory.wake())) throw new Error("the run waits for something that never comes");
      }
      throw new Error("the run goes round in circles");
    },
  };
}
