/**
 * What happens to a run while it is executed: the server is asked every two seconds whether somebody cancelled it, and which of the steps it
 * waits for have ended, so that steps under way hear of it. An execution that is over sooner asks nothing.
 */
import type { Task } from "@millrace/contract/wire";
import type { Standing } from "./reporter.ts";
import { createFan } from "./signals.ts";
import type { Surrounds } from "./task.ts";

const lookMs = 2_000;

/** An execution that is being watched. */
export interface Watched {
  /** Aborted when the execution is lost. */
  signal: AbortSignal;
  /** Aborted when the run is cancelled meanwhile. */
  cancelling: AbortSignal;
  /** Takes in what the server says of the execution. */
  hear(standing: Standing): void;
  onEnded(listener: (ids: readonly string[]) => void): void;
  stop(): void;
}

/** Watches an execution until `stop`. */
export function watch(
  { token, cancelled }: Task,
  { reporter, runtime, signal, onLost }: Pick<Surrounds, "reporter" | "runtime" | "signal" | "onLost">,
): Watched {
  const lost = createFan(signal).fork();
  const cancelling = new AbortController();
  const over = new AbortController();
  let tell: ((ids: readonly string[]) => void) | undefined;

  const hear = (standing: Standing): void => {
    if (standing.cancelled && !cancelled) cancelling.abort();
  };
  const look = async (): Promise<void> => {
    for (;;) {
      await runtime.wait(lookMs, over.signal);
      if (over.signal.aborted || lost.signal.aborted) return;
      try {
        const standing = await reporter.look(token, over.signal);
        if (over.signal.aborted) return;
        hear(standing);
        if (standing.ended.length > 0) tell?.(standing.ended);
      } catch (error) {
        lost.abort(error);
        onLost?.(error);
        return;
      }
    }
  };
  void look();

  return {
    signal: lost.signal,
    cancelling: cancelling.signal,
    hear,
    onEnded(listener) {
      tell = listener;
    },
    // With a reason of our own: the platform's would be an error with its stack, for every execution.
    stop: () => over.abort("over"),
  };
}
