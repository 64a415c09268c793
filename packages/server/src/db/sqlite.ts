/**
 * SQLite behind the port, for the thread that owns the file: one connection, one transaction at a time, durable at every commit
 * (WAL and FULL: NORMAL loses answered writes in a power cut). A lock beside the file keeps a second server out for as long as this
 * process lives, and no longer.
 */
import Database from "better-sqlite3";
import type { Db, Row, Statements, Tx, Value } from "./db.ts";
import { createMemory, keep, renew } from "./memory.ts";
import { createReadyBoard, noteReady } from "./ready.ts";
import { prepareSqlite } from "./sqlite-statement.ts";

const WORDS: Record<string, string> = {
  bigint: "integer",
  bytes: "blob",
  text: "text",
  hot: "",
  small: "WITHOUT ROWID",
  sequence: "CREATE TABLE message_seq (n integer NOT NULL); INSERT INTO message_seq VALUES (0);",
};

/** `now` answers the instant of the next transaction. `relaxedSync` is for tests that do not test durability. */
export interface SqliteOptions {
  path: string;
  statements: Statements;
  now: () => number;
  relaxedSync?: boolean;
}

/** Opens the file, making it if need be. Throws when another process has it open as a server. */
export function openSqlite(options: SqliteOptions): Db & { raw: Database.Database } {
  const { statements } = options;
  const lock = lockFile(options.path);
  const raw = new Database(options.path, { timeout: 5000 });
  raw.pragma("page_size = 16384");
  raw.pragma("journal_mode = WAL");
  raw.pragma(`synchronous = ${options.relaxedSync ? "OFF" : "FULL"}`);
  raw.pragma("wal_autocheckpoint = 4000");
  raw.pragma("cache_size = -131072");
  raw.pragma("temp_store = MEMORY");
  raw.pragma("foreign_keys = ON");

  const begin = raw.prepare("BEGIN IMMEDIATE");
  const commit = raw.prepare("COMMIT");
  const hot = new Map<string, ReturnType<typeof prepareSqlite>>();
  const cold = new Map<string, Database.Statement<[Record<string, Value>], Row>>();
  let drawn: Database.Statement<[number], { n: number }> | undefined;
  const memory = createMemory();
  renew(memory, 0);
  const board = createReadyBoard();
  let busy = false;

  const query = (sql: string, params: Record<string, Value> = {}): Row[] => {
    let statement = cold.get(sql);
    if (statement === undefined) {
      statement = raw.prepare(sql);
      if (cold.size < 1000) cold.set(sql, statement);
    }
    const args: Record<string, Value> = {};
    for (const name in params) {
      const value = params[name] as Value;
      args[name] = typeof value === "boolean" ? Number(value) : value;
    }
    if (statement.reader) return statement.all(args);
    statement.run(args);
    return [];
  };

  return {
    engine: "sqlite",
    raw,
    async transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T> {
      if (busy) throw new Error("SQLite runs one transaction at a time.");
      busy = true;
      const now = options.now();
      const due = new Map<number, number>();
      let forgets = false;
      const tx: Tx = {
        engine: "sqlite",
        now,
        slot: 0,
        query: async <R>(sql: string, params?: Record<string, Value>) => query(sql, params) as R[],
        async each<R>(name: string, rows: readonly (readonly Value[])[]) {
          if (rows.length === 0) return [];
          let statement = hot.get(name);
          if (statement === undefined) {
            const text = statements[name];
            if (text === undefined) throw new Error(`There is no statement ${name}.`);
            statement = prepareSqlite(raw, text);
            hot.set(name, statement);
          }
          return statement(rows, now) as R[];
        },
        async sequence(count) {
          drawn ??= raw.prepare<[number], { n: number }>("UPDATE message_seq SET n = n + ? RETURNING n");
          const last = drawn.get(count)?.n as number;
          return Array.from({ length: count }, (_, i) => last - count + 1 + i);
        },
        ready: (queueNo, at) => noteReady(due, queueNo, at),
        recall: <R>(no: number) => (forgets ? undefined : (memory.values.get(no) as R | undefined)),
        remember: (no, value) => {
          if (!forgets) keep(memory, memory.version, no, value);
        },
        forget: async () => {
          forgets = true;
        },
      };
      try {
        begin.run();
        const result = await run(tx);
        commit.run();
        if (forgets) renew(memory, memory.version + 1);
        board.tell(due, now);
        return result;
      } catch (error) {
        if (raw.inTransaction) raw.exec("ROLLBACK");
        throw error;
      } finally {
        busy = false;
      }
    },
    onReady: board.add,
    render: (schema) => schema.replace(/\{(\w+)\}/g, (all, word: string) => WORDS[word] ?? all),
    async close() {
      raw.close();
      lock.close();
    },
  };
}

/** Holds an exclusive lock on a small file beside the database; the system drops it with the process, however it ends. */
function lockFile(path: string): Database.Database {
  const lock = new Database(`${path}.lock`, { timeout: 0 });
  try {
    lock.pragma("journal_mode = MEMORY");
    lock.exec("BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_BUSY"))
      throw new Error(`Another Millrace server is using ${path}. Stop it first, or give this one a file of its own.`);
    throw error;
  }
}
