/**
 * Queues on several databases (A14). In the default database `placed_database` has a row for every other one, and `last` counts the queues
 * made there; in each other database the table has one row, its own (`self`), so that no address can be taken for another's.
 * `placed_queue`, in the default database, says which database has a queue of which name; while a creation or a deletion is under way `open_since` is set, and
 * only that database knows how it ended. `forgone_queue`, beside the queues, has the numbers under which none will be made any more. Names
 * of queues are ordered by their bytes, whatever the database's locale, so that lists of several databases can be merged.
 */
export const databases = {
  version: 10,
  name: "databases",
  sql: `
CREATE TABLE placed_database (no integer PRIMARY KEY, name text NOT NULL UNIQUE, id text NOT NULL UNIQUE, self integer NOT NULL,
  joined integer NOT NULL, last integer NOT NULL);
CREATE TABLE placed_queue (no integer PRIMARY KEY, database_no integer NOT NULL, id text NOT NULL UNIQUE, resource_name text NOT NULL UNIQUE,
  project_no integer NOT NULL, environment text NOT NULL, name text NOT NULL, open_since {bigint}, scope text, key text,
  UNIQUE (project_no, environment, name));
CREATE INDEX placed_queue_database ON placed_queue (database_no);
CREATE INDEX placed_queue_open ON placed_queue (open_since) WHERE open_since IS NOT NULL;
CREATE TABLE forgone_queue (no integer PRIMARY KEY, at {bigint} NOT NULL);
{bytewise_names}
`,
} as const;
