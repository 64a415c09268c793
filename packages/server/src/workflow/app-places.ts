/**
 * What this node knows of the places in pull apps that are full (W1), so that polls don't claim wake-ups only to give them back. The store
 * decides; here it is remembered that an app was full, how many of its executions ended since, and who waits for such an end.
 */
import type { Clock } from "../clock.ts";

/** When a full app is looked at again: its executions may have ended on other nodes. */
const FULL_MS = 1_000;

interface App {
  ended: number;
  full: { free: number; until: number } | null;
  waiting: Set<() => void>;
}

export interface AppPlaces {
  /** Ends so far: what `full` is to be told of as `before` a look at the store. */
  ended(queueNo: number): number;
  /** How many executions may begin, as far as is known: any number unless the app was full. */
  free(queueNo: number): number;
  /** Resolves once one may begin, or after `mostMs`. */
  freed(queueNo: number, mostMs: number): Promise<void>;
  /** So many have begun. */
  taken(queueNo: number, begun: number): void;
  /** The app was full at some instant since `before`. */
  full(queueNo: number, before: number): void;
  /** An execution has ended. */
  end(queueNo: number): void;
}

/** Makes the places of one node. Apps are known by the queues of their wake-ups. */
export function createAppPlaces(clock: Clock): AppPlaces {
  const apps = new Map<number, App>();
  const appOf = (queueNo: number): App => {
    const known = apps.get(queueNo) ?? { ended: 0, full: null, waiting: new Set() };
    apps.set(queueNo, known);
    return known;
  };
  const free = ({ full }: App): number => (full === null || clock.now() >= full.until ? Number.POSITIVE_INFINITY : full.free);

  return {
    ended: (queueNo) => appOf(queueNo).ended,
    free: (queueNo) => free(appOf(queueNo)),
    freed(queueNo, mostMs) {
      const { waiting, full } = appOf(queueNo);
      return new Promise((resolve) => {
        const done = (): void => {
          cancel();
          waiting.delete(done);
          resolve();
        };
        const cancel = clock.after(Math.min(mostMs, full === null ? 0 : full.until - clock.now()), done);
        waiting.add(done);
      });
    },
    taken(queueNo, begun) {
      const { full } = appOf(queueNo);
      if (full !== null) full.free -= begun;
    },
    full(queueNo, before) {
      const app = appOf(queueNo);
      app.full = { free: app.ended - before, until: clock.now() + FULL_MS };
    },
    end(queueNo) {
      // Nobody polls for the runs of a push app.
      const app = apps.get(queueNo);
      if (app === undefined) return;
      app.ended++;
      if (app.full !== null) app.full.free++;
      if (free(app) > 0) for (const done of app.waiting) done();
    },
  };
}
