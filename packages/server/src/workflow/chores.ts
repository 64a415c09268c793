/** What housekeeping does for workflows: ends runs that took too long, sends results that had to wait, removes what is over. */
import type { Chore } from "../queue/housekeeping.ts";
import type { Store } from "../store/store.ts";

/** The chore that removes runs: to be nudged when an app was deleted. */
export const RUN_REMOVAL = "old runs";

/**
 * The chores of one store's workflows. No run's time is shorter than the pause between two looks at them, so each look knows of all that
 * end before the next one, and the next one comes when the first of them does.
 */
export function workflowChores(store: Store): Chore[] {
  return [
    {
      name: "run timeouts",
      everyMs: 1_000,
      async run(own = store) {
        const { more, nextInMs } = await own.run("timeOutRuns");
        return more ? 0 : nextInMs;
      },
    },
    {
      name: "run results",
      everyMs: 15_000,
      async run(own = store) {
        const { more, nextInMs } = await own.run("sendRunResults");
        return more ? 0 : nextInMs;
      },
    },
    { name: "kept messages", everyMs: 10_000, run: async (own = store) => ((await own.run("expireKept")) ? 0 : null) },
    { name: RUN_REMOVAL, everyMs: 60_000, run: async (own = store) => ((await own.run("removeRuns")) ? 0 : null) },
  ];
}
