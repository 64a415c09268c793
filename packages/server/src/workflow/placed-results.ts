/** Sends run results to queues that are on another database than the runs (W17): each once, with pauses while that database is away. */
import { Fault } from "@millrace/contract";
import type { Chore } from "../queue/housekeeping.ts";
import { type KeptResult, resultMessage } from "../store/run-result.ts";
import type { Store } from "../store/store.ts";

/** How many are sent by one run of the chore. */
const AT_ONCE = 100;

/** The chore that sends them, over the store of all databases. */
export function placedResultChore(store: Store): Chore {
  /** Whether a result needs no further try, and whether it was sent. */
  const send = async (result: KeptResult): Promise<"sent" | "gone" | "later"> => {
    try {
      const key = { scope: `results of ${result.queueNo}`, key: result.dedupId, hash: result.runId };
      await store.once(key, "sendMessages", [resultMessage(result)]);
      return "sent";
    } catch (error) {
      if (error instanceof Fault && error.code === "queue_not_found") return "gone";
      if (error instanceof Fault && (error.code === "backlog_full" || error.code === "unavailable" || error.code === "overloaded"))
        return "later";
      throw error;
    }
  };
  return {
    name: "placed run results",
    everyMs: 1_000,
    async run(own = store) {
      const { results, nextInMs } = await own.run("duePlacedResults", AT_ONCE);
      let closed = 0;
      for (const result of results) {
        const outcome = await send(result);
        if (outcome === "later") continue;
        await own.run("closePlacedResult", result.no, outcome === "gone" ? result.appNo : null);
        closed += 1;
      }
      // What is closed may have held back a later one of its group.
      return closed > 0 || results.length === AT_ONCE ? 0 : nextInMs;
    },
  };
}
