/**
 * A steady load on PostgreSQL beside a transaction that another program leaves open (STORE-05): what claims cost before, during and after.
 * `node --import tsx --conditions=@millrace/source bench/open-transaction.ts [url]`, with RATE (messages a second), BEFORE, OPEN and AFTER
 * (seconds), EVERY (seconds a line) and GROUPS (a FIFO queue of so many groups; 0: a standard queue). Without a URL a durable server of its own is
 * started; the database that is given is wiped.
 */
import { startPostgres } from "@millrace/testkit";
import pg from "pg";
import { createClock } from "../packages/server/src/clock.ts";
import { openStore } from "../packages/server/src/store/open.ts";
import { sleep } from "./parts/machine.mjs";
import { postgresSettings } from "./parts/postgres-settings.mjs";
import { seedSql } from "./parts/queue-settings.ts";

const number = (name: string, usual: number): number => Number(process.env[name] ?? usual);
const rate = number("RATE", 500);
const phases: [string, number][] = [
  ["before", number("BEFORE", 30)],
  ["open", number("OPEN", 180)],
  ["after", number("AFTER", 45)],
];
const everyMs = number("EVERY", 15) * 1000;
const groups = number("GROUPS", 0);
const body = Buffer.alloc(1000, "lorem ipsum ");

const [given] = process.argv.slice(2);
const server = given === undefined ? await startPostgres(postgresSettings) : null;
const url = given ?? (server?.url as string);
const watcher = new pg.Client(url);
const holder = new pg.Client(url);
await Promise.all([watcher.connect(), holder.connect()]);
await watcher.query("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public");
const store = await openStore({ url, clock: createClock() });
await watcher.query(seedSql(groups > 0 ? "fifo" : "standard"));

let running = true;
let sent = 0;
let acked = 0;
let claims: number[] = [];
/** Sends what is due by the clock, ten at a time, each on its own: as many callers at once. */
const produce = async () => {
  const from = performance.now();
  while (running) {
    const due = Math.floor(((performance.now() - from) / 1000) * rate);
    // What could not be sent in time is not made up for, and a backlog of a second is enough.
    const n = sent - acked > rate ? 0 : Math.min(due - sent, 10);
    if (n <= 0) await sleep(2);
    else {
      sent += n;
      await Promise.all(
        Array.from({ length: n }, () => {
          const groupKey = groups > 0 ? `g${Math.floor(Math.random() * groups)}` : null;
          return store.send([{ queueNo: 1, body, attributes: null, meta: null, groupKey, dedupId: null, delayMs: null }]);
        }),
      );
    }
  }
};
const consume = async () => {
  while (running) {
    const at = performance.now();
    const got = (await store.claim({ queueNo: 1, batchSize: 10, batches: 1, leaseMs: null })).batches.flat();
    claims.push(performance.now() - at);
    await store.settle(got.map(({ seq, receipt }) => ({ queueNo: 1, seq, receipt, outcome: "ack" as const })));
    acked += got.length;
    if (got.length === 0) await sleep(10);
  }
};

const percentile = (p: number): string => [...claims].sort((a, b) => a - b)[Math.floor(claims.length * p)]?.toFixed(1) ?? "-";
const loops = [produce(), consume(), consume(), consume()];
for (const [name, seconds] of phases) {
  if (name === "open") await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue");
  if (name === "after") await holder.query("COMMIT");
  for (let at = 0; at < seconds * 1000; at += everyMs) {
    claims = [];
    const before = acked;
    const begun = performance.now();
    await sleep(Math.min(everyMs, seconds * 1000 - at));
    const perSecond = (acked - before) / ((performance.now() - begun) / 1000);
    const { rows } =
      await watcher.query(`SELECT pg_relation_size('message') / 1048576 AS heap, pg_indexes_size('message') / 1048576 AS indexes,
      pg_stat_get_dead_tuples('message'::regclass) AS dead`);
    const { heap, indexes, dead } = rows[0];
    console.log(
      `${name} ${Math.round((at + everyMs) / 1000)} s | ${perSecond.toFixed(0)} msgs/s | claims ${claims.length}, p50 ${percentile(0.5)}, p99 ${percentile(0.99)} ms | heap ${heap} MiB, indexes ${indexes} MiB, dead rows ${dead}`,
    );
  }
}
running = false;
await Promise.all(loops);
await store.close();
await Promise.all([watcher.end(), holder.end()]);
await server?.stop();
