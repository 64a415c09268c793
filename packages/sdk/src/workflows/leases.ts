/**
 * The leases of a worker's executions, kept by heartbeats: one timer for all of them, so that an execution that is over sooner costs
 * nothing. Invariant: an execution's `lost` is aborted once the server says that it is no longer its own.
 */
import type { Task } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import type { Reporter } from "./reporter.ts";

interface Held {
  token: string;
  reporter: Reporter;
  lost: AbortController;
  leaseMs: number;
  /** When the next heartbeat is due; never while one is under way. */
  dueAt: number;
  /** Ends the heartbeat that is under way. */
  beating: AbortController | undefined;
}

export interface Leases {
  /** Keeps a task's lease from now until the answer is called. */
  keep(task: Task, reporter: Reporter, lost: AbortController): () => void;
  /** Waits for nothing any more: what is waited for keeps the process alive. */
  close(): void;
}

/** Makes the leases of one worker. */
export function createLeases({ now, wait }: Pick<Runtime, "now" | "wait">): Leases {
  const held = new Set<Held>();
  /** What is waited for, and how to look again before. */
  let waiting: { until: number; stop: AbortController } | undefined;

  const beat = async (one: Held): Promise<void> => {
    const beating = new AbortController();
    Object.assign(one, { dueAt: Number.POSITIVE_INFINITY, beating });
    try {
      one.leaseMs = (await one.reporter.beat(one.token, beating.signal)).leaseMs ?? one.leaseMs;
      Object.assign(one, { dueAt: now() + one.leaseMs / 3, beating: undefined });
      if (held.has(one)) look();
    } catch (error) {
      if (held.delete(one)) one.lost.abort(error);
    }
  };

  const look = (): void => {
    const due = [...held].filter(({ dueAt }) => dueAt <= now());
    for (const one of due) void beat(one);
    const next = Math.min(...[...held].map(({ dueAt }) => dueAt));
    if (next >= (waiting?.until ?? Number.POSITIVE_INFINITY)) return;
    waiting?.stop.abort();
    const own = { until: next, stop: new AbortController() };
    waiting = own;
    void wait(next - now(), own.stop.signal).then(() => {
      if (waiting !== own) return;
      waiting = undefined;
      look();
    });
  };

  return {
    keep({ token, leaseMs }, reporter, lost) {
      const one: Held = { token, reporter, lost, leaseMs, dueAt: now() + leaseMs / 3, beating: undefined };
      held.add(one);
      if (one.dueAt < (waiting?.until ?? Number.POSITIVE_INFINITY)) look();
      return () => {
        held.delete(one);
        one.beating?.abort();
      };
    },
    close() {
      waiting?.stop.abort();
      waiting = undefined;
    },
  };
}
