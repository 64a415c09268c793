/** What housekeeping does for notifications and their deliveries, how often at least, and how much at once. */
import type { Chore } from "../queue/housekeeping.ts";
import type { Store } from "../store/store.ts";
import type { FanOut } from "./fan-out.ts";

/** A fan-out that is older than this is not in the hands of who accepted it, or not for long. */
const LEFT_MS = 5_000;
const ROWS = 500;

/** The chores of one server. */
export function deliveryChores(store: Store, fanOut: FanOut): Chore[] {
  let after = 0;
  return [
    { name: "fan-outs", everyMs: LEFT_MS, run: async () => ((await fanOut.recover(LEFT_MS)) ? LEFT_MS : null) },
    {
      name: "cancelled deliveries",
      everyMs: 15_000,
      run: async (own = store) => ((await own.run("cancelDeliveries", ROWS)) === ROWS ? 0 : null),
    },
    {
      name: "old deliveries",
      everyMs: 60_000,
      run: async (own = store) => ((await own.run("sweepDeliveries", ROWS)) === ROWS ? 0 : null),
    },
    {
      name: "old notifications",
      everyMs: 600_000,
      async run(own = store) {
        const next = await own.run("sweepNotifications", after, ROWS);
        after = next ?? 0;
        return next === null ? null : 0;
      },
    },
  ];
}
