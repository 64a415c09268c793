/**
 * What happens to runs while they are executed: the server is asked every two seconds whether somebody cancelled one, and which of the steps
 * it waits for have ended, so that steps under way hear of it. An execution that is over sooner asks nothing.
 */
import type { Task } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import { createAgenda } from "./agenda.ts";
import type { Reporter, Standing } from "./reporter.ts";
import { Halt, type Halting } from "./signals.ts";

const lookMs = 2_000;

/** An execution that is being watched. */
export interface Watched {
  /** Aborted when the run is cancelled meanwhile. */
  readonly cancelling: Halting;
  /** Takes in what the server says of the execution. */
  hear(standing: Standing): void;
  onEnded(listener: (ids: readonly string[]) => void): void;
  stop(): void;
}

/** The watch over the executions that one server handed out. */
export interface Watch {
  /** Watches an execution until its `stop`; `lost` is aborted when the server says that it is no longer this side's. */
  follow(task: Task, lost: Halt): Watched;
}

interface Execution extends Watched {
  token: string;
  lost: Halt;
  /** The execution is over: no answer is waited for any more. */
  aborted: boolean;
  tell?: (ids: readonly string[]) => void;
}

/** Makes the watch over the executions of one server. */
export function createWatch(reporter: Reporter, runtime: Pick<Runtime, "now" | "wait">): Watch {
  const look = async (one: Execution): Promise<void> => {
    try {
      const standing = await reporter.look(one.token, one);
      if (one.aborted) return;
      one.hear(standing);
      if (standing.ended.length > 0) one.tell?.(standing.ended);
      agenda.set(one, lookMs);
    } catch (error) {
      if (!one.aborted) one.lost.abort(error);
    }
  };
  const agenda = createAgenda<Execution>(runtime, (one) => void look(one));

  return {
    follow({ token, cancelled }, lost) {
      const cancelling = new Halt();
      const one: Execution = {
        token,
        lost,
        aborted: false,
        cancelling,
        hear(standing) {
          if (standing.cancelled && !cancelled) cancelling.abort();
        },
        onEnded(listener) {
          one.tell = listener;
        },
        stop() {
          one.aborted = true;
          agenda.delete(one);
        },
      };
      agenda.set(one, lookMs);
      return one;
    },
  };
}
