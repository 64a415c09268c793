// A planted bug, loaded into the server by a test: SQLite's commits are put off, so that answers go out before anything is kept.
// Seven commits of eight only pretend, and the transaction they belong to stays open for the next one.
import Database from "better-sqlite3";

const { prepare } = Database.prototype;
const connections = new WeakMap();

Database.prototype.prepare = function (sql) {
  const statement = prepare.call(this, sql);
  const text = sql.trim().toUpperCase();
  if (text.startsWith("BEGIN")) return { run: () => (this.inTransaction ? undefined : statement.run()) };
  if (text !== "COMMIT") return statement;
  return {
    run: () => {
      const count = (connections.get(this) ?? 0) + 1;
      connections.set(this, count);
      return count % 8 === 0 ? statement.run() : undefined;
    },
  };
};
