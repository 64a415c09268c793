/** What a transaction makes ready: the earliest time of each queue, told to the listeners once the commit stands. */
import type { ReadyListener } from "./db.ts";

/** Listeners and the one way to tell them. A listener that throws stops nobody else. */
export interface ReadyBoard {
  add(listener: ReadyListener): () => void;
  /** `due` holds instants; `now` is the transaction's, so that listeners hear durations. */
  tell(due: ReadonlyMap<number, number>, now: number): void;
}

/** Notes that `queueNo` has work at `at`, if that is earlier than what is noted. */
export function noteReady(due: Map<number, number>, queueNo: number, at: number): void {
  const known = due.get(queueNo);
  if (known === undefined || at < known) due.set(queueNo, at);
}

/** A board without listeners. */
export function createReadyBoard(): ReadyBoard {
  const listeners = new Set<ReadyListener>();
  return {
    add(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    tell(due, now) {
      for (const [queueNo, at] of due)
        for (const listener of listeners) {
          try {
            listener(queueNo, Math.max(0, at - now));
          } catch (error) {
            queueMicrotask(() => {
              throw error;
            });
          }
        }
    },
  };
}
