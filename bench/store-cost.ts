/**
 * What a message costs the store in CPU: SQLite in this thread, without worker, flushes or HTTP, so that it can be compared on a busy
 * machine. Each step is one transaction that acknowledges what the step before claimed, claims ten tens, and sends a hundred.
 * `node --import tsx --conditions=@millrace/source bench/store-cost.ts [scenario …]`, with STEPS.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqlite } from "../packages/server/src/db/sqlite.ts";
import { createEngine } from "../packages/server/src/store/engine.ts";
import type { HotBatch } from "../packages/server/src/store/hot.ts";
import { migrate } from "../packages/server/src/store/migrate.ts";
import { statements } from "../packages/server/src/store/statements.ts";

const STEPS = Number(process.env.STEPS ?? 100);
const ROUNDS = 5;
const wanted = process.argv.slice(2);
const body = Buffer.alloc(1000, "lorem ipsum ");

interface Scenario {
  groups?: number;
  /** Rows there before, one group after the other. */
  fill?: number;
  limit?: number | null;
}
const scenarios: Record<string, Scenario> = {
  standard: {},
  "fifo, 100 groups": { groups: 100 },
  "fifo, 100,000 groups": { groups: 100_000, fill: 200_000 },
  "fair (null), 100 groups": { groups: 100, limit: null },
  "limit 5, 100 groups": { groups: 100, limit: 5 },
};

async function costOf({ groups = 0, fill = 0, limit = 1 }: Scenario): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cost-"));
  const db = openSqlite({ path: join(folder, "store.db"), statements, now: Date.now, relaxedSync: true });
  await migrate(db);
  const settings = { visibilityTimeoutMs: 30_000, retentionMs: 345_600_000, delayMs: 0, maxAttempts: 5, groupConcurrency: limit };
  const due = Date.now() - 5000;
  db.raw.exec(`INSERT INTO organization (no, id, name, created_at) VALUES (1, 'o', 'o', 0);
    INSERT INTO project (no, id, organization_no, name, created_at) VALUES (1, 'p', 1, 'p', 0);
    INSERT INTO queue (no, id, resource_name, project_no, environment, name, type, settings, source, created_at, updated_at)
      VALUES (1, 'q', 'q', 1, 'production', 'q', 'standard', '${JSON.stringify(settings)}', 'api', 0, 0);
    WITH RECURSIVE s(i) AS (SELECT 1 WHERE ${fill} > 0 UNION ALL SELECT i + 1 FROM s WHERE i < ${fill})
      INSERT INTO message (seq, origin, queue_no, line_at, due_at, sent_at, expires_at, group_key, body, receives, attempts)
      SELECT i, i, 1, CASE WHEN i <= ${groups} THEN ${due} END, ${due}, ${due}, ${due + 345_600_000}, 'g' || (i % ${groups || 1}),
        CAST('${body}' AS blob), 0, 0 FROM s;
    UPDATE message_seq SET n = ${fill};`);
  const engine = createEngine(db, Math.random);
  let settles: HotBatch["settles"] = [];
  let done = 0;
  const step = async () => {
    const groupKey = () => (groups === 0 ? null : `g${Math.floor(Math.random() * groups)}`);
    const row = () => ({ queueNo: 1, body, attributes: null, meta: null, groupKey: groupKey(), dedupId: null, delayMs: null });
    const ask = { queueNo: 1, batchSize: 10, batches: 1, leaseMs: null };
    const { claims } = await engine.hot({
      settles,
      claims: Array.from({ length: 10 }, () => ask),
      sends: Array.from({ length: 100 }, row),
    });
    done += settles.length;
    settles = claims
      .flatMap(({ batches }) => batches.flat())
      .map(({ queueNo, seq, receipt }) => ({ queueNo, seq, receipt, outcome: "ack" as const }));
  };
  for (let i = 0; i < 60; i++) await step();
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const [before, cpu] = [done, process.cpuUsage()];
    for (let i = 0; i < STEPS; i++) await step();
    const { user, system } = process.cpuUsage(cpu);
    rounds.push((user + system) / (done - before));
  }
  await db.close();
  rmSync(folder, { recursive: true });
  return rounds.sort((a, b) => a - b)[Math.floor(ROUNDS / 2)] as number;
}

for (const [name, scenario] of Object.entries(scenarios)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
  console.log(`${name} | ${(await costOf(scenario)).toFixed(1)} µs of CPU per message`);
}
