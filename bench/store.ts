/**
 * The store alone: send, claim and acknowledge lifecycles on one engine.
 * `node --import tsx --conditions=@millrace/source bench/store.ts <file, postgres://… or postgres> [scenario …]`, with SECONDS and RUNS.
 * `postgres` starts a durable server of its own. The database is wiped for every scenario.
 */
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "@millrace/testkit";
import Database from "better-sqlite3";
import pg from "pg";
import { createClock } from "../packages/server/src/clock.ts";
import { type OpenStore, openStore } from "../packages/server/src/store/open.ts";
import type { QueueSettings, SendRow } from "../packages/server/src/store/types.ts";
import { sleep } from "./parts/machine.mjs";
import { postgresSettings } from "./parts/postgres-settings.mjs";
import { queueSettings } from "./parts/queue-settings.ts";

const SECONDS = Number(process.env.SECONDS ?? 3);
const RUNS = Number(process.env.RUNS ?? 3);
const [target = join(tmpdir(), "millrace-bench.db"), ...wanted] = process.argv.slice(2);
const server = target === "postgres" ? await startPostgres(postgresSettings) : null;
const url = server?.url ?? target;
const isPostgres = url.startsWith("postgres");
const body = Buffer.alloc(1000, "lorem ipsum ");

interface Scenario {
  /** Rows put there before: how many, in how many groups, due when. */
  fill?: { rows: number; groups?: number; dueInMs?: number };
  queues?: number;
  group?: (k: number) => string;
  dedup?: boolean;
  batch?: number;
  settings?: Partial<QueueSettings>;
}

const some = (n: number, prefix: string) => () => `${prefix}${Math.floor(Math.random() * n)}`;
const scenarios: Record<string, Scenario> = {
  "standard, 1k queued": { fill: { rows: 1000 } },
  "standard, 1M queued": { fill: { rows: 1_000_000 } },
  "standard, 100k scheduled beside": { fill: { rows: 100_000, dueInMs: 86_400_000 } },
  "standard, 1,000 queues": { queues: 1000 },
  "standard, dedup": { dedup: true },
  "fifo, 1 group": { group: () => "a" },
  "fifo, 100 groups": { group: some(100, "g") },
  "fifo, 100,000 groups": { fill: { rows: 200_000, groups: 100_000 }, group: some(100_000, "p") },
  "fair (null), 100 groups": { group: some(100, "g"), settings: { groupConcurrency: null } },
  "fair (null), 100,000 groups": {
    fill: { rows: 200_000, groups: 100_000 },
    group: some(100_000, "p"),
    settings: { groupConcurrency: null },
  },
  "limit 5, 100 groups": { group: some(100, "g"), settings: { groupConcurrency: 5 } },
};

/** A scratch database with its queues and what is queued before. */
async function prepare(scenario: Scenario): Promise<OpenStore> {
  const clock = createClock();
  if (isPostgres) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public");
    await client.end();
  } else for (const end of ["", "-wal", "-shm"]) rmSync(url + end, { force: true });
  const first = await openStore({ url, clock });
  await first.close();
  const now = clock.now();
  const text = JSON.stringify({ ...queueSettings, ...scenario.settings });
  const queues = Array.from(
    { length: scenario.queues ?? 1 },
    (_, i) => `(${i + 1}, 'q${i}', 'q${i}', 1, 'production', 'q${i}', 'standard', '${text}', 'api', 0, 0)`,
  );
  const { rows = 0, groups = 0, dueInMs = -5000 } = scenario.fill ?? {};
  const due = now + dueInMs;
  const group = groups > 0 ? `'p' || (i % ${groups})` : "NULL";
  const line = groups > 0 ? `CASE WHEN i <= ${groups} THEN ${due} END` : `${due}`;
  const columns = "seq, origin, queue_no, line_at, due_at, sent_at, expires_at, group_key, body, receives, attempts";
  const values = (series: string, bytes: string) =>
    `INSERT INTO message (${columns}) SELECT i, i, 1, ${line}, ${due}, ${due}, ${due + queueSettings.retentionMs}, ${group}, ${bytes}, 0, 0 FROM ${series}`;
  const before = [
    "INSERT INTO organization (no, id, name, created_at) VALUES (1, 'o', 'o', 0)",
    "INSERT INTO project (no, id, organization_no, name, created_at) VALUES (1, 'p', 1, 'p', 0)",
    `INSERT INTO queue (no, id, resource_name, project_no, environment, name, type, settings, source, created_at, updated_at) VALUES ${queues.join(", ")}`,
  ];
  if (isPostgres) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    for (const sql of before) await client.query(sql);
    if (rows > 0) {
      await client.query(values(`generate_series(1, ${rows}) AS s(i)`, `convert_to('${body}', 'UTF8')`));
      await client.query(`SELECT setval('message_seq', ${rows})`);
    }
    await client.query("VACUUM ANALYZE message");
    await client.query("CHECKPOINT");
    await client.end();
  } else {
    const db = new Database(url);
    db.pragma("synchronous = OFF");
    for (const sql of before) db.exec(sql);
    if (rows > 0) {
      const series = `WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ${rows}) `;
      db.exec(series + values("s", `CAST('${body}' AS blob)`));
      db.exec(`UPDATE message_seq SET n = ${rows}`);
    }
    db.pragma("wal_checkpoint(TRUNCATE)");
    db.close();
  }
  return openStore({ url, clock });
}

