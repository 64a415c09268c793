/**
 * The leases of a worker's executions, kept by heartbeats. Invariant: an execution's `lost` is aborted once the server says that it is no
 * longer its own.
 */
import type { Task } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import { createAgenda } from "./agenda.ts";
import type { Reporter } from "./reporter.ts";
import type { Halt } from "./signals.ts";

interface Held {
  token: string;
  reporter: Reporter;
  lost: Halt;
  leaseMs: number;
  /** The execution is over: no heartbeat is waited for any more. */
  aborted: boolean;
}

export interface Leases {
  /** Keeps a task's lease from now until the answer is called. */
  keep(task: Task, reporter: Reporter, lost: Halt): () => void;
}

/** Makes the leases of one worker. */
export function createLeases(runtime: Pick<Runtime, "now" | "wait">): Leases {
  const beat = async (one: Held): Promise<void> => {
    try {
      one.leaseMs = (await one.reporter.beat(one.token, one)).leaseMs ?? one.leaseMs;
      if (!one.aborted) agenda.set(one, one.leaseMs / 3);
    } catch (error) {
      if (!one.aborted) one.lost.abort(error);
    }
  };
  const agenda = createAgenda<Held>(runtime, (one) => void beat(one));

  return {
    keep({ token, leaseMs }, reporter, lost) {
      const one: Held = { token, reporter, lost, leaseMs, aborted: false };
      agenda.set(one, leaseMs / 3);
      return () => {
        one.aborted = true;
        agenda.delete(one);
      };
    },
  };
}
