/**
 * A pull app's worker (W6): it polls for tasks, keeps their leases and reports their answers. Invariant: it takes no more tasks than it
 * executes at the same time, and when it is stopped it begins no step any more and gives every run back.
 */
import type { Task } from "@millrace/contract/wire";
import { variable } from "../environment.ts";
import { ConfigurationError, MillraceError } from "../errors.ts";
import { messageOf } from "../text.ts";
import { retryDelayMs } from "../transport.ts";
import { announcementOf } from "./announce.ts";
import { createCallbacks } from "./callbacks.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { createLeases } from "./leases.ts";
import { Halt } from "./signals.ts";
import { runTask } from "./task.ts";
import { turn } from "./turn.ts";
import { type AnyWorkflow, byName } from "./workflow.ts";

/** Where an error came up, and with which run. */
export interface WorkerErrorContext {
  during: "poll" | "execute" | "report";
  runId: string | undefined;
}

/** How a worker works. */
export interface WorkerOptions extends ConnectionOptions {
  /** By id or name; `MILLRACE_APP`. */
  app?: string;
  workflows: readonly AnyWorkflow[];
  /** Runs that are executed at the same time, 1 to 1000; 10 unless given. */
  concurrency?: number;
  /** Stops the worker: steps that were begun end and are recorded, then their runs are given back. */
  signal?: AbortSignal;
  /** Names the deployed code, and must change with it; `MILLRACE_BUILD_ID`, else made of the functions' texts, `timeout` and `concurrency`. */
  buildId?: string;
  /** Told of every error; written to the console unless given. What it throws is ignored. */
  onError?: (error: unknown, context: WorkerErrorContext) => void;
}

/** What a worker did until it stopped. */
export interface WorkerSummary {
  /** Executions that were answered. A run takes one more than it suspends. */
  executions: number;
}

const maxPoll = 100;
const pollSeconds = 20;
/** An empty answer that came faster than this is followed by a pause: a paused app may answer at once. */
const emptyPauseMs = 1000;

/** Works until it is stopped. Rejects, once what was begun is reported, with an error that waiting cannot mend. */
export async function worker(options: WorkerOptions): Promise<WorkerSummary> {
  const { workflows, signal, concurrency = 10 } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 1000) {
    throw new RangeError(`concurrency: must be a whole number from 1 to 1000, got ${concurrency}`);
  }
  const app = options.app ?? variable("MILLRACE_APP");
  if (app === undefined) throw new ConfigurationError("No app. Set MILLRACE_APP, or pass app.");
  const named = byName(workflows);
  const announcement = await announcementOf(workflows, options.buildId);
  const { transport, projectPath, runtime } = connect(options, 0);
  const path = `${projectPath()}/apps/${encodeURIComponent(app)}/poll`;
  const callbackTo = createCallbacks(announcement.buildId, runtime);
  const leases = createLeases(runtime);
  const running = new Set<Promise<void>>();
  const summary: WorkerSummary = { executions: 0 };

  const report = (error: unknown, during: WorkerErrorContext["during"], runId?: string): void => {
    try {
      if (options.onError !== undefined) options.onError(error, { during, runId });
      else console.error(`worker, ${during}${runId === undefined ? "" : ` of run ${runId}`}: ${messageOf(error)}`);
    } catch {
      // a reporter that fails must not take the worker with it
    }
  };

  const closing = () => signal?.aborted === true;
  const work = async (task: Task): Promise<void> => {
    const lost = new Halt();
    const callback = callbackTo(task.callbackUrl);
    const release = leases.keep(task, callback.reporter, lost);
    try {
      const answer = await runTask(task, { workflows: named, callback, runtime, lost, closing });
      if (lost.aborted) return report(lost.reason, "execute", task.run.id);
      if (answer === undefined) return;
      await callback.reporter.end(task.token, answer, lost);
      summary.executions += 1;
    } catch (error) {
      report(error, "report", task.run.id);
    } finally {
      release();
    }
  };

  let failure: unknown;
  for (let failures = 0; signal?.aborted !== true; ) {
    const free = Math.min(maxPoll, concurrency - running.size);
    if (free <= 0) {
      await Promise.race(running);
      // Executions end together as they are reported together: their places are asked for together.
      await turn();
      continue;
    }
    const askedAt = runtime.now();
    try {
      const answer = await transport({
        method: "POST",
        path,
        body: { ...announcement, max: free, waitSeconds: pollSeconds },
        repeat: "refused",
        waitMs: pollSeconds * 1000,
        signal,
      });
      failures = 0;
      const { tasks } = answer as { tasks: Task[] };
      if (tasks.length === 0) await runtime.wait(emptyPauseMs - (runtime.now() - askedAt), signal);
      for (const task of tasks) {
        const job: Promise<void> = work(task).finally(() => running.delete(job));
        running.add(job);
      }
    } catch (error) {
      if (signal?.aborted) break;
      if (!(error instanceof MillraceError) || !error.retryable) {
        failure = error;
        break;
      }
      report(error, "poll");
      failures += 1;
      await runtime.wait(retryDelayMs(failures, runtime.random()), signal);
    }
  }
  await Promise.all(running);
  if (failure !== undefined) throw failure;
  return summary;
}
