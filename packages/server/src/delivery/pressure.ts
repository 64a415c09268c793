/**
 * Back-pressure (performance target 3, A4): while deliveries to healthy endpoints fall behind because this server is busy storing what
 * comes in, sending is slowed down, so that the backlog doesn't grow without bound. Endpoints that are slow themselves slow nobody.
 */
import type { Cancel, Clock } from "../clock.ts";

/** What one claim showed of a lane. */
export interface Sample {
  /** How long the oldest claimed message had been due, in milliseconds. */
  lagMs: number;
  /** The share of the lane's permitted requests that waited for work, 0 to 1. */
  idle: number;
  /** The endpoint answers well and flow control holds nothing back. */
  healthy: boolean;
}

export interface Pressure {
  /** Takes one claim into account that was filled: there was more to do than was asked for. */
  seen(sample: Sample): void;
  close(): void;
}

/** From this lag on a lane is behind, and below that one it has caught up. */
const BEHIND_MS = 1_000;
const CAUGHT_UP_MS = 250;
/** A lane with fewer idle slots than this is held up by its endpoint. */
const IDLE = 0.3;
/** Sent rows per transaction: where slowing down begins, and the least. */
const SHARE = { first: 128, least: 8 };
const TICK_MS = 250;

/** The next share: halved while the lag grows, a quarter more while it shrinks, lifted once it is gone. */
export function nextShare(share: number | null, lagMs: number, beforeMs: number): number | null {
  if (lagMs < CAUGHT_UP_MS) return null;
  if (share === null) return lagMs >= BEHIND_MS ? SHARE.first : null;
  if (lagMs > beforeMs) return Math.max(SHARE.least, Math.floor(share / 2));
  return Math.min(SHARE.first, Math.ceil(share * 1.25));
}

/** Whether a lane is behind for this server's reasons. */
export function counts({ idle, healthy }: Sample): boolean {
  return healthy && idle >= IDLE;
}

/** `setSendShare` bounds the sent rows per transaction of the store; `null` lifts the bound. */
export function createPressure(clock: Clock, setSendShare: (rows: number | null) => void): Pressure {
  let timer: Cancel | undefined;
  let share: number | null = null;
  let worst = 0;
  let before = 0;

  const tick = (): void => {
    timer = undefined;
    const next = nextShare(share, worst, before);
    if (next !== share) setSendShare(next);
    share = next;
    before = worst;
    worst = 0;
    if (share !== null) timer = clock.after(TICK_MS, tick);
  };
  return {
    seen(sample) {
      if (!counts(sample)) return;
      worst = Math.max(worst, sample.lagMs);
      if (worst >= CAUGHT_UP_MS) timer ??= clock.after(TICK_MS, tick);
    },
    close() {
      timer?.();
      if (share !== null) setSendShare(null);
    },
  };
}
