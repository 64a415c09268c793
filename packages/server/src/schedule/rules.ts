/**
 * When a schedule runs (C9): five fields of cron or a macro, read in a time zone. Where the hours are named, a local time that a change
 * of the clocks skips runs at the next instant that exists, one that comes twice runs the first time; an hour of `*`, with a step or
 * without, means every so often, and goes on over the change. Pure; instants are milliseconds since 1970.
 */
import { invalid } from "@millrace/contract";
import { Cron } from "croner";
import { instantOf, wallAt } from "./wall-rules.ts";

const macros: Readonly<Record<string, string>> = {
  "@hourly": "0 * * * *",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *",
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
};
/** Nothing of what some dialects add: no seconds, no `L`, `W`, `#` and `?`. */
const FIELD = /^(?:[\d*,/-]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat)+$/i;
const BOUND = "five fields (minute hour day month weekday, such as 0 7 * * 1-5) or a macro such as @hourly";

function open(pattern: string, timezone: string): Cron {
  return new Cron(pattern, { mode: "5-part", timezone, paused: true });
}

/** Throws the `invalid_request` that names the field: a malformed cron text, one that never comes, or a time zone that is not known. */
export function checkWhen(cron: string, timezone: string): void {
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
  } catch {
    throw invalid("timezone", "an IANA time zone such as Europe/Berlin", timezone);
  }
  if (/^[+-]/.test(timezone)) throw invalid("timezone", "an IANA time zone such as Europe/Berlin", timezone);
  const macro = macros[cron.toLowerCase()];
  const fields = cron.trim().split(/\s+/);
  if (macro === undefined && (fields.length !== 5 || !fields.every((field) => FIELD.test(field)))) throw invalid("cron", BOUND, cron);
  let next: Date | null;
  try {
    next = open(macro ?? cron, "UTC").nextRun(new Date(Date.UTC(2026, 0, 1)));
  } catch (error) {
    throw invalid("cron", `${BOUND} (${error instanceof Error ? error.message.replace(/^CronPattern: /, "") : "it cannot be read"})`, cron);
  }
  if (next === null) throw invalid("cron", "a time that comes", cron);
}

/** Answers the first occurrence after an instant; `null` when there is none. */
function occurrences(cron: string, timezone: string): (after: number) => number | null {
  const pattern = macros[cron.toLowerCase()] ?? cron;
  const everySoOften = pattern.split(/\s+/)[1]?.startsWith("*") === true;
  const job = open(pattern, everySoOften ? timezone : "UTC");
  const nextOf = (at: number): number | null => job.nextRun(new Date(at))?.getTime() ?? null;
  if (everySoOften) return nextOf;
  return (after) => {
    // Times on the wall, one after the other: of an hour that comes twice all lie before its second time.
    for (let wall = nextOf(wallAt(after, timezone)); wall !== null; wall = nextOf(wall)) {
      const instant = instantOf(wall, timezone);
      if (instant > after) return instant;
    }
    return null;
  };
}

/** The first occurrence after `after`; `null` when there is none. */
export function nextRun(cron: string, timezone: string, after: number): number | null {
  return occurrences(cron, timezone)(after);
}

/**
 * What a schedule sends at `now` when its occurrence at `pendingAt` has come: the latest occurrence that `now` has reached, which is the
 * pending one unless others were missed, and the one after it.
 */
export function dueRun(cron: string, timezone: string, pendingAt: number, now: number): { occurrenceAt: number; nextAt: number | null } {
  const after = occurrences(cron, timezone);
  const following = after(pendingAt);
  if (following === null || following > now) return { occurrenceAt: pendingAt, nextAt: following };
  // Halving finds the latest one in a few dozen steps, however many were missed.
  let occurrenceAt = following;
  let late = now;
  while (late - occurrenceAt > 1) {
    const middle = occurrenceAt + Math.floor((late - occurrenceAt) / 2);
    const next = after(middle);
    if (next !== null && next <= now) occurrenceAt = next;
    else late = middle;
  }
  return { occurrenceAt, nextAt: after(now) };
}
