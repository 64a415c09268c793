/**
 * The turns of one lane of a queue at its endpoint. A new turn begins with what the former owner may still have open: messages whose lease
 * it took so recently that a request with them can be under way. They count as this node's own until they are settled, or their
 * request must be over.
 */
import type { Clock } from "../clock.ts";
import type { Tenure } from "../delivery/tenure.ts";
import type { Store } from "../store/store.ts";
import { type Ownership, ownsEverything } from "./ownership.ts";

/** How often what was inherited is counted anew while there is any. */
const LOOK_MS = 250;

const LANE = "queue:";

/** The key by which the lane of a queue is owned, whatever kind of lane it is. */
export const laneKey = (queueNo: number): string => `${LANE}${queueNo}`;

/** The queue of such a key; `null` for the key of anything but a lane. */
export const queueOfLane = (key: string): number | null => (key.startsWith(LANE) ? Number(key.slice(LANE.length)) : null);

export interface LaneTenure {
  ownership: Ownership;
  store: Store;
  /** For the looks at what was inherited. */
  clock: Clock;
  queueNo: number;
  /** Messages of one request at most, the lane's lease, and how long after its claim a request can still be open, in milliseconds. */
  requests: () => { batchSize: number; leaseMs: number; openMs: number };
  /** Reads whether the endpoint was failing. */
  failing: () => Promise<boolean>;
}

/** Makes the turns of a lane; `undefined` for a node that owns everything for good. */
export function createTenure({ ownership, store, clock, queueNo, requests, failing }: LaneTenure): Tenure | undefined {
  if (ownership === ownsEverything) return undefined;
  const key = laneKey(queueNo);
  let inherited = 0;
  let round = 0;

  const count = async (own: number, before: number | null): Promise<number> => {
    const left = await store.run("leftOpen", { queueNo, ...requests(), before });
    if (own === round) inherited = left.requests;
    return left.at;
  };
  const watch = (own: number, before: number): void => {
    if (inherited === 0 || own !== round) return;
    clock.after(LOOK_MS, () => {
      // What can't be counted just now is still as it was.
      void count(own, before)
        .catch(() => {})
        .then(() => watch(own, before));
    });
  };

  return {
    get term() {
      return ownership.fence(key);
    },
    get inherited() {
      return inherited;
    },
    async begin() {
      const own = ++round;
      inherited = 0;
      watch(own, await count(own, null));
      return { failing: await failing() };
    },
  };
}
