/**
 * From where claims read a queue's line (STORE-05). What was taken stays in the index until it is vacuumed, and lies before all that is still
 * there: while a transaction that somebody leaves open keeps vacuum from its work, claims begin where the last one saw the line begin, a
 * little before that since others may commit late, and only now and then at the very front. What is due is found within `WHOLE_EVERY_MS`.
 */

/** Rows that were committed so long after their instant are still met by every claim, in milliseconds. */
const LATE_MS = 1_000;
/** How often the whole line is read at least by a queue that is claimed. */
export const WHOLE_EVERY_MS = 10_000;

/** What a process knows of a queue's line: before `line` nobody stood, before `later` nobody was away, when that was last looked at. */
export interface Front {
  line: number;
  later: number;
  wholeAt: number;
}

/** What one claim reads: from where, and how far it looks for what comes next, when all of the queue is read again at the latest. */
export interface Reading {
  line: number;
  later: number;
  until: number;
}

const WHOLE: Reading = { line: 0, later: 0, until: Number.MAX_SAFE_INTEGER };

/** A front that nobody has looked at. */
export const unknownFront = (): Front => ({ line: 0, later: 0, wholeAt: Number.NEGATIVE_INFINITY });

/** What a claim at `now` reads; where little is left behind, always the whole line. Notes that it will. */
export function readingFrom(front: Front, now: number, littered: boolean): Reading {
  if (!littered) return WHOLE;
  const wholeInMs = front.wholeAt + WHOLE_EVERY_MS - now;
  // A clock that was set back says nothing about when one looked.
  if (wholeInMs <= 0 || wholeInMs > WHOLE_EVERY_MS) {
    front.wholeAt = now;
    return WHOLE;
  }
  return { line: Math.min(front.line, now) - LATE_MS, later: Math.min(front.later, now) - LATE_MS, until: now + wholeInMs };
}
