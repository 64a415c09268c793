/** How far deliveries of a queue are behind, seen from what was claimed: a sign for back-pressure (A4). */
import type { ClaimedMessage } from "../store/types.ts";

/**
 * How long a message had been due when it was claimed for `leaseMs`, in milliseconds; `undefined` for one that was handed out before. A
 * message expires its retention after it was due, and its lease began when it was claimed: both by the store's clock.
 */
export function lagMs(message: ClaimedMessage | undefined, retentionMs: number, leaseMs: number): number | undefined {
  if (message?.receives !== 1) return undefined;
  return message.leaseUntil - leaseMs - (message.expiresAt - retentionMs);
}
