/**
 * Cold verbs of queues: their rows, settings and end. A name is unique in its environment; a short number (`no`) comes from a counter
 * and is never given twice, so nothing left behind by a deleted queue can turn up in another one. Whatever touches dead-letter links
 * locks the project first: links, cycles and deletions are judged one after the other.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";
import { placeConsumer } from "./consumer.ts";
import { DEFAULT_DATABASE } from "./database-numbers.ts";
import { inList } from "./in-list.ts";
import { laneChanged } from "./lane-change.ts";
import { kept } from "./once.ts";
import { lockProject } from "./project-lock.ts";
import { forgetQueue } from "./queue-memory.ts";
import { regroup } from "./regroup.ts";
import { relimit } from "./relimit.ts";
import type { IdempotencyKey, QueueRow, QueueSettings } from "./types.ts";

/** A new queue; id and resource name are drawn by the caller. Without `database` it is made on the default one. */
export type NewQueue = Omit<QueueRow, "no" | "database" | "createdAt" | "updatedAt"> & {
  database?: string | undefined;
  deadLetterId?: string | undefined;
};

/** A queue as it was made: the id of its dead-letter queue is kept with the answer, as that queue may be gone when it is asked for again. */
export interface MadeQueue extends QueueRow {
  deadLetterId?: string | undefined;
}

/** How much one step of a removal takes, in rows. */
const REMOVAL_ROWS = 1000;
/** For so long after a deletion the removal looks again: a send of another node may have been under way. */
const REMOVAL_MS = 60_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const RESOURCE_NAME = /^que_[a-z0-9]{12}$/;
const COLUMNS = "no, id, resource_name, project_no, environment, name, type, settings, source, created_at, updated_at";

function queueOf(row: Row): QueueRow {
  return {
    no: row.no as number,
    id: row.id as string,
    resourceName: row.resource_name as string,
    projectNo: row.project_no as number,
    environment: row.environment as string,
    name: row.name as string,
    // A database does not know its name: who asked several of them puts it in.
    database: DEFAULT_DATABASE,
    type: row.type as QueueRow["type"],
    // Queues of the first schema have no consumer, and say nothing of it.
    settings: { consumerPath: null, ...(JSON.parse(row.settings as string) as Omit<QueueSettings, "consumerPath">) },
    source: row.source as QueueRow["source"],
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
  };
}

function linkOf(settings: QueueSettings): number | null {
  return settings.deadLetter === "queue" ? settings.deadLetterNo : null;
}

/** Refuses settings that don't fit together, and dead-letter links that end nowhere, in a circle or in a queue without order. */
async function checkSettings(tx: Tx, queue: Pick<QueueRow, "projectNo" | "type" | "settings"> & { no: number | null }): Promise<void> {
  const { retryBackoffMinMs: min, retryBackoffMaxMs: max, groupConcurrency } = queue.settings;
  if (min !== null && max !== null && min > max)
    throw invalid("retryBackoffMinSeconds", "at most retryBackoffMaxSeconds", `${min / 1000} > ${max / 1000}`);
  if (queue.type === "fifo" && groupConcurrency !== 1) throw invalid("groups.concurrency", "always 1 on a FIFO queue", groupConcurrency);
  const path = "redrivePolicy.deadLetterQueueId";
  let link = linkOf(queue.settings);
  if (link === null) return;
  if (link === queue.no) throw invalid(path, "another queue than the queue itself");
  const [target] = await tx.query("SELECT project_no, type FROM queue WHERE no = :link", { link });
  if (target === undefined || target.project_no !== queue.projectNo) throw new Fault("queue_not_found", `${path}: no such queue`, { path });
  if (queue.type === "fifo" && target.type !== "fifo") throw invalid(path, "a FIFO queue, as this queue is one", target.type);
  while (link !== null) {
    if (link === queue.no) throw invalid(path, "a queue whose own dead letters don't come back here");
    const [next]: Row[] = await tx.query("SELECT dead_letter_no FROM queue WHERE no = :link", { link });
    link = (next?.dead_letter_no as number | null | undefined) ?? null;
  }
}

/** What is said of a name that is taken. */
export const nameTaken = (name: string): Fault => new Fault("queue_exists", `There is already a queue named ${name}.`);

