/**
 * The one clock (P26). Durations everywhere follow `now()`; only signatures carry `wall()`. The clock never steps back:
 * it runs on the monotonic source and follows the wall forwards, so that a wall clock set back makes nothing wait longer
 * than it was to wait. Only this file owns timers: it chains those beyond the 24.8 days at which `setTimeout` overflows.
 */

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

interface Timer {
  at: number;
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
  const timers = new Set<Timer>();
  let handle: NodeJS.Timeout | undefined;

  const real = (): number => {
    if (options.frozen) return seen;
    const at = monotonic();
    seen = Math.max(seen + (at - seenAt), wall());
    seenAt = at;
    return seen;
  };
  const now = (): number => Math.floor(real() + offset);

  const runDue = (): void => {
    for (;;) {
      let next: Timer | undefined;
      for (const timer of timers) if (timer.at <= now() && (next === undefined || timer.at < next.at)) next = timer;
      if (next === undefined) break;
      timers.delete(next);
      next.call();
    }
    arm();
  };
  const arm = (): void => {
    clearTimeout(handle);
    handle = undefined;
    if (options.frozen || timers.size === 0) return;
    let at = Number.POSITIVE_INFINITY;
    for (const timer of timers) at = Math.min(at, timer.at);
    handle = setTimeout(runDue, Math.min(Math.max(at - now(), 0), LONGEST));
    handle.unref();
  };

  return {
    now,
    wall,
    get offset() {
      return offset;
    },
    after(ms, call) {
      const timer = { at: now() + Math.max(ms, 0), call };
      timers.add(timer);
      arm();
      return () => {
        if (timers.delete(timer) && timers.size === 0) arm();
      };
    },
    advance(ms) {
      offset += ms;
      runDue();
    },
  };
}
