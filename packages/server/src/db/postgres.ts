/**
 * PostgreSQL behind the port. Time is the database's, plus the clock's offset, read in the round trip that begins the transaction
 * together with the memory's version; no connection is held outside of a transaction. Plans must not follow the statistics of a
 * table that empties and fills all day: they are generic and go by the indexes.
 */
import pg from "pg";
import type { Db, Statements, TransactionOptions, Tx, Value } from "./db.ts";
import { JoiningSocket } from "./joining-socket.ts";
import { createMemory, keep, renew } from "./memory.ts";
import { replaceNamed } from "./named.ts";
import { addressOf } from "./postgres-address.ts";
import { demandWritable, faultOf, isAway, isOutdated, isTransient, unreachable } from "./postgres-faults.ts";
import { listenReady } from "./postgres-listen.ts";
import { type PostgresStatement, preparePostgres } from "./postgres-statement.ts";
import { createReadyBoard, noteReady } from "./ready.ts";

export interface PostgresOptions {
  url: string;
  statements: Statements;
  /** Milliseconds added to the database's time (P26). */
  offset: () => number;
  /** Tests only: the instant of the next transaction instead of the database's time. */
  instant?: () => number;
  /** Tests only: whether transactions are told that the message table is littered. */
  littered?: () => boolean;
  /** Connections for hot transactions and for all others: neither can take the other's. */
  hotConnections?: number;
  coldConnections?: number;
}

const WORDS: Record<string, string> = {
  bigint: "bigint",
  bytes: "bytea",
  text: 'text COLLATE "C"',
  hot: `WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)`,
  small: `WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0)`,
  sequence: "CREATE SEQUENCE message_seq;",
  roomy_runs: `ALTER TABLE run SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0);`,
  bytewise_names: 'ALTER TABLE queue ALTER COLUMN name TYPE text COLLATE "C";',
};
/** A node that is stopped within a transaction must not hold its locks: the database ends that session. */
const IDLE_MS = 5_000;
const SESSION = `-c idle_in_transaction_session_timeout=${IDLE_MS} -c synchronous_commit=on -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c timezone=UTC`;
const RETRIES = 5;
const CONNECT_MS = 5_000;
/** A statement without an answer for so long means that the line is dead, in hot transactions, in others and in patient ones. */
const ANSWER_MS = { hot: 15_000, cold: 60_000, patient: 2 ** 31 - 1 };
/** No more cold texts than this are kept prepared. */
const NAMED_TEXTS = 500;

/** Whole numbers come as numbers: none of ours passes 2^53. */
const types = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    oid === 20 || oid === 1700 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

/** Draws message numbers. */
async function draw(client: pg.PoolClient, count: number): Promise<number[]> {
  const text = "SELECT nextval('message_seq') AS n FROM generate_series(1, $1::int)";
  return (await client.query<{ n: number }>({ name: "sequence", text, values: [count] })).rows.map((row) => row.n);
}

interface Begun {
  now: number;
  slot: number;
  version: number;
  readOnly: string;
}

export interface PostgresDb extends Db {
  /** The text of a hot statement as PostgreSQL gets it, for looking at its plan. */
  textOf(statement: string): string;
}