/** Makes a queue on this database. Throws `queue_exists`, `queue_not_found` (the dead-letter queue) or `invalid_request`. */
async function createQueue(tx: Tx, given: NewQueue): Promise<MadeQueue> {
  const { database = DEFAULT_DATABASE } = given;
  if (database !== DEFAULT_DATABASE) throw invalid("database", `${DEFAULT_DATABASE}: the server is configured with no other`, database);
  // The counter comes before the project in every verb that locks both.
  const [counter] = await tx.query("UPDATE queue_counter SET last = last + 1 RETURNING last");
  const [project] = await tx.query("SELECT no FROM project WHERE no = :projectNo", { projectNo: given.projectNo });
  if (project === undefined) throw new Fault("project_not_found", "There is no such project.");
  const { projectNo, environment, name } = given;
  const [elsewhere] = await tx.query(
    "SELECT no FROM placed_queue WHERE project_no = :projectNo AND environment = :environment AND name = :name",
    { projectNo, environment, name },
  );
  if (elsewhere !== undefined) throw nameTaken(name);
  return makeQueue(tx, counter?.last as number, given);
}

/** Makes a queue under a number that is its own, for whoever holds the counter. Throws as `createQueue` does. */
export async function makeQueue(tx: Tx, no: number, given: NewQueue): Promise<MadeQueue> {
  if (linkOf(given.settings) !== null) await lockProject(tx, given.projectNo);
  await checkSettings(tx, { ...given, no: null });
  const rows = await tx.query(
    `INSERT INTO queue (no, id, resource_name, project_no, environment, name, type, settings, dead_letter_no, source, created_at, updated_at)
     VALUES (:no, :id, :resourceName, :projectNo, :environment, :name, :type, :settings, :deadLetterNo, :source, :now, :now)
     ON CONFLICT (project_no, environment, name) DO NOTHING RETURNING ${COLUMNS}`,
    {
      no,
      id: given.id,
      resourceName: given.resourceName,
      projectNo: given.projectNo,
      environment: given.environment,
      name: given.name,
      type: given.type,
      settings: JSON.stringify(given.settings),
      deadLetterNo: linkOf(given.settings),
      source: given.source,
      now: tx.now,
    },
  );
  if (rows[0] === undefined) throw nameTaken(given.name);
  const queue = queueOf(rows[0]);
  await placeConsumer(tx, null, queue);
  return { ...queue, deadLetterId: given.deadLetterId };
}

/** The queue that `createQueue` made under this key; `null` when it made none. Throws `idempotency_conflict` as `once` does. */
async function madeQueue(tx: Tx, key: IdempotencyKey): Promise<MadeQueue | null> {
  return (await kept<MadeQueue>(tx, key))?.result ?? null;
}

/** A queue by its short number; `null` when there is none. */
async function getQueue(tx: Tx, no: number): Promise<QueueRow | null> {
  const [row] = await tx.query(`SELECT ${COLUMNS} FROM queue WHERE no = :no`, { no });
  return row === undefined ? null : queueOf(row);
}

/** What a reference to a queue names, and where that stands: a UUID, a resource name or a name, which has the form of neither (Q1). */
export function referenced(reference: string): { column: "id" | "resource_name" | "name"; value: string } {
  const id = reference.toLowerCase();
  if (UUID.test(id)) return { column: "id", value: id };
  return { column: RESOURCE_NAME.test(reference) ? "resource_name" : "name", value: reference };
}

/** A queue of one environment by any of its references. */
async function findQueue(tx: Tx, projectNo: number, environment: string, reference: string): Promise<QueueRow | null> {
  const { column, value } = referenced(reference);
  const [row] = await tx.query(
    `SELECT ${COLUMNS} FROM queue WHERE project_no = :projectNo AND environment = :environment AND ${column} = :value`,
    { projectNo, environment, value },
  );
  return row === undefined ? null : queueOf(row);
}

/** Up to `limit` queues of an environment whose names come after `after`, by name: a page never shifts under writes (A3). */
async function listQueues(tx: Tx, projectNo: number, environment: string, after: string | null, limit: number): Promise<QueueRow[]> {
  const rows = await tx.query(
    `SELECT ${COLUMNS} FROM queue WHERE project_no = :projectNo AND environment = :environment${after === null ? "" : " AND name > :after"}
     ORDER BY name LIMIT :limit`,
    { projectNo, environment, limit, ...(after === null ? {} : { after }) },
  );
  return rows.map(queueOf);
}

