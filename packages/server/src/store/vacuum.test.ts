/** What a transaction that somebody leaves open does to the hot tables, on a PostgreSQL of the test's own that vacuums as ours should. */
import { startPostgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { openPostgres } from "../db/postgres.ts";
import { putQueue } from "./engines.suite.ts";
import { openStore } from "./open.ts";
import { statements } from "./statements.ts";

it("STORE-05: beside an open transaction every message is still handed out, and what it held back is vacuumed by itself once it ends", {
  timeout: 240_000,
}, async () => {
  const server = await startPostgres({ autovacuum_naptime: "1s" });
  const url = await server.fresh();
  const store = await openStore({ url, clock: createClock(), relaxedSync: true });
  const db = openPostgres({ url, statements, offset: () => 0 });
  const holder = new pg.Client(url);
  const watcher = new pg.Client(url);
  try {
    await Promise.all([holder.connect(), watcher.connect()]);
    await putQueue(db, 1, {});
    const live = async (count: number): Promise<number> => {
      const row = { queueNo: 1, body: new Uint8Array(100), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
      await store.send(Array.from({ length: count }, () => row));
      let handled = 0;
      for (let got = 1; got > 0; handled += got) {
        const claimed = (await store.claim({ queueNo: 1, batchSize: 10, batches: 50, leaseMs: null })).batches.flat();
        await store.settle(claimed.map(({ seq, receipt }) => ({ queueNo: 1, seq, receipt, outcome: "ack" })));
        got = claimed.length;
      }
      return handled;
    };
    const dead = async (): Promise<number> =>
      Number((await watcher.query("SELECT pg_stat_get_dead_tuples('message'::regclass) AS n")).rows[0]?.n);

    await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue");
    for (let round = 0; round < 6; round++) expect(await live(1_000)).toBe(1_000);
    // Vacuum comes and goes, and may take nothing.
    for (let seen = 0; seen < 6_000; ) seen = await dead();
    await holder.query("COMMIT");
    const from = performance.now();
    for (let left = 6_000; left > 2_000; ) {
      left = await dead();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(performance.now() - from).toBeLessThan(120_000);
  } finally {
    await Promise.all([holder.end(), watcher.end(), db.close(), store.close()]);
    await server.stop();
  }
});
