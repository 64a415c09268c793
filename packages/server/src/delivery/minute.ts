/** Counts what happened in the last minute, in two numbers: this minute's and the one before, weighed by how much of it still counts. */
import type { Clock } from "../clock.ts";

const MINUTE_MS = 60_000;

export interface Minute {
  count(): void;
  /** What was counted in the last 60 seconds, rounded; exact when it came evenly. */
  rate(): number;
}

/** A counter at zero. */
export function createMinute(clock: Pick<Clock, "now">): Minute {
  let startedAt = clock.now();
  let current = 0;
  let before = 0;

  const turn = (): void => {
    const passed = clock.now() - startedAt;
    if (passed < MINUTE_MS) return;
    before = passed < 2 * MINUTE_MS ? current : 0;
    current = 0;
    startedAt += passed - (passed % MINUTE_MS);
  };
  return {
    count() {
      turn();
      current++;
    },
    rate() {
      turn();
      return Math.round(current + before * (1 - (clock.now() - startedAt) / MINUTE_MS));
    },
  };
}
