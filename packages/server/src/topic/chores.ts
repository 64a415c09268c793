/** What housekeeping does for topics, how often at least, and how much at once. */
import type { Chore } from "../queue/housekeeping.ts";
import type { Store } from "../store/store.ts";

/** The chore that a deleted topic wakes. */
export const ENDED_TOPICS = "ended topics";

/** Subscriptions that one run ends, each with its queue; rows that one run of a sweep takes. */
const ENDS = 50;
const ROWS = 500;

/** The chores of one store's topics. `ended` is told of subscriptions that ended with their topics, `removed` that queues did. */
export function topicChores(
  store: Store,
  { ended, removed }: { ended: (subscription: { no: number; queueNo: number }) => void | Promise<void>; removed: () => void },
): Chore[] {
  return [
    {
      name: ENDED_TOPICS,
      everyMs: 30_000,
      async run(own = store) {
        const rows = await own.run("endSubscriptions", ENDS);
        if (rows.length > 0) removed();
        for (const row of rows) await ended(row);
        return rows.length === ENDS ? 0 : null;
      },
    },
    {
      name: "old memberships",
      everyMs: 60_000,
      run: async (own = store) => ((await own.run("sweepMemberships", ROWS)) === ROWS ? 0 : null),
    },
    {
      name: "forgotten topics",
      everyMs: 3_600_000,
      run: async (own = store) => ((await own.run("forgetEnded", ROWS)) >= ROWS ? 0 : null),
    },
  ];
}
