/** What housekeeping does for queues, how often at least (Q13: 5 s, Q18: 60 s), and how much at once. */
import { ABANDONED_MS, settlePlaced } from "../store/placing.ts";
import type { Store } from "../store/store.ts";
import type { Chore } from "./housekeeping.ts";

/** Rows that one run of a sweep takes at most: one transaction, short enough to stand between two sends. */
const ROWS = 500;

/** A sweep goes on at once while it gets as much as it asked for. */
function sweep(
  name: string,
  everyMs: number,
  store: Store,
  verb: "sweepLapsed" | "sweepExpired" | "sweepDedup" | "expireIdempotency",
): Chore {
  return { name, everyMs, run: async (own = store) => ((await own.run(verb, ROWS)) >= ROWS ? 0 : null) };
}

/** The chores of one store's queues; `removals` and `redrives` are to be nudged when there is something new for them. */
export function queueChores(store: Store): Chore[] {
  return [
    sweep("lapsed", 2_000, store, "sweepLapsed"),
    sweep("expired", 20_000, store, "sweepExpired"),
    sweep("dedup", 60_000, store, "sweepDedup"),
    sweep("idempotency", 60_000, store, "expireIdempotency"),
    { name: "removals", everyMs: 30_000, run: async (own = store) => ((await own.run("removeDeleted")) ? 0 : null) },
    { name: "redrives", everyMs: 5_000, run: (own = store) => own.run("stepRedrive") },
    { name: "attempts", everyMs: 60_000, run: (own = store) => own.run("expireAttempts") },
    { name: "lane changes", everyMs: 600_000, run: async (own = store) => ((await own.run("forgetLaneChanges")) ? 0 : null) },
    { name: "old redrives", everyMs: 3_600_000, run: (own = store) => own.run("forgetRedrives") },
  ];
}

/** The chore that ends what was left half done between the default database and another one, whose queues it is about. */
export function placedQueueChore(store: Store): Chore {
  return {
    name: "placed queues",
    everyMs: 15_000,
    async run(own = store) {
      const open = await own.run("openPlacedQueues", ABANDONED_MS, ROWS);
      const ended = await Promise.allSettled(open.map(({ no }) => settlePlaced(store, store, no)));
      const failed = ended.find((each) => each.status === "rejected");
      if (failed !== undefined) throw failed.reason;
      return open.length === ROWS ? 0 : null;
    },
  };
}
