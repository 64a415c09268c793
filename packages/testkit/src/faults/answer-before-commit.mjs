// A planted bug, loaded into the server by a test and awake in those of its lives that have MILLRACE_TEST_PLANT=1: commits are put off,
// so that answers go out before anything is kept.
// On SQLite seven commits of eight only pretend, and their transaction stays open for the next one. On PostgreSQL a commit is sent a
// second after it was said to have happened.
import { syncBuiltinESMExports } from "node:module";
import threads from "node:worker_threads";
import Database from "better-sqlite3";
import pg from "pg";

if (process.env.MILLRACE_TEST_PLANT === "1") {
  // The store's thread is started with arguments of its own: this module has to be among them.
  const { Worker } = threads;
  threads.Worker = class extends Worker {
    constructor(file, options) {
      super(file, { ...options, execArgv: [...(options?.execArgv ?? process.execArgv), "--import", import.meta.url] });
    }
  };
  syncBuiltinESMExports();

  const { prepare } = Database.prototype;
  const commits = new WeakMap();
  Database.prototype.prepare = function (sql) {
    const statement = prepare.call(this, sql);
    const text = sql.trim().toUpperCase();
    if (text.startsWith("BEGIN")) return { run: () => (this.inTransaction ? undefined : statement.run()) };
    if (text !== "COMMIT") return statement;
    return {
      run: () => {
        const count = (commits.get(this) ?? 0) + 1;
        commits.set(this, count);
        return count % 8 === 0 ? statement.run() : undefined;
      },
    };
  };

  // How safely a commit is stored can't be changed while one is put off.
  const { pragma } = Database.prototype;
  Database.prototype.pragma = function (source, options) {
    return this.inTransaction && /^synchronous/.test(source) ? undefined : pragma.call(this, source, options);
  };

  const { query } = pg.Client.prototype;
  pg.Client.prototype.query = function (...args) {
    const text = typeof args[0] === "string" ? args[0] : args[0]?.text;
    if (!/^\s*commit\s*$/i.test(text ?? "")) return query.apply(this, args);
    setTimeout(() => query.call(this, "COMMIT").catch(() => {}), 1000);
    const result = { rows: [], rowCount: 0, command: "COMMIT" };
    const done = args.find((argument) => typeof argument === "function");
    if (done === undefined) return Promise.resolve(result);
    done(null, result);
  };
}
