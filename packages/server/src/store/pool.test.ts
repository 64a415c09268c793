import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openStore } from "./open.ts";

it("A10: a node holds no more PostgreSQL connections than poolSize says, however much it is asked at once", async () => {
  const url = await (await postgres()).fresh();
  const watcher = new pg.Client({ connectionString: url });
  await watcher.connect();
  const held = async (): Promise<number> => {
    const text = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    return ((await watcher.query<{ n: number }>(text)).rows[0] as { n: number }).n;
  };
  for (const poolSize of [3, 10]) {
    const store = await openStore({ url, clock: createClock(), poolSize });
    const asked = Promise.all([
      ...Array.from({ length: 40 }, () => store.run("findOrganization", "nobody")),
      ...Array.from({ length: 40 }, (_, i) => store.claim({ queueNo: i + 1, batchSize: 1, batches: 1, leaseMs: 1000 })),
    ]);
    const during = await held();
    await asked;
    const after = await held();
    expect(after).toBeGreaterThanOrEqual(2);
    expect(Math.max(during, after)).toBeLessThanOrEqual(poolSize);
    await store.close();
  }
  await watcher.end();
});