/** Changes settings; what is not named stays. Throws `queue_not_found` or `invalid_request`. */
async function updateQueue(tx: Tx, no: number, change: Partial<QueueSettings>): Promise<QueueRow> {
  const [owner] = await tx.query("SELECT project_no FROM queue WHERE no = :no", { no });
  if (owner !== undefined && change.deadLetterNo != null) await lockProject(tx, owner.project_no as number);
  // The write locks the row before its settings are read: of two changes at once, neither undoes the other.
  const [row] = await tx.query(`UPDATE queue SET updated_at = :now WHERE no = :no RETURNING ${COLUMNS}`, { no, now: tx.now });
  if (row === undefined) throw new Fault("queue_not_found", "There is no such queue.");
  const before = queueOf(row);
  const queue: QueueRow = { ...before, settings: { ...before.settings, ...change } };
  await checkSettings(tx, queue);
  await tx.query("UPDATE queue SET settings = :settings, dead_letter_no = :deadLetterNo WHERE no = :no", {
    no,
    settings: JSON.stringify(queue.settings),
    deadLetterNo: linkOf(queue.settings),
  });
  await placeConsumer(tx, before, queue);
  await laneChanged(tx, no);
  await forgetQueue(tx, no);
  if (before.settings.maxAttempts !== queue.settings.maxAttempts)
    await relimit(tx, no, before.type === "fifo" ? 1 : before.settings.groupConcurrency, queue.settings.maxAttempts);
  if (before.settings.groupConcurrency !== queue.settings.groupConcurrency) await regroup(tx, no, queue.settings.groupConcurrency);
  if (before.settings.paused && !queue.settings.paused) tx.ready(no, tx.now);
  return queue;
}

/**
 * Ends a queue with its subscription, redrives and schedules. Its messages and what it remembers of sends can't be reached from now on and are
 * removed by `removeDeleted`. Throws `queue_in_use` while it is another queue's dead-letter queue.
 */
async function deleteQueue(tx: Tx, no: number): Promise<void> {
  const queue = await getQueue(tx, no);
  if (queue === null) throw new Fault("queue_not_found", "There is no such queue.");
  await lockProject(tx, queue.projectNo);
  // Of two deletions at once, the second comes here when the first has ended.
  if ((await getQueue(tx, no)) === null) throw new Fault("queue_not_found", "There is no such queue.");
  const [user] = await tx.query("SELECT name FROM queue WHERE dead_letter_no = :no ORDER BY name LIMIT 1", { no });
  if (user !== undefined) throw new Fault("queue_in_use", `The queue is the dead-letter queue of ${user.name}.`);
  await tx.query("DELETE FROM attempt WHERE subscription_no IN (SELECT no FROM subscription WHERE queue_no = :no)", { no });
  await tx.query("DELETE FROM subscription WHERE queue_no = :no", { no });
  await tx.query("DELETE FROM redrive WHERE queue_no = :no", { no });
  await tx.query("DELETE FROM schedule WHERE queue_no = :no", { no });
  await tx.query("DELETE FROM tally WHERE queue_no = :no", { no });
  await tx.query("DELETE FROM queue WHERE no = :no", { no });
  await tx.query("INSERT INTO queue_removal (queue_no, removed_at) VALUES (:no, :now)", { no, now: tx.now });
  await laneChanged(tx, no);
  await forgetQueue(tx, no);
}

/** Removes up to 1,000 messages and as many remembered sends of deleted queues; answers whether there may be more right now. */
async function removeDeleted(tx: Tx): Promise<boolean> {
  // Removals that have nothing left to do wait among the others: they must not stand before those that have. Many go at once: a
  // topic's end leaves a queue for each of its subscriptions, with a message or none in it.
  const removals = await tx.query<{ queue_no: number }>(
    `SELECT r.queue_no FROM queue_removal AS r WHERE EXISTS (SELECT 1 FROM message AS m WHERE m.queue_no = r.queue_no AND m.${ANY_QUEUE})
       OR EXISTS (SELECT 1 FROM dedup AS d WHERE d.queue_no = r.queue_no) LIMIT :rows`,
    { rows: REMOVAL_ROWS },
  );
  if (removals.length === 0) {
    await tx.query("DELETE FROM tally WHERE queue_no IN (SELECT queue_no FROM queue_removal)");
    await tx.query("DELETE FROM queue_removal WHERE removed_at <= :until", { until: tx.now - REMOVAL_MS });
    return false;
  }
  const queues = inList(
    "no",
    removals.map((removal) => removal.queue_no),
  );
  const params = { ...queues.params, rows: REMOVAL_ROWS };
  const found = await tx.query<{ seq: number }>(
    `SELECT seq FROM message WHERE queue_no IN (${queues.text}) AND ${ANY_QUEUE} LIMIT :rows`,
    params,
  );
  if (found.length > 0) {
    const messages = inList(
      "seq",
      found.map(({ seq }) => seq),
    );
    await tx.query(`DELETE FROM message WHERE seq IN (${messages.text})`, messages.params);
  }
  await tx.query(
    `DELETE FROM dedup WHERE (queue_no, key) IN (SELECT queue_no, key FROM dedup WHERE queue_no IN (${queues.text}) LIMIT :rows)`,
    params,
  );
  return true;
}

export const queueVerbs = { createQueue, madeQueue, getQueue, findQueue, listQueues, updateQueue, deleteQueue, removeDeleted };