/** Opens pools on a database. Connections are made when they are needed. */
export function openPostgres(options: PostgresOptions): PostgresDb {
  // Pipelined: what is posted travels with what comes after it, one round trip for both.
  const { connectionString, given } = addressOf(options.url);
  const config = {
    connectionString,
    pipeline: true,
    stream: () => new JoiningSocket(),
    // The last word counts.
    options: `${given} ${SESSION}`,
    types,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
  };
  const hotPool = new pg.Pool({ ...config, query_timeout: ANSWER_MS.hot, max: options.hotConnections ?? 4 });
  const coldPool = new pg.Pool({ ...config, query_timeout: ANSWER_MS.cold, max: options.coldConnections ?? 4 });
  for (const pool of [hotPool, coldPool]) {
    // A connection that breaks fails the query under way; the event itself must end nothing.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
  }
  const hot = new Map<string, PostgresStatement>();
  const cold = new Map<string, { name: string | undefined; text: string; names: string[] }>();
  const memory = createMemory();
  const board = createReadyBoard();
  const listening = listenReady({ ...config, options: given }, board);

  const hotText = (name: string): PostgresStatement => {
    let statement = hot.get(name);
    if (statement === undefined) {
      const text = options.statements[name];
      if (text === undefined) throw new Error(`There is no statement ${name}.`);
      statement = preparePostgres(text);
      hot.set(name, statement);
    }
    return statement;
  };
  const coldText = (sql: string) => {
    let known = cold.get(sql);
    if (known === undefined) {
      const names: string[] = [];
      const text = replaceNamed(sql, (mark, name) => {
        if (mark === "$") return mark + name;
        if (!names.includes(name)) names.push(name);
        return `$${names.indexOf(name) + 1}`;
      });
      known = { name: cold.size < NAMED_TEXTS ? `c${cold.size}` : undefined, text, names };
      if (cold.size < NAMED_TEXTS) cold.set(sql, known);
    }
    return known;
  };

  const attempt = async <T>(client: pg.PoolClient, run: (tx: Tx) => Promise<T>, given: TransactionOptions): Promise<T> => {
    const { relaxed = false, numbers = 0 } = given;
    const answer = given.patient ? { query_timeout: ANSWER_MS.patient } : {};
    const memoryFrom = await hasMemory(client);
    // One round trip; what is read there is prepared, for its plan costs more than the reading.
    const [, , begun, drawn] = await Promise.all([
      client.query({ name: "begin", text: "BEGIN" }),
      relaxed ? client.query({ name: "relaxed", text: "SET LOCAL synchronous_commit = off" }) : undefined,
      client.query<Begun>({
        name: `begun ${memoryFrom}`,
        text: `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, pg_backend_pid() AS slot,
          (SELECT n FROM ${memoryFrom}) AS version, current_setting('transaction_read_only') AS "readOnly"`,
      }),
      numbers > 0 ? draw(client, numbers) : [],
    ]);
    const early = [...drawn];
    const posted: Promise<unknown>[] = [];
    /** Why a posted statement failed: whatever came after it was refused for that alone. */
    let failure: { error: unknown } | undefined;
    const { now: databaseNow, slot, version, readOnly } = begun.rows[0] as Begun;
    demandWritable(readOnly);
    const now = options.instant?.() ?? databaseNow + options.offset();
    renew(memory, version);
    const due = new Map<number, number>();
    let forgets = false;
    const tx: Tx = {
      engine: "postgres",
      now,
      slot: slot % 64,
      littered: options.littered?.() ?? listening.littered(),
      async query<R>(sql: string, params: Record<string, Value> = {}) {
        const { name, text, names } = coldText(sql);
        const values = names.map((key) => {
          const value = params[key];
          if (value === undefined) throw new Error(`There is no parameter ${key}.`);
          return typeof value === "boolean" ? Number(value) : value;
        });
        // A text without parameters may hold several statements: those can't be prepared.
        return (await client.query(names.length === 0 ? { text, ...answer } : { name, text, values, ...answer })).rows as R[];
      },
      async each<R>(name: string, rows: readonly (readonly Value[])[]) {
        if (rows.length === 0) return [];
        const { text, values } = hotText(name);
        return (await client.query({ name, text, values: values(rows, now) })).rows as R[];
      },
      post: (name, rows) => {
        const done = tx.each(name, rows);
        done.catch((error: unknown) => {
          failure ??= { error };
        });
        posted.push(done);
      },
      async sequence(count, isEarly = false) {
        if (isEarly && early.length >= count) return early.splice(0, count);
        return draw(client, count);
      },
      ready: (queueNo, at) => noteReady(due, queueNo, at),
      recall: <R>(no: number) => (forgets || version !== memory.version ? undefined : (memory.values.get(no) as R | undefined)),
      remember: (no, value) => {
        if (!forgets) keep(memory, version, no, value);
      },
      async forget() {
        forgets = true;
        await client.query("UPDATE memory_version SET n = n + 1");
      },
    };
    let result: T;
    try {
      result = await run(tx);
      // A commit of a transaction in which something failed is a rollback: the failure is what counts.
      await Promise.all([...posted, client.query({ name: "commit", text: "COMMIT" })]);
    } catch (error) {
      throw failure === undefined ? error : failure.error;
    }
    board.tell(due, now);
    listening.notify(due, now);
    return result;
  };

  // Before the first migration there is nothing to remember, and no table that says so.
  let memoryTable: string | null = null;
  let reached = false;
  const hasMemory = async (client: pg.PoolClient): Promise<string> => {
    if (memoryTable !== null) return memoryTable;
    const { rows } = await client.query<{ found: boolean }>("SELECT to_regclass('memory_version') IS NOT NULL AS found");
    if (rows[0]?.found !== true) return "(SELECT 0::bigint AS n) AS none";
    memoryTable = "memory_version";
    return memoryTable;
  };

  return {
    engine: "postgres",
    async transaction<T>(run: (tx: Tx) => Promise<T>, given: TransactionOptions = {}): Promise<T> {
      for (let tries = 0; ; ) {
        let client: pg.PoolClient;
        try {
          client = await (given.hot ? hotPool : coldPool).connect();
          reached = true;
        } catch (error) {
          // A database that once let this process in and refuses it now is away, whatever it says; one that never did is set up wrong.
          throw reached ? unreachable(error) : faultOf(error);
        }
        let broken: unknown;
        try {
          return await attempt(client, run, given);
        } catch (error) {
          if (isAway(error) || isOutdated(error)) broken = error;
          else
            await client.query("ROLLBACK").catch((lost: unknown) => {
              broken = lost;
            });
          // Each of the pool's connections is outdated once and then closed.
          if (!isOutdated(error) && (!isTransient(error) || tries++ >= RETRIES))
            throw faultOf(broken !== undefined && isAway(broken) ? broken : error);
        } finally {
          client.release(broken !== undefined);
        }
      }
    },
    onReady: board.add,
    render: (schema) => schema.replace(/\{(\w+)\}/g, (all, word: string) => WORDS[word] ?? all),
    textOf: (name) => hotText(name).text,
    async close() {
      await listening.close();
      await Promise.all([hotPool.end(), coldPool.end()]);
    },
  };
}
