/**
 * SQLite behind the port, for the thread that owns the file: one connection, one transaction at a time, durable at every commit
 * (WAL and FULL: NORMAL loses answered writes in a power cut). The file is locked for as long as this process lives, and no longer:
 * a second server is refused, and no reader from outside can keep the log from being emptied.
 */
import { closeSync, existsSync, openSync } from "node:fs";
import Database from "better-sqlite3";
import type { Db, Row, Statements, TransactionOptions, Tx, Value } from "./db.ts";
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
  bytewise_names: "",
  roomy_runs: "",
};

/**
 * `now` answers the instant of the next transaction. `relaxedSync` is for tests that do not test durability: they may also look into
 * the open file.
 */
export interface SqliteOptions {
  path: string;
  statements: Statements;
  now: () => number;
  relaxedSync?: boolean;
}

/** The log is emptied into the file when it holds so many pages (64 MiB), and cut back to this length after a large transaction. */
const LOG_PAGES = 4000;
const LOG_BYTES = LOG_PAGES * 16_384;

/** Opens the file, making it if need be. Throws when another process has it open. */
export function openSqlite(options: SqliteOptions): Db & { raw: Database.Database } {
  const { statements } = options;
  const raw = openFile(options.path, options.relaxedSync ?? false);
  raw.pragma(`synchronous = ${options.relaxedSync ? "OFF" : "FULL"}`);
  raw.pragma(`wal_autocheckpoint = ${LOG_PAGES}`);
  raw.pragma(`journal_size_limit = ${LOG_BYTES}`);
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
    async transaction<T>(run: (tx: Tx) => Promise<T>, { relaxed = false }: TransactionOptions = {}): Promise<T> {
      if (busy) throw new Error("SQLite runs one transaction at a time.");
      busy = true;
      const now = options.now();
      const due = new Map<number, number>();
      let forgets = false;
      const posted: Promise<unknown>[] = [];
      // The next commit that is not relaxed makes this one durable too.
      const eased = relaxed && !options.relaxedSync;
      const tx: Tx = {
        engine: "sqlite",
        now,
        slot: 0,
        littered: false,
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
        post: (name, rows) => {
          const done = tx.each(name, rows);
          done.catch(() => {});
          posted.push(done);
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
        if (eased) raw.pragma("synchronous = NORMAL");
        begin.run();
        const result = await run(tx);
        await Promise.all(posted);
        commit.run();
        if (forgets) renew(memory, memory.version + 1);
        board.tell(due, now);
        return result;
      } catch (error) {
        if (raw.inTransaction) raw.exec("ROLLBACK");
        throw error;
      } finally {
        if (eased) raw.pragma("synchronous = FULL");
        busy = false;
      }
    },
    onReady: board.add,
    render: (schema) => schema.replace(/\{(\w+)\}/g, (all, word: string) => WORDS[word] ?? all),
    async close() {
      raw.close();
    },
  };
}

/** The file in WAL mode, locked unless `open`. */
function openFile(path: string, open: boolean): Database.Database {
  // Messages are nobody else's to read; what SQLite makes beside the file has the file's mode. A file that is there is not opened
  // here: closing it would free the locks that this process holds on it.
  if (!existsSync(path)) closeSync(openSync(path, "a", 0o600));
  const raw = new Database(path, { timeout: open ? 5000 : 0 });
  try {
    // Before the first access: then the log's index lies in this process's memory, where no other process can take part.
    if (!open) raw.pragma("locking_mode = EXCLUSIVE");
    raw.pragma("page_size = 16384");
    raw.pragma("journal_mode = WAL");
    raw.exec("BEGIN IMMEDIATE; COMMIT");
    return raw;
  } catch (error) {
    raw.close();
    if (error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_BUSY"))
      throw new Error(
        `Another Millrace server is using ${path}, or another program has it open. Stop it first, or give this server a file of its own.`,
      );
    throw error;
  }
}
