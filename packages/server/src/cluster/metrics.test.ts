import { postgres } from "@millrace/testkit";
import pg from "pg";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openStore } from "../store/open.ts";
import { meterCluster } from "./metrics.ts";

it("STORE-05, A15: a node tells its slots and how long the oldest transaction of anybody has been open", async () => {
  const url = await (await postgres()).fresh();
  const store = await openStore({ url, clock: createClock() });
  const registry = new Registry();
  meterCluster({ registry, seen: [{ name: "default", node: { slots: 86 }, store }] });
  const value = async (name: string): Promise<number | undefined> => (await registry.getSingleMetric(name)?.get())?.values[0]?.value;
  const idler = new pg.Client(url);
  try {
    expect(await value("millrace_owned_slots")).toBe(86);
    expect(await value("millrace_database_up")).toBe(1);
    const age = "millrace_database_oldest_transaction_seconds";
    const before = (await value(age)) as number;
    await idler.connect();
    await idler.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    const { rows } = await idler.query<{ held: number }>(
      "SELECT pg_sleep(0.2), extract(epoch FROM clock_timestamp() - xact_start)::float8 AS held FROM pg_stat_activity WHERE pid = pg_backend_pid()",
    );
    expect(await value(age)).toBeGreaterThanOrEqual(Math.floor((rows[0]?.held ?? 0) * 1000) / 1000);
    expect(before).toBeLessThan(60);
  } finally {
    await idler.end();
    await store.close();
  }
  expect(await value("millrace_database_oldest_transaction_seconds")).toBeUndefined();
  expect(await value("millrace_database_up")).toBe(0);
});
