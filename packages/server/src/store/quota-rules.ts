/** A day's quota of messages (W16), decided: when its day ends, what is said beyond it, and which rows of a transaction still fit. Pure. */
import { Fault } from "@millrace/contract";

const DAY_MS = 86_400_000;

/** The day of an instant, counted since 1970 (UTC). */
export const dayOf = (now: number): number => Math.floor(now / DAY_MS);

/** What a sender is told beyond the quota: to come back when the next day begins. */
export function quotaExceeded(now: number, details: { path?: string; index?: number } = {}): Fault {
  const retryAfterSeconds = Math.ceil(((dayOf(now) + 1) * DAY_MS - now) / 1000);
  return new Fault("quota_exceeded", "The project's quota of messages is used up until midnight UTC.", { ...details, retryAfterSeconds });
}

/** What admission must know of the rows of a transaction, by their places. */
export interface Applicants {
  /** The project whose quota the row counts against; `null`: none. */
  projectOf(row: number): number | null;
  /** So many rows after this one are stored with it or not at all. */
  together(row: number): number;
  /** How many of `count` rows from this one on would store something new. */
  fresh(row: number, count: number): number;
}

/** Admits rows, asked for in their order, as long as something is `left` to their projects. */
export function createAdmission(left: ReadonlyMap<number, number>, { projectOf, together, fresh }: Applicants) {
  const rooms = new Map(left);
  let decided = { upto: -1, admitted: true };
  return {
    admits(row: number): boolean {
      const project = projectOf(row);
      const room = project === null ? undefined : rooms.get(project);
      if (room === undefined) return true;
      if (row > decided.upto) {
        const count = 1 + together(row);
        decided = { upto: row + count - 1, admitted: fresh(row, count) <= room };
      }
      return decided.admitted;
    },
    /** A row that was admitted stores something new. */
    takes(row: number): void {
      const project = projectOf(row);
      const room = project === null ? undefined : rooms.get(project);
      if (project !== null && room !== undefined) rooms.set(project, room - 1);
    },
  };
}
