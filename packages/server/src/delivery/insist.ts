/** Doing what must be done before a lease ends: again and again, with growing pauses, as long as there is time. */
import type { Clock } from "../clock.ts";

/** The wait before the next try, doubling. */
const BACKOFF_MS = { first: 100, most: 5_000 };

/** Waits, or until `signal` aborts. */
function pause(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener("abort", done);
  });
}

/** Calls `call` until it succeeds; `false` when `until` (of `clock`) came first or `signal` aborted. `failed` hears of every failure. */
export async function insist(
  call: () => Promise<unknown>,
  { clock, until, signal, failed }: { clock: Clock; until: number; signal: AbortSignal | undefined; failed: (error: unknown) => void },
): Promise<boolean> {
  for (let waitMs = BACKOFF_MS.first; ; waitMs = Math.min(waitMs * 2, BACKOFF_MS.most)) {
    try {
      await call();
      return true;
    } catch (error) {
      failed(error);
      if (signal?.aborted || clock.now() + waitMs >= until) return false;
      await pause(clock, waitMs, signal);
    }
  }
}