const percentile = (list: number[], p: number) => [...list].sort((a, b) => a - b)[Math.floor(list.length * p)]?.toFixed(1) ?? "-";

async function run(store: OpenStore, scenario: Scenario): Promise<{ rate: number; cpu: number; send: number[]; claim: number[] }> {
  const end = performance.now() + SECONDS * 1000;
  const begun = performance.now();
  const cpuBefore = process.cpuUsage();
  const send: number[] = [];
  const claim: number[] = [];
  const queues = scenario.queues ?? 1;
  const batch = scenario.batch ?? (isPostgres ? 100 : 10);
  let [sent, acked, k, bad] = [0, 0, 0, 0];
  const producer = async () => {
    while (performance.now() < end) {
      if (sent - acked > 4000) {
        await sleep(1);
        continue;
      }
      const rows = Array.from({ length: isPostgres ? 1 : 10 }, (): SendRow => {
        k++;
        return {
          queueNo: 1 + Math.floor(Math.random() * queues),
          body,
          attributes: null,
          meta: null,
          groupKey: scenario.group?.(k) ?? null,
          dedupId: scenario.dedup ? `${begun}-${k}` : null,
          delayMs: null,
        };
      });
      const at = performance.now();
      await store.send(rows);
      send.push(performance.now() - at);
      sent += rows.length;
    }
  };
  let next = 0;
  const consumer = async () => {
    while (performance.now() < end) {
      const at = performance.now();
      const asks = Array.from({ length: queues > 1 ? 25 : 1 }, () => ({
        queueNo: 1 + (next++ % queues),
        batchSize: batch,
        batches: 1,
        leaseMs: null,
      }));
      const got = (await Promise.all(asks.map((ask) => store.claim(ask)))).flatMap(({ batches }, i) =>
        batches
          .flat()
          .map((m) => ({ queueNo: (asks[i] as (typeof asks)[number]).queueNo, seq: m.seq, receipt: m.receipt, outcome: "ack" as const })),
      );
      claim.push(performance.now() - at);
      if (got.length === 0) {
        await sleep(1);
        continue;
      }
      for (const { result } of await store.settle(got)) if (result !== "acked") bad++;
      acked += got.length;
    }
  };
  await Promise.all([...Array.from({ length: isPostgres ? 256 : 16 }, producer), ...Array.from({ length: isPostgres ? 8 : 16 }, consumer)]);
  if (bad > 0) console.log(`${bad} acknowledgements were refused`);
  const cpu = process.cpuUsage(cpuBefore);
  return { rate: acked / ((performance.now() - begun) / 1000), cpu: (cpu.user + cpu.system) / acked, send, claim };
}

for (const [name, scenario] of Object.entries(scenarios)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
  const store = await prepare(scenario);
  const runs = [];
  for (let i = 0; i < RUNS; i++) runs.push(await run(store, scenario));
  runs.sort((a, b) => a.rate - b.rate);
  const median = runs[Math.floor(RUNS / 2)] as (typeof runs)[number];
  console.log(
    `${store.engine} | ${name} | ${Math.round(median.rate)} msgs/s | ${median.cpu.toFixed(0)} µs of this process's CPU each | claim p50 ${percentile(median.claim, 0.5)} p99 ${percentile(median.claim, 0.99)} ms` +
      ` | send p99 ${percentile(median.send, 0.99)} ms | runs ${runs.map(({ rate }) => Math.round(rate)).join(" ")}`,
  );
  await store.close();
}
await server?.stop();
