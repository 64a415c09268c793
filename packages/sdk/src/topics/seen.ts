/** Which notifications were handled already. A delivery may come twice; what remembers that is yours, and best sits beside your data. */

/** Remembers message ids. Both may be asynchronous; when one fails, the delivery is retried. */
export interface SeenNotifications {
  has(messageId: string): boolean | Promise<boolean>;
  /** Called when the handler has returned. */
  add(messageId: string): unknown;
}

/** Remembers the last `most` ids in this process: enough for one process that does not restart, and for trying things out. */
export function seenInMemory(most = 10_000): SeenNotifications {
  if (!Number.isInteger(most) || most < 1) throw new RangeError(`most: must be a whole number from 1, got ${most}`);
  // a set keeps the order in which its values came
  const ids = new Set<string>();
  return {
    has: (messageId) => ids.has(messageId),
    add(messageId) {
      ids.add(messageId);
      for (const oldest of ids) {
        if (ids.size <= most) break;
        ids.delete(oldest);
      }
    },
  };
}
