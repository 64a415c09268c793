/**
 * Cold verbs of queues that live beside the default database (A14). The default one keeps their names and numbers, so that a name is
 * unique over all; the queue itself is on its own. What goes over both is done in steps that can be repeated: a name is reserved under a
 * number, the queue is made under it or forgone for good, and then the default database hears how it ended. So a step that fails leaves
 * nothing in doubt for long.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { DEFAULT_DATABASE, placedQueueNo, QUEUES_EACH } from "./database-numbers.ts";
import { lockCounter } from "./identity.ts";
import { type MadeQueue, makeQueue, type NewQueue, nameTaken, queueVerbs, referenced } from "./queue.ts";
import type { IdempotencyKey } from "./types.ts";

/** Those that a queue belongs to, as its own database repeats them: they never change. */
export interface Owners {
  organization: { no: number; id: string };
  project: { no: number; id: string };
  environment: { no: number; id: string; slug: string } | null;
}

/**
 * A name that was reserved, and under what: whoever makes the queue, it is made so. `made` is the queue, once the default database has
 * heard of it.
 */
export interface Reservation extends Pick<NewQueue, "id" | "resourceName"> {
  no: number;
  made: MadeQueue | null;
}

/** A name and the queue that it means. `openForMs`: for so long its creation or deletion has been under way, `null` when it is over. */
export interface PlacedQueue {
  no: number;
  id: string;
  database: string;
  openForMs: number | null;
}

type Name = Pick<NewQueue, "projectNo" | "environment" | "name">;

/** A number that was forgone is remembered for so long: whoever would still make that queue is long gone. */
const FORGONE_MS = 86_400_000;

const SELECT = `SELECT q.no AS no, q.id AS id, d.name AS database, q.open_since AS open_since
  FROM placed_queue q JOIN placed_database d ON d.no = q.database_no`;
const placedOf = (row: Row, now: number): PlacedQueue => ({
  no: row.no as number,
  id: row.id as string,
  database: row.database as string,
  openForMs: row.open_since === null ? null : now - (row.open_since as number),
});

async function ownersOf(tx: Tx, { projectNo, environment }: Name): Promise<Owners> {
  const [row] = await tx.query(
    `SELECT p.id AS id, o.no AS o_no, o.id AS o_id FROM project p JOIN organization o ON o.no = p.organization_no WHERE p.no = :projectNo`,
    { projectNo },
  );
  if (row === undefined) throw new Fault("project_not_found", "There is no such project.");
  const [place] = await tx.query("SELECT no, id FROM environment WHERE project_no = :projectNo AND slug = :environment", {
    projectNo,
    environment,
  });
  return {
    organization: { no: row.o_no as number, id: row.o_id as string },
    project: { no: projectNo, id: row.id as string },
    environment: place === undefined ? null : { no: place.no as number, id: place.id as string, slug: environment },
  };
}

/** Repeats a queue's owners beside it, under names that are no one else's: only their numbers and ids are read there. */
async function repeatOwners(tx: Tx, { organization, project, environment }: Owners): Promise<void> {
  await tx.query("INSERT INTO organization (no, id, name, created_at) VALUES (:no, :id, :id, :now) ON CONFLICT DO NOTHING", {
    ...organization,
    now: tx.now,
  });
  await tx.query(
    `INSERT INTO project (no, id, organization_no, name, created_at) VALUES (:no, :id, :organizationNo, :id, :now) ON CONFLICT DO NOTHING`,
    { ...project, organizationNo: organization.no, now: tx.now },
  );
  if (environment === null) return;
  await tx.query(
    `INSERT INTO environment (no, id, project_no, slug, created_at) VALUES (:no, :id, :projectNo, :slug, :now) ON CONFLICT DO NOTHING`,
    { ...environment, projectNo: project.no, now: tx.now },
  );
}

