/**
 * The one clock (P26). Durations everywhere follow `now()`; only signatures carry `wall()`. The clock never steps back:
 * it runs on the monotonic source and follows the wall forwards, so that a wall clock set back makes nothing wait longer
 * than it was to wait. Only this file owns timers: it chains those beyond the 24.8 days at which `setTimeout` overflows.
 */

import { createDue, type Due, type Entry } from "./delivery/due.ts";

/** Cancels a timer; harmless afterwards. */
export type Cancel = () => void;

export interface Clock {
  /** Milliseconds since 1970, with the offset of the virtual clock. */
  now(): number;
  /** Real milliseconds since 1970, for signatures. */
  wall(): number;
  /** Milliseconds by which the virtual clock was moved forward; the store adds it to the database's time. */
  readonly offset: number;
  /** Calls once, `ms` from now by this clock. A timer never keeps the process alive. */
  after(ms: number, call: () => void): Cancel;
}

/** A clock that can be moved forward by hand, on top of real time. */
export interface VirtualClock extends Clock {
  /** Moves `now()` forward by `ms` and runs what became due, in order. */
  advance(ms: number): void;
}

/** The longest delay `setTimeout` takes without firing at once. */
const LONGEST = 2 ** 31 - 1;

interface Timer extends Entry {
  call: () => void;
}

/** `wall` and `monotonic` are passed in by tests that step the wall clock; both in milliseconds. `frozen` clocks move by `advance` alone. */
export function createClock(
  options: { wall?: () => number; monotonic?: () => number; offset?: number; frozen?: boolean } = {},
): VirtualClock {
  const wall = options.wall ?? Date.now;
  const monotonic = options.monotonic ?? (() => performance.now());
  let offset = options.offset ?? 0;
  let seenAt = monotonic();
  let seen = wall();
  const timers: Due<Timer> = createDue();
  let handle: NodeJS.Timeout | undefined;
  let armedFor = Number.POSITIVE_INFINITY;

  const real = (): number => {
    if (options.frozen) return seen;
    const at = monotonic();
    seen = Math.max(seen + (at - seenAt), wall());
    seenAt = at;
    return seen;
  };
  const now = (): number => Math.floor(real() + offset);

  const runDue = (): void => {
    armedFor = Number.POSITIVE_INFINITY;
    for (let next = timers.first(); next !== undefined && next.at <= now(); next = timers.first()) {
      timers.remove(next);
      next.call();
    }
    arm();
  };
  const arm = (): void => {
    const first = timers.first();
    if (options.frozen || first === undefined || first.at >= armedFor) return;
    clearTimeout(handle);
    armedFor = first.at;
    handle = setTimeout(runDue, Math.min(Math.max(first.at - now(), 0), LONGEST));
    handle.unref();
  };

  return {
    now,
    wall,
    get offset() {
      return offset;
    },
    after(ms, call) {
      const timer: Timer = { at: 0, slot: -1, call };
      timers.put(timer, now() + Math.max(ms, 0));
      arm();
      return () => timers.remove(timer);
    },
    advance(ms) {
      offset += ms;
      runDue();
    },
  };
}
