/**
 * Looks at a cluster's database for `millrace doctor`: settings, nodes, slots, vacuum, whoever holds it back. Changes nothing, and
 * migrates nothing: what it looks at may be another version's.
 */
import type { Tx } from "../db/db.ts";
import { openPostgres } from "../db/postgres.ts";
import { clusterVerbs } from "./cluster.ts";
import type { Examination, NamedDatabase, TableState } from "./examination-types.ts";
import { plainReason } from "./plain-reason.ts";
import { statements } from "./statements.ts";

/** The settings that matter to what is promised and to speed. */
const SETTINGS = [
  "autovacuum",
  "autovacuum_max_workers",
  "autovacuum_naptime",
  "fsync",
  "full_page_writes",
  "idle_in_transaction_session_timeout",
  "max_connections",
  "shared_buffers",
  "synchronous_commit",
  "synchronous_standby_names",
  "track_counts",
];
const TABLES = ["message", "tally", "dedup", "slot"];
const ALIVE_MS = 10_000;
const AGO = (at: string): string => `floor(extract(epoch FROM clock_timestamp() - ${at}) * 1000)::bigint`;
const textList = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(", ");

/** Looks once. Rejects with a plain reason when the database can't be reached. */
export async function examine(url: string, wall: () => number = Date.now): Promise<Examination> {
  const db = openPostgres({ url, statements, offset: () => 0, hotConnections: 1, coldConnections: 1 });
  try {
    return await db.transaction((tx) => look(tx, wall));
  } catch (error) {
    throw plainReason(error);
  } finally {
    await db.close();
  }
}

async function look(tx: Tx, wall: () => number): Promise<Examination> {
  const askedAt = wall();
  const [clock] = await tx.query<{ now: number; version: number; used: number; elsewhere: number }>(
    `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, current_setting('server_version_num')::int AS version,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname <> current_database()) AS elsewhere`,
  );
  // The database read its clock somewhere between question and answer: halfway is the best guess.
  const skewMs = Math.round((askedAt + wall()) / 2 - Number(clock?.now));
  const settings = Object.fromEntries(
    (await tx.query<{ name: string; setting: string }>(`SELECT name, setting FROM pg_settings WHERE name IN (${textList(SETTINGS)})`)).map(
      ({ name, setting }) => [name, setting],
    ),
  );
  const [oldest] = await tx.query<{ ms: number; by: string }>(
    `SELECT ${AGO("xact_start")} AS ms, coalesce(usename, '?') || ' (pid ' || pid || ', ' || coalesce(state, '?') || ')' AS by
     FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
     ORDER BY xact_start LIMIT 1`,
  );
  const [known] = await tx.query<{ schema: boolean; slots: boolean; joined: boolean }>(
    `SELECT to_regclass('schema_version') IS NOT NULL AS schema, to_regclass('slot') IS NOT NULL AS slots,
       to_regclass('placed_database') IS NOT NULL AS joined`,
  );
  const [schema] = known?.schema ? await tx.query<{ version: number }>("SELECT max(version) AS version FROM schema_version") : [];
  const nodes = known?.slots ? await clusterVerbs.listNodes(tx) : [];
  const owned = nodes.reduce((sum, node) => sum + (node.seenAgoMs < ALIVE_MS ? node.slots : 0), 0);
  const [all] = known?.slots ? await tx.query<{ n: number }>("SELECT count(*) AS n FROM slot") : [];
  const databases = known?.joined
    ? await tx.query<NamedDatabase & { self: number }>("SELECT name, id, self FROM placed_database ORDER BY no")
    : [];
  return {
    serverVersion: clock?.version ?? 0,
    settings,
    schema: schema?.version ?? null,
    nodes,
    joined: databases.filter(({ self }) => self === 0),
    itself: databases.find(({ self }) => self === 1) ?? null,
    orphanedSlots: Number(all?.n ?? 0) - owned,
    tables: await tx.query<TableState & Record<string, never>>(
      `SELECT relname AS name, pg_total_relation_size(relid) AS bytes, n_live_tup AS live, n_dead_tup AS dead,
         ${AGO("greatest(last_autovacuum, last_vacuum)")} AS "vacuumedAgoMs"
       FROM pg_stat_user_tables WHERE relname IN (${textList(TABLES)}) AND schemaname = current_schema() ORDER BY relname`,
    ),
    oldestTransaction: oldest === undefined ? null : { ms: Number(oldest.ms), by: oldest.by },
    connections: { used: Number(clock?.used ?? 0), elsewhere: Number(clock?.elsewhere ?? 0), most: Number(settings.max_connections ?? 0) },
    skewMs,
  };
}
