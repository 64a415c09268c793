/**
 * Cold verbs by which databases know each other (A14). A name belongs to one database for good: the default one keeps names, numbers and
 * ids, and each other one says who it is, so that a mistaken address is refused before a queue seems lost or is made where it can't be found.
 */
import type { Row, Tx } from "../db/db.ts";
import { firstMessageOf, MOST_DATABASES, placedQueueNo } from "./database-numbers.ts";
import { lockCounter } from "./identity.ts";

/** A database by its name. `joined`: it has said once that it is the one. */
export interface JoinedDatabase {
  no: number;
  name: string;
  id: string;
  joined: boolean;
}

/** A database that has queues, and the first of them as `<organization>/<project>/<name>`. */
export interface DatabaseInUse {
  name: string;
  queues: number;
  first: string[];
}

const joinedOf = (row: Row): JoinedDatabase => ({
  no: row.no as number,
  name: row.name as string,
  id: row.id as string,
  joined: row.joined === 1,
});

async function itself(tx: Tx): Promise<JoinedDatabase | null> {
  const [row] = await tx.query("SELECT no, name, id, joined FROM placed_database WHERE self = 1");
  return row === undefined ? null : joinedOf(row);
}

async function lastQueueOf(tx: Tx): Promise<number | null> {
  const [row] = await tx.query("SELECT MAX(no) AS last FROM queue");
  return row?.last == null ? null : Number(row.last);
}

/** The verbs by name; those of the default database first. Their errors are for the start of a server: they keep it from starting. */
export const joinedDatabaseVerbs = {
  /** The number of a name, a new one if it is new. Rejects when this is not a default database, or has had too many others. */
  async enrolDatabase(tx: Tx, name: string, id: string): Promise<JoinedDatabase> {
    await lockCounter(tx);
    const [known] = await tx.query("SELECT no, name, id, joined FROM placed_database WHERE name = :name", { name });
    if (known !== undefined) return joinedOf(known);
    const [count] = await tx.query("SELECT COALESCE(MAX(no), 0) + 1 AS no FROM placed_database");
    const no = Number(count?.no);
    if (no > MOST_DATABASES) throw new Error(`An installation has ${MOST_DATABASES} names of databases at most, and all have been used.`);
    await tx.query("INSERT INTO placed_database (no, name, id, self, joined, last) VALUES (:no, :name, :id, 0, 0, -1)", { no, name, id });
    return { no, name, id, joined: false };
  },

  /**
   * Remembers that a database said that it is the one, and that its queues were numbered up to `lastQueueNo`: one of these databases may
   * have been restored from an older backup than the other.
   */
  async joinDatabase(tx: Tx, no: number, lastQueueNo: number | null): Promise<null> {
    await tx.query("UPDATE placed_database SET joined = 1, last = CASE WHEN last < :last THEN :last ELSE last END WHERE no = :no", {
      no,
      last: lastQueueNo === null ? -1 : lastQueueNo - placedQueueNo(no, 0),
    });
    return null;
  },

  /** Who this database is; `null` for a default one. */
  itself,

  /** The other databases that queues live on, but for those that are named. */
  async databasesInUse(tx: Tx, but: readonly string[]): Promise<DatabaseInUse[]> {
    const rows = await tx.query(
      `SELECT d.name AS name, (SELECT count(*) FROM placed_queue q WHERE q.database_no = d.no) AS queues, d.no AS no
       FROM placed_database d WHERE d.self = 0 ORDER BY d.no`,
    );
    const used = rows.filter(({ name, queues }) => Number(queues) > 0 && !but.includes(String(name)));
    return Promise.all(
      used.map(async ({ no, name, queues }) => {
        const first = await tx.query(
          `SELECT o.name AS organization, p.name AS project, q.name AS name FROM placed_queue q JOIN project p ON p.no = q.project_no
             JOIN organization o ON o.no = p.organization_no WHERE q.database_no = :no ORDER BY q.no LIMIT 5`,
          { no: no as number },
        );
        return {
          name: String(name),
          queues: Number(queues),
          first: first.map((row) => `${row.organization}/${row.project}/${row.name}`),
        };
      }),
    );
  },

  /**
   * On the other database: becomes the one of this name, or checks that it is. Answers the highest number of its queues, if it has any.
   * Rejects with what is wrong with it.
   */
  async becomeDatabase(tx: Tx, { no, name, id, joined }: JoinedDatabase): Promise<number | null> {
    await lockCounter(tx);
    const own = await itself(tx);
    if (own !== null) {
      if (own.id === id) return lastQueueOf(tx);
      throw new Error(`It is the database that was named ${own.name}${own.name === name ? " by another installation" : ""}.`);
    }
    const [other] = await tx.query("SELECT no FROM organization UNION SELECT no FROM placed_database LIMIT 1");
    if (other !== undefined) throw new Error("It is the default database of an installation.");
    if (joined) throw new Error("It is empty, and not the database that had this name before.");
    await tx.query("INSERT INTO placed_database (no, name, id, self, joined, last) VALUES (:no, :name, :id, 1, 1, -1)", { no, name, id });
    await tx.query(`ALTER SEQUENCE message_seq RESTART WITH ${firstMessageOf(no)}`);
    return null;
  },
};
