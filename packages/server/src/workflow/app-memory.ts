/**
 * Which app a reference names, without asking the database for each call about its runs: a bounded memory of what never changes of an app.
 * A deletion by this process shows at once, one by another node after at most `STALE_MS`; until then the store refuses what is asked of it.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { AppRow } from "../store/app.ts";

/** What never changes of an app. */
export type AppIdentity = Pick<AppRow, "no" | "id" | "name" | "mode" | "queueNo">;

const ENTRIES = 10_000;
const STALE_MS = 2_000;

export interface AppMemory {
  /** By id, resource name or name; `null` when there is none. */
  find(projectNo: number, reference: string): Promise<AppIdentity | null>;
  /** To be called after an app was deleted. */
  forget(appNo: number): void;
}

/** Remembers what `find` finds. */
export function createAppMemory(
  clock: Pick<Clock, "now">,
  find: (projectNo: number, reference: string) => Promise<AppRow | null>,
): AppMemory {
  const entries = new LRUCache<string, { app: AppIdentity; until: number }>({ max: ENTRIES });
  /** Counts deletions: a look-up that was under way during one is not remembered. */
  let epoch = 0;
  return {
    async find(projectNo, reference) {
      const key = `${projectNo} ${reference}`;
      const known = entries.get(key);
      if (known !== undefined && clock.now() < known.until) return known.app;
      const before = epoch;
      const found = await find(projectNo, reference);
      if (found === null) return null;
      const { no, id, name, mode, queueNo } = found;
      const app = { no, id, name, mode, queueNo };
      if (before === epoch) entries.set(key, { app, until: clock.now() + STALE_MS });
      return app;
    },
    forget(appNo) {
      epoch++;
      for (const [key, { app }] of entries.entries()) if (app.no === appNo) entries.delete(key);
    },
  };
}
