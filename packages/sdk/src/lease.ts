/**
 * Keeps the lease of a message while its handler works: extends it at a third of its length, and says when it is lost: because the server
 * says so, or because it ended before an extension came through.
 */
import { LeaseLostError } from "./errors.ts";
import { leaseIsLost } from "./pull.ts";
import type { Runtime } from "./runtime.ts";

/** A lease that is being kept. */
export interface Lease {
  /** Aborted when the lease is lost: somebody else may have the message. */
  readonly signal: AbortSignal;
  /** No more extensions. One that is under way ends by itself. */
  release(): void;
}

/** Starts keeping a lease of `lengthMs`. `extend` renews it for that many seconds; `onLost` is told once. */
export function keepLease(
  messageId: string,
  lengthMs: number,
  extend: (seconds: number) => Promise<void>,
  runtime: Runtime,
  onLost: (error: LeaseLostError) => void,
): Lease {
  const released = new AbortController();
  const lost = new AbortController();
  const seconds = Math.max(1, Math.round(lengthMs / 1000));
  const run = async (): Promise<void> => {
    let length = lengthMs;
    let until = runtime.now() + lengthMs;
    for (;;) {
      await runtime.wait(length / 3, released.signal);
      if (released.signal.aborted) return;
      const askedAt = runtime.now();
      try {
        await extend(seconds);
        length = seconds * 1000;
        until = askedAt + length;
      } catch (error) {
        // Anything else may pass, while some of the lease is left for the next try.
        if (!leaseIsLost(error) && runtime.now() < until) continue;
        if (released.signal.aborted) return;
        const told = new LeaseLostError(messageId, error);
        lost.abort(told);
        onLost(told);
        return;
      }
    }
  };
  void run();
  return { signal: lost.signal, release: () => released.abort() };
}
