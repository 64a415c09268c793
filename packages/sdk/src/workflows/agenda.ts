/** One timer for many that are due some time: whatever is over sooner costs nothing. Invariant: while nothing is due ever, nothing is waited for. */
import type { Runtime } from "../runtime.ts";

/** What is due, and when. */
export interface Agenda<One> {
  /** Has `one` be due in so many milliseconds, and not when it was to be before. */
  set(one: One, inMs: number): void;
  delete(one: One): void;
}

/** Makes an agenda that calls `due` with each that is, which then is due no more. */
export function createAgenda<One>({ now, wait }: Pick<Runtime, "now" | "wait">, due: (one: One) => void): Agenda<One> {
  const dues = new Map<One, number>();
  let waiting: { until: number; stop: AbortController } | undefined;

  const stop = (): void => {
    // With a reason of our own: the platform's would be an error with its stack.
    waiting?.stop.abort("over");
    waiting = undefined;
  };

  const look = (): void => {
    const at = now();
    const over: One[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const [one, dueAt] of dues) {
      if (dueAt <= at) over.push(one);
      else next = Math.min(next, dueAt);
    }
    for (const one of over) dues.delete(one);
    if (dues.size > 0) waitUntil(next);
    for (const one of over) due(one);
  };

  const waitUntil = (until: number): void => {
    if (waiting !== undefined && waiting.until <= until) return;
    stop();
    const own = { until, stop: new AbortController() };
    waiting = own;
    void wait(until - now(), own.stop.signal).then(() => {
      if (waiting !== own) return;
      waiting = undefined;
      look();
    });
  };

  return {
    set(one, inMs) {
      const dueAt = now() + inMs;
      dues.set(one, dueAt);
      waitUntil(dueAt);
    },
    delete(one) {
      dues.delete(one);
      if (dues.size === 0) stop();
    },
  };
}
