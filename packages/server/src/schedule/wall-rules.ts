/**
 * Clocks on a wall: what they show at an instant, and the instant at which they show something. What a wall clock shows is written as
 * the instant at which a clock of UTC shows the same. Instants are milliseconds since 1970; the zone is a name that is known.
 */

const HOUR_MS = 3_600_000;
/** Further apart than this from UTC is no clock. */
const FURTHEST_MS = 15 * HOUR_MS;

/** Making one takes far longer than asking it; there are some hundred zones. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timezone: string): Intl.DateTimeFormat {
  const name = timezone.toLowerCase();
  let format = formats.get(name);
  if (format === undefined) {
    const numeric = { year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" } as const;
    format = new Intl.DateTimeFormat("en-u-ca-gregory-nu-latn", { timeZone: name, hourCycle: "h23", ...numeric });
    formats.set(name, format);
  }
  return format;
}

/** What a wall clock of the zone shows at an instant, to the second. */
export function wallAt(instant: number, timezone: string): number {
  const shown: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
  for (const { type, value } of formatOf(timezone).formatToParts(instant)) shown[type] = Number(value);
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = shown;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** The first instant at which a wall clock of the zone shows `wall`; where it skips that, the instant at which it goes on behind it. */
export function instantOf(wall: number, timezone: string): number {
  const offsets = [wall - FURTHEST_MS, wall + FURTHEST_MS].map((near) => wallAt(near, timezone) - near);
  const shown = offsets.map((offset) => wall - offset).filter((instant) => wallAt(instant, timezone) === wall);
  if (shown.length > 0) return Math.min(...shown);
  let early = wall - FURTHEST_MS;
  let late = wall + FURTHEST_MS;
  while (late - early > 1) {
    const middle = early + Math.floor((late - early) / 2);
    if (wallAt(middle, timezone) > wall) late = middle;
    else early = middle;
  }
  return late;
}