/** Every cold verb of placed queues; those of the default database first. */
export const placedQueueVerbs = {
  /** Reserves a name under a new number. Throws `queue_exists`, `project_not_found`. */
  async reserveQueue(tx: Tx, databaseNo: number, given: NewQueue, key: IdempotencyKey | null): Promise<Reservation> {
    // As every creation does: what is checked here stays true until the commit.
    await lockCounter(tx);
    await ownersOf(tx, given);
    const { projectNo, environment, name } = given;
    const [taken] = await tx.query(
      `SELECT no FROM queue WHERE project_no = :projectNo AND environment = :environment AND name = :name
       UNION SELECT no FROM placed_queue WHERE project_no = :projectNo AND environment = :environment AND name = :name`,
      { projectNo, environment, name },
    );
    if (taken !== undefined) throw nameTaken(name);
    const [quota] = await tx.query("SELECT project_no FROM quota WHERE project_no = :projectNo", { projectNo });
    if (quota !== undefined)
      throw invalid("database", `${DEFAULT_DATABASE}: the project has a quota, which is counted there`, given.database);
    const [counter] = await tx.query("UPDATE placed_database SET last = last + 1 WHERE no = :databaseNo RETURNING last, name", {
      databaseNo,
    });
    const n = counter?.last as number;
    if (n >= QUEUES_EACH) throw invalid("database", `one on which fewer than ${QUEUES_EACH} queues were ever made`, counter?.name);
    const no = placedQueueNo(databaseNo, n);
    const { id, resourceName } = given;
    await tx.query(
      `INSERT INTO placed_queue (no, database_no, id, resource_name, project_no, environment, name, open_since, scope, key)
       VALUES (:no, :databaseNo, :id, :resourceName, :projectNo, :environment, :name, :now, :scope, :key)`,
      {
        no,
        databaseNo,
        id,
        resourceName,
        projectNo,
        environment,
        name,
        now: tx.now,
        scope: key?.scope ?? null,
        key: key?.key ?? null,
      },
    );
    return { no, id, resourceName, made: null };
  },

  /** The organization, project and environment of a queue to be made. Throws `project_not_found`. */
  ownersOf,

  /** A placed queue by UUID, resource name or name, as `findQueue` has it. */
  async findPlaced(tx: Tx, projectNo: number, environment: string, reference: string): Promise<PlacedQueue | null> {
    const { column, value } = referenced(reference);
    const [row] = await tx.query(`${SELECT} WHERE q.project_no = :projectNo AND q.environment = :environment AND q.${column} = :value`, {
      projectNo,
      environment,
      value,
    });
    return row === undefined ? null : placedOf(row, tx.now);
  },

  /** Says that the end of a placed queue begins: from now on only its database knows whether there is one. */
  async openPlaced(tx: Tx, no: number): Promise<null> {
    await tx.query("UPDATE placed_queue SET open_since = :now WHERE no = :no", { no, now: tx.now });
    return null;
  },

  /** Says how a creation or a deletion ended: with a queue, or (`null`) without one. What ended without one leaves its name and its key free. */
  async closePlaced(tx: Tx, no: number, made: MadeQueue | null): Promise<null> {
    const [row] = await tx.query("SELECT scope, key FROM placed_queue WHERE no = :no", { no });
    if (row === undefined) return null;
    const { scope, key } = row;
    if (made === null) {
      await tx.query("DELETE FROM placed_queue WHERE no = :no", { no });
      if (key !== null)
        await tx.query("DELETE FROM idempotency WHERE scope = :scope AND key = :key", { scope: scope as string, key: key as string });
      return null;
    }
    await tx.query("UPDATE placed_queue SET open_since = NULL, scope = NULL, key = NULL WHERE no = :no", { no });
    if (key !== null)
      await tx.query("UPDATE idempotency SET answer = :answer WHERE scope = :scope AND key = :key", {
        answer: JSON.stringify({ no, id: made.id, resourceName: made.resourceName, made } satisfies Reservation),
        scope: scope as string,
        key: key as string,
      });
    return null;
  },

  /** Up to `limit` placed queues whose creation or deletion has been under way for `olderMs`, the oldest first. */
  async openPlacedQueues(tx: Tx, olderMs: number, limit: number): Promise<PlacedQueue[]> {
    const rows = await tx.query(
      `${SELECT} WHERE q.open_since IS NOT NULL AND q.open_since <= :before ORDER BY q.open_since, q.no LIMIT :limit`,
      { before: tx.now - olderMs, limit },
    );
    return rows.map((row) => placedOf(row, tx.now));
  },

  /**
   * On the queue's own database: makes it under the number that was reserved, once. `null`: the number was forgone. Throws as
   * `createQueue` does.
   */
  async makePlaced(tx: Tx, no: number, given: NewQueue, owners: Owners): Promise<MadeQueue | null> {
    await lockCounter(tx);
    const made = await queueVerbs.getQueue(tx, no);
    if (made !== null) return { ...made, deadLetterId: given.deadLetterId };
    const [forgone] = await tx.query(
      "SELECT no FROM forgone_queue WHERE no = :no UNION SELECT queue_no FROM queue_removal WHERE queue_no = :no",
      { no },
    );
    if (forgone !== undefined) return null;
    await repeatOwners(tx, owners);
    return makeQueue(tx, no, given);
  },

  /** On the queue's own database: the queue of this number; where there is none, none will be made under it any more. */
  async forgoPlaced(tx: Tx, no: number): Promise<MadeQueue | null> {
    await lockCounter(tx);
    const made = await queueVerbs.getQueue(tx, no);
    if (made !== null) return made;
    await tx.query("DELETE FROM forgone_queue WHERE at <= :until", { until: tx.now - FORGONE_MS });
    await tx.query("INSERT INTO forgone_queue (no, at) VALUES (:no, :now) ON CONFLICT DO NOTHING", { no, now: tx.now });
    return null;
  },
};
