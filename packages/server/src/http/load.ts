/**
 * Says when this node has too much to do (A4): too many body bytes on their way in, too much memory, or an event loop that is late.
 * What is refused here costs nothing further; what was let in completes.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Fault } from "@millrace/contract";

/** What is measured of the process: resident memory in bytes, and the longest event loop delay since the last look in ms. */
export interface Vitals {
  memoryBytes: number;
  loopDelayMs: number;
}

export interface Load {
  /** Counts a body of `bytes` in. Throws `overloaded` instead when there is too much already. */
  enter(bytes: number): void;
  /** Counts it out. */
  leave(bytes: number): void;
  /** Body bytes counted in. */
  readonly bytes: number;
  close(): void;
}

/** A body whose length is not told in advance counts as this much. */
export const UNTOLD_BYTES = 4 * 1024 * 1024;
const LOOK_EVERY_MS = 250;

/** The vitals of this process. */
function processVitals(): { read: () => Vitals; close: () => void } {
  const delays = monitorEventLoopDelay({ resolution: 100 });
  delays.enable();
  return {
    read() {
      const loopDelayMs = delays.max / 1e6;
      delays.reset();
      return { memoryBytes: process.memoryUsage.rss(), loopDelayMs };
    },
    close: () => delays.disable(),
  };
}

/**
 * `memoryCapBytes` is the stated cap: a quarter of it may be bodies under way, and nothing new is taken beyond nine tenths of it.
 * `behind` says whether something else (the store, deliveries) asks for less. Vitals are read at most four times a second.
 */
export function createLoad(deps: {
  memoryCapBytes: number;
  maxLoopDelayMs?: number;
  vitals?: { read: () => Vitals; close: () => void };
  behind?: () => boolean;
  elapsed?: () => number;
}): Load {
  const { memoryCapBytes, maxLoopDelayMs = 1000, vitals = processVitals(), behind = () => false, elapsed = () => performance.now() } = deps;
  let bytes = 0;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let strained: string | null = null;

  const look = (): void => {
    const now = elapsed();
    if (now - lookedAt < LOOK_EVERY_MS) return;
    const { memoryBytes, loopDelayMs } = vitals.read();
    // The longest delay since a look long ago says nothing about now.
    const late = loopDelayMs > maxLoopDelayMs && now - lookedAt < 4 * LOOK_EVERY_MS + loopDelayMs;
    strained = memoryBytes > memoryCapBytes * 0.9 ? "memory" : late ? "the event loop" : null;
    lookedAt = now;
  };

  return {
    get bytes() {
      return bytes;
    },
    enter(size) {
      look();
      const full = bytes > 0 && bytes + size > memoryCapBytes / 4;
      if (strained !== null || full || behind()) {
        throw new Fault(
          "overloaded",
          `the server is at its limit (${full ? "request bodies" : (strained ?? "the store")}): try again soon`,
          {
            retryAfterSeconds: 1,
          },
        );
      }
      bytes += size;
    },
    leave(size) {
      bytes -= size;
    },
    close: vitals.close,
  };
}
