/**
 * Tells this node's rooms which lanes another node has changed: looks twice a second, so that a pause holds on every node within one
 * (P16). Who is told reads the lane anew; being told of one's own change once more does no harm.
 */
import type { Cancel, Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";

const LOOK_MS = 500;

export interface Changes {
  /** Hears the number of every queue whose lane changed anywhere. Answers the unsubscribe function. */
  onChange(listener: (queueNo: number) => void): () => void;
  close(): void;
}

/** Begins to look; on SQLite nobody else changes anything. */
export function followChanges({
  store,
  clock,
  log,
  missed = false,
}: {
  store: Store;
  clock: Clock;
  log: { warn(fields: object, text: string): void };
  /** Whether nothing was read of the database yet: then everything in it counts as changed. */
  missed?: boolean;
}): Changes {
  const listeners = new Set<(queueNo: number) => void>();
  let told = new Map<number, number>();
  let since: number | null = missed ? 0 : null;
  let failing = false;
  let closed = false;
  let timer: Cancel = () => {};

  const look = async (): Promise<void> => {
    try {
      const { at, changes } = await store.run("laneChanges", since);
      const before = told;
      told = new Map(changes.map((change) => [change.queueNo, change.at]));
      since = at;
      failing = false;
      for (const change of changes)
        if (before.get(change.queueNo) !== change.at) for (const listener of listeners) listener(change.queueNo);
    } catch (err) {
      if (!failing) log.warn({ err }, "changes by other nodes could not be looked up; it will be tried again");
      failing = true;
    }
    if (!closed) timer = clock.after(LOOK_MS, () => void look());
  };
  if (store.engine === "postgres") void look();

  return {
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close() {
      closed = true;
      timer();
    },
  };
}
