/** Durations as people write them: a number of seconds, or a text such as `"90s"`, `"10m"`, `"2h"`, `"3d"`. On the wire they are whole seconds. */

/** Seconds, or a number with a unit: `s`, `m`, `h` or `d`. */
export type Duration = number | `${number}s` | `${number}m` | `${number}h` | `${number}d`;

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** The longest delay that any queue takes: 365 days, in seconds. */
export const maxDelaySeconds = 31_536_000;

/** Whole seconds, rounded up; `undefined` for anything that is no duration from 0 to 365 days. Never throws. A text without a unit is seconds. */
export function readDuration(value: unknown): number | undefined {
  let seconds = Number.NaN;
  if (typeof value === "number") seconds = value;
  else if (typeof value === "string") {
    const match = /^(\d{1,12}(?:\.\d{1,12})?)([smhd]?)$/.exec(value);
    // 1.1 × 60 is a trace more than 66: no trace counts as a second.
    if (match !== null) seconds = Number((Number(match[1]) * (unitSeconds[match[2] || "s"] ?? Number.NaN)).toFixed(6));
  }
  return seconds >= 0 && seconds <= maxDelaySeconds ? Math.ceil(seconds) : undefined;
}

/** Whole seconds within bounds. Throws a `RangeError` that names the field, the bounds and what came. */
export function toSeconds(field: string, value: Duration, min = 0, max = maxDelaySeconds): number {
  const seconds = readDuration(value);
  if (seconds === undefined || seconds < min || seconds > max) {
    throw new RangeError(`${field}: must be ${min} to ${max} seconds, or a text such as "90s", "10m", "2h", "3d", got ${String(value)}`);
  }
  return seconds;
}

/** As `toSeconds`, and `undefined` stays `undefined`. */
export const optionalSeconds = (field: string, value: Duration | undefined, min?: number, max?: number): number | undefined =>
  value === undefined ? undefined : toSeconds(field, value, min, max);
