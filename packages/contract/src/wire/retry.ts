/** When a failed message is tried again: exponential backoff with jitter (P11), and what an endpoint may ask for itself (P12). */

/** Bounds of a backoff in milliseconds: the first delay and the longest one. */
export interface Backoff {
  firstMs: number;
  maxMs: number;
}

/** The EZGH schedule: from 1 s to the queue's visibility timeout, unless the queue has bounds of its own (Q2). */
export function ezghBackoff(queue: {
  visibilityTimeoutMs: number;
  retryBackoffMinMs: number | null;
  retryBackoffMaxMs: number | null;
}): Backoff {
  return { firstMs: queue.retryBackoffMinMs ?? 1000, maxMs: queue.retryBackoffMaxMs ?? queue.visibilityTimeoutMs };
}

/**
 * Whole milliseconds to wait after attempt `n` (from 1) failed: `first × 2^(n−1)`, times a factor from 0.8 to 1.2, then capped.
 * `random` is in [0, 1). Never below 1, never above `maxMs`.
 */
export function backoffMs(n: number, random: number, { firstMs, maxMs }: Backoff): number {
  // 2^52 times any allowed first delay is still finite and already beyond every cap.
  const whole = firstMs * 2 ** Math.min(Math.max(n, 1) - 1, 52);
  return Math.max(1, Math.floor(Math.min(maxMs, whole * (0.8 + 0.4 * random))));
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const imf = /^[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const rfc850 = /^[A-Z][a-z]{5,8}, (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const asctime = /^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})$/;

/** An HTTP date in any of the three forms of RFC 9110, as milliseconds; `null` for anything else. */
function httpDate(text: string, nowMs: number): number | null {
  const at = (year: string, month: string, day: string, clock: readonly string[]): number | null => {
    const index = months.indexOf(month);
    const ms = Date.UTC(Number(year), index, Number(day), Number(clock[0]), Number(clock[1]), Number(clock[2]));
    // Date.UTC rolls over what does not exist (30 February): only a date that reads back the same is one.
    const read = new Date(ms);
    return index >= 0 && read.getUTCMonth() === index && read.getUTCDate() === Number(day) && Number(clock[0]) < 24 ? ms : null;
  };
  let match = imf.exec(text);
  if (match) return at(match[3] as string, match[2] as string, match[1] as string, match.slice(4));
  match = rfc850.exec(text);
  if (match) {
    // RFC 9110 5.6.7: two digits mean the last such year that is at most 50 years ahead.
    const year = new Date(nowMs).getUTCFullYear();
    let full = year - (year % 100) + Number(match[3]);
    if (full > year + 50) full -= 100;
    return at(String(full), match[2] as string, match[1] as string, match.slice(4));
  }
  match = asctime.exec(text);
  return match ? at(match[6] as string, match[1] as string, (match[2] as string).trim(), match.slice(3, 6)) : null;
}

/**
 * What `Retry-After` asks for, in milliseconds from `nowMs` (real time), at most `maxMs`. Whole seconds or an HTTP date; a negative,
 * past or unreadable value is as good as none: `null`.
 */
export function retryAfterMs(value: string | string[] | undefined, nowMs: number, maxMs: number): number | null {
  const text = (Array.isArray(value) ? value[0] : value)?.trim();
  if (text === undefined || text.length > 64) return null;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, maxMs);
  const at = httpDate(text, nowMs);
  return at === null || at < nowMs ? null : Math.min(at - nowMs, maxMs);
}
