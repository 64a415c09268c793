/**
 * Finds queues without asking the database each time: a bounded memory of look-ups that every change made in this process clears
 * exactly. A change made by another node shows after at most `STALE_MS`; until then the store's own checks decide, so a stale entry
 * can refuse a send but never put a message into the wrong queue (numbers are never reused).
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { QueueRow } from "../store/types.ts";

/** EZGH's and Basaltic's doors see this environment alone (Q1). */
export const PRODUCTION = "production";

const ENTRIES = 20_000;
const STALE_MS = 2_000;

interface Entry {
  queue: QueueRow;
  readAt: number;
}

export interface Directory {
  /** A queue by UUID, resource name or name; `null` when the project's environment has none. */
  find(projectNo: number, environment: string, reference: string): Promise<QueueRow | null>;
  /** A queue by its short number; `null` when it is gone. */
  byNo(no: number): Promise<QueueRow | null>;
  /** Forgets what is known of a queue and tells the listeners: called after every committed change or deletion. */
  changed(no: number): void;
  /** Called with the number of every queue changed or deleted by this process. Answers the unsubscribe function. */
  onChange(listener: (no: number) => void): () => void;
}

/** Makes the directory of one store. On SQLite nobody else writes, so entries stay until they are changed. */
export function createDirectory(deps: { store: Store; clock: Clock }): Directory {
  const { store, clock } = deps;
  const alone = store.engine === "sqlite";
  const entries = new LRUCache<string, Entry>({ max: ENTRIES });
  const keysOf = new Map<number, Set<string>>();
  const asked = new Map<string, Promise<QueueRow | null>>();
  const listeners = new Set<(no: number) => void>();
  let changes = 0;

  const known = (key: string): QueueRow | undefined => {
    const entry = entries.get(key);
    return entry !== undefined && (alone || clock.now() - entry.readAt < STALE_MS) ? entry.queue : undefined;
  };

  const remember = (key: string, queue: QueueRow): void => {
    if (keysOf.size > ENTRIES) {
      keysOf.clear();
      entries.clear();
    }
    entries.set(key, { queue, readAt: clock.now() });
    const keys = keysOf.get(queue.no);
    if (keys === undefined) keysOf.set(queue.no, new Set([key]));
    else keys.add(key);
  };

  const look = (key: string, ask: () => Promise<QueueRow | null>): Promise<QueueRow | null> => {
    const under = asked.get(key);
    if (under !== undefined) return under;
    const before = changes;
    const answer = ask()
      .then((queue) => {
        // What changed meanwhile may be this queue: then the answer is used once and not kept.
        if (queue !== null && before === changes) remember(key, queue);
        return queue;
      })
      .finally(() => {
        if (asked.get(key) === answer) asked.delete(key);
      });
    asked.set(key, answer);
    return answer;
  };

  return {
    find(projectNo, environment, reference) {
      const key = `${projectNo}/${environment}/${reference}`;
      const queue = known(key);
      if (queue !== undefined) return Promise.resolve(queue);
      return look(key, () => store.run("findQueue", projectNo, environment, reference));
    },
    byNo(no) {
      const key = `#${no}`;
      const queue = known(key);
      return queue !== undefined ? Promise.resolve(queue) : look(key, () => store.run("getQueue", no));
    },
    changed(no) {
      changes++;
      asked.clear();
      for (const key of keysOf.get(no) ?? []) entries.delete(key);
      keysOf.delete(no);
      for (const listener of listeners) listener(no);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
