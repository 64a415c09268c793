/**
 * Notifications that deliveries need, by number: one copy in memory however many subscriptions it goes to (T15), read from the store when it
 * is not here. A notification never changes. Bounded by bytes; what was used longest ago leaves first.
 */
import type { Notification } from "../store/notification.ts";
import type { Store } from "../store/store.ts";
import { createGather } from "./gather.ts";

const MOST_BYTES = 32 * 1024 * 1024;

export interface NotificationMemory {
  /** Puts one in that is needed soon. */
  keep(notification: Notification): void;
  /** `null` when it is no more. */
  get(no: number): Promise<Notification | null>;
}

/** Makes the memory of one server. */
export function createNotificationMemory(store: Store): NotificationMemory {
  const kept = new Map<number, Notification>();
  let bytes = 0;
  const sizeOf = ({ message }: Notification): number => message.length + 2_000;
  const keep = (notification: Notification): void => {
    const { no } = notification;
    if (kept.delete(no)) bytes -= sizeOf(notification);
    kept.set(no, notification);
    bytes += sizeOf(notification);
    for (const [oldest, each] of kept) {
      if (bytes <= MOST_BYTES) break;
      kept.delete(oldest);
      bytes -= sizeOf(each);
    }
  };
  const read = createGather<number, Notification | null>({
    async run(nos) {
      const found = new Map((await store.run("readNotifications", [...new Set(nos)])).map((each) => [each.no, each]));
      for (const notification of found.values()) keep(notification);
      return nos.map((no) => found.get(no) ?? null);
    },
    rows: 100,
    bytes: Number.POSITIVE_INFINITY,
    width: 2,
    sizeOf: () => 0,
    waitingBytes: Number.POSITIVE_INFINITY,
  });
  return {
    keep,
    get(no) {
      const known = kept.get(no);
      if (known === undefined) return read(no);
      keep(known);
      return Promise.resolve(known);
    },
  };
}
