/**
 * What a node tells of the cluster at `/metrics`, for each database: whether it answers, this node's slots, and the transaction that
 * holds vacuum back.
 */
import { Gauge, type Registry } from "prom-client";
import type { Store } from "../store/store.ts";
import type { Node } from "./node.ts";

/** How long a scrape waits for a database. */
const WAIT_MS = 1_000;

/** One database as a node sees it. */
export interface Seen {
  name: string;
  node: Pick<Node, "slots">;
  store: Store;
}

/** Adds the gauges of a node. */
export function meterCluster({ registry, seen }: { registry: Registry; seen: readonly Seen[] }): void {
  const labelNames = ["database"];
  /** What a database answers within a moment; `null` when it does not. */
  const soon = <Answer>(asked: Promise<Answer>): Promise<Answer | null> => {
    const late = new Promise<null>((resolve) => setTimeout(resolve, WAIT_MS, null).unref());
    return Promise.race([asked.catch(() => null), late]);
  };
  new Gauge({
    name: "millrace_owned_slots",
    help: "Slots of 256 of a database whose lanes and duties are this node's.",
    labelNames,
    registers: [registry],
    collect() {
      for (const { name, node } of seen) this.set({ database: name }, node.slots);
    },
  });
  new Gauge({
    name: "millrace_database_up",
    help: "1 when the database answers this node, else 0.",
    labelNames,
    registers: [registry],
    async collect() {
      await Promise.all(seen.map(async ({ name, store }) => this.set({ database: name }, (await soon(store.run("now"))) === null ? 0 : 1)));
    },
  });
  new Gauge({
    name: "millrace_database_oldest_transaction_seconds",
    help: "Age of the longest open transaction on the database, as far as this server's role may see: it holds vacuum back.",
    labelNames,
    registers: [registry],
    async collect() {
      await Promise.all(
        seen.map(async ({ name, store }) => {
          const ms = await soon(store.run("oldestTransaction"));
          // A database that is away says nothing of its transactions.
          if (ms === null) this.remove({ database: name });
          else this.set({ database: name }, ms / 1000);
        }),
      );
    },
  });
}
