/** What a transaction that somebody leaves open does to the hot tables, on a PostgreSQL of the test's own that vacuums as ours should. */
import { type PostgresServer, startPostgres } from "@millrace/testkit";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import type { Db } from "../db/db.ts";
import { openPostgres } from "../db/postgres.ts";
import { putQueue } from "./engines.suite.ts";
import { type OpenStore, openStore } from "./open.ts";
import { statements } from "./statements.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres({ autovacuum_naptime: "1s" });
});
afterAll(() => server.stop());

let store: OpenStore;
let db: Db;
/** Leaves a transaction open. */
let holder: pg.Client;
/** Asks for statistics. */
let watcher: pg.Client;
beforeEach(async () => {
  const url = await server.fresh();
  store = await openStore({ url, clock: createClock(), relaxedSync: true });
  db = openPostgres({ url, statements, offset: () => 0 });
  holder = new pg.Client(url);
  watcher = new pg.Client(url);
  await Promise.all([holder.connect(), watcher.connect()]);
  await putQueue(db, 1, {});
});
afterEach(() => Promise.all([holder.end(), watcher.end(), db.close(), store.close()]));

const OPEN = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue";
const row = { queueNo: 1, body: new Uint8Array(100), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };

it("STORE-05: beside an open transaction every message is still handed out, and what it held back is vacuumed by itself once it ends", {
  timeout: 240_000,
}, async () => {
  const live = async (count: number): Promise<number> => {
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

  await holder.query(OPEN);
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
});

it("STORE-05: beside an open transaction claims do not read what it keeps from being vacuumed: of 100 claims 99 take less than 100 ms", {
  timeout: 240_000,
}, async () => {
  await holder.query(OPEN);
  const past = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 300000 + i";
  await db.transaction(async (tx) => {
    await tx.query(`INSERT INTO message (seq, queue_no, origin, line_at, due_at, sent_at, expires_at, receives, attempts, body)
      SELECT -i, 1, -i, ${past}, ${past}, ${past}, ${past} + 1000000000, 0, 0, repeat('x', 200)::bytea FROM generate_series(1, 250000) AS s(i)`);
    await tx.query("DELETE FROM message WHERE seq < 0");
  });
  const claims = async (count: number): Promise<number[]> => {
    const took: number[] = [];
    while (took.length < count) {
      await store.send([row]);
      const from = performance.now();
      const { batches } = await store.claim({ queueNo: 1, batchSize: 10, batches: 1, leaseMs: null });
      took.push(performance.now() - from);
      await store.settle(batches.flat().map(({ seq, receipt }) => ({ queueNo: 1, seq, receipt, outcome: "ack" })));
    }
    return took.sort((a, b) => a - b);
  };
  const [whole = 0] = await claims(3);
  // Within seconds the node hears from the database how many dead rows there are.
  while (((await claims(20))[10] as number) > whole / 5);
  const took = await claims(100);
  expect(took[98]).toBeLessThan(100);
});
