// A planted bug, loaded into the server by a test and awake in those of its lives that have MILLRACE_TEST_PLANT=1: of the delivery records
// that a fan-out writes on SQLite, one of five is not written, as if it had been cut off after its cursor and before its records.
import { syncBuiltinESMExports } from "node:module";
import threads from "node:worker_threads";
import Database from "better-sqlite3";

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
  let count = 0;
  Database.prototype.prepare = function (sql) {
    const statement = prepare.call(this, sql);
    if (!sql.trim().startsWith("INSERT INTO delivery ")) return statement;
    return { run: (...args) => (++count % 5 === 0 ? { changes: 1 } : statement.run(...args)) };
  };
}
