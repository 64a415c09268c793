/** A run's steps drawn on its time axis: when each began, how long it took, and what it waits for. Pure: texts out of instants. */

/** A step as far as it is drawn. Instants in milliseconds; `endedAt` is `null` while it is open. */
export interface DrawnStep {
  startedAt: number;
  endedAt: number | null;
  status: string;
}

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** `0.12s`, `4.5s`, `3m 20s`, `2h 5m`, `3d 4h`: a duration in milliseconds, to the precision that matters. */
export function showSpan(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  const parts = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(" ");
}

/** A step's bar on an axis of `width` cells from `from` to `to`; what is open ends in `>`. */
export function drawBar(step: DrawnStep, from: number, to: number, width: number): string {
  const perCell = Math.max(1, to - from) / width;
  const begin = Math.min(width - 1, Math.max(0, Math.floor((step.startedAt - from) / perCell)));
  const end = step.endedAt ?? to;
  const cells = Math.min(width - begin, Math.max(0, (end - step.startedAt) / perCell));
  const whole = Math.floor(cells);
  const part = eighths[Math.floor((cells - whole) * 8)] ?? "";
  const bar = step.endedAt === null ? `${"─".repeat(Math.max(0, whole - 1))}>` : "█".repeat(whole) + part || "▏";
  return `${" ".repeat(begin)}${bar}`.slice(0, width);
}
