/**
 * What happens to runs while they are executed: the server is asked every two seconds whether somebody cancelled one, and which of the steps
 * it waits for have ended, so that steps under way hear of it. An execution that is over sooner asks nothing.
 */
import type { Task } from "@millrace/contract/wire";
import type { Runtime } from "../runtime.ts";
import { createAgenda } from "./agenda.ts";
import type { Reporter, Standing } from "./reporter.ts";

const lookMs = 2_000;

/** An execution that is being watched. */
export interface Watched {
  /** Whether the run was cancelled meanwhile. */
  readonly cancelled: boolean;
  /** Aborted when it is. */
  readonly cancelling: AbortSignal;
  /** Takes in what the server says of the execution. */
  hear(standing: Standing): void;
  onEnded(listener: (ids: readonly string[]) => void): void;
  stop(): void;
}

/** The watch over the executions that one server handed out. */
export interface Watch {
  /** Watches an execution until its `stop`; `lost` is aborted when the server says that it is no longer this side's. */
  follow(task: Task, lost: AbortController): Watched;
}

class Execution implements Watched {
  readonly token: string;
  readonly lost: AbortController;
  cancelled = false;
  /** The execution is over: no answer is waited for any more. */
  aborted = false;
  tell: ((ids: readonly string[]) => void) | undefined;
  readonly #wasCancelled: boolean;
  readonly #onStop: (one: Execution) => void;
  /** Made when somebody asks for its signal, which few do. */
  #controller: AbortController | undefined;

  constructor({ token, cancelled }: Task, lost: AbortController, onStop: (one: Execution) => void) {
    this.token = token;
    this.lost = lost;
    this.#wasCancelled = cancelled;
    this.#onStop = onStop;
  }
  get cancelling(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.cancelled) this.#controller.abort();
    }
    return this.#controller.signal;
  }
  hear(standing: Standing): void {
    if (!standing.cancelled || this.#wasCancelled || this.cancelled) return;
    this.cancelled = true;
    this.#controller?.abort();
  }
  onEnded(listener: (ids: readonly string[]) => void): void {
    this.tell = listener;
  }
  stop(): void {
    this.aborted = true;
    this.#onStop(this);
  }
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
    follow(task, lost) {
      const one = new Execution(task, lost, agenda.delete);
      agenda.set(one, lookMs);
      return one;
    },
  };
}
