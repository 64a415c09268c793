/** What a node tells of the cluster at `/metrics`: its slots, and the transaction that holds vacuum back. */
import { Gauge, type Registry } from "prom-client";
import type { Store } from "../store/store.ts";
import type { Node } from "./node.ts";

/** How long a scrape waits for the database. */
const WAIT_MS = 1_000;

/** Adds the gauges of a node. */
export function meterCluster({ registry, node, store }: { registry: Registry; node: Pick<Node, "slots">; store: Store }): void {
  new Gauge({
    name: "millrace_owned_slots",
    help: "Slots of 256 whose lanes and duties are this node's.",
    registers: [registry],
    collect() {
      this.set(node.slots);
    },
  });
  new Gauge({
    name: "millrace_database_oldest_transaction_seconds",
    help: "Age of the longest open transaction on the database, as far as this server's role may see: it holds vacuum back.",
    registers: [registry],
    async collect() {
      const late = new Promise<null>((resolve) => setTimeout(resolve, WAIT_MS, null).unref());
      const ms = await Promise.race([store.run("oldestTransaction").catch(() => null), late]);
      // A database that is away says nothing of its transactions.
      if (ms === null) this.remove();
      else this.set(ms / 1000);
    },
  });
}
