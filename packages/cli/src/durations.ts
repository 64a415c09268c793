/** Durations as people type them: `90s`, `10m`, `12h`, `3d`, or a bare number of seconds. On the wire they are whole seconds. */
import { InvalidArgumentError } from "commander";

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Whole seconds. Throws commander's argument error, which names the flag. */
export function parseSeconds(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([smhd]?)$/.exec(text.trim());
  // 1.1 × 60 is a trace more than 66.
  const seconds = match === null ? Number.NaN : Number((Number(match[1]) * (unitSeconds[match[2] || "s"] ?? Number.NaN)).toFixed(6));
  if (!Number.isInteger(seconds)) throw new InvalidArgumentError("It takes whole seconds, or a duration such as 90s, 10m, 12h or 3d.");
  return seconds;
}

/** `345600` → `4d`: the largest unit that divides it. */
export function showSeconds(seconds: number): string {
  for (const unit of ["d", "h", "m"]) {
    const size = unitSeconds[unit] ?? 1;
    if (seconds !== 0 && seconds % size === 0) return `${seconds / size}${unit}`;
  }
  return `${seconds}s`;
}

/** A whole number. Throws commander's argument error, which names the flag. */
export function parseWhole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("It takes a whole number.");
  return Number(text);
}

/** How many per period, as `100/s` or `5000/10m`. Throws commander's argument error, which names the flag. */
export function parseRate(text: string): { count: number; periodSeconds: number } {
  const match = /^(\d+)\/(\d*[smhd]?)$/.exec(text);
  if (match === null || match[2] === "") throw new InvalidArgumentError("It takes a number and a period, such as 100/s or 5000/10m.");
  const period = match[2] ?? "";
  return { count: Number(match[1]), periodSeconds: parseSeconds(/^\d/.test(period) ? period : `1${period}`) };
}
