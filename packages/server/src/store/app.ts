/**
 * Cold verbs of apps (W1): their rows, sealed secrets and end. An app owns an internal FIFO queue that wakes its runs; it is made and
 * deleted with it, and stands in an environment that no queue of a project can have.
 */
import { Fault } from "@millrace/contract";
import type { Row, Tx, Value } from "../db/db.ts";
import { laneChanged } from "./lane-change.ts";
import { type NewQueue, queueVerbs } from "./queue.ts";
import { type Remembered, remembered } from "./remembered.ts";
import type { Notifications } from "./run-result.ts";
import { numberOrNull } from "./run-rows.ts";
import type { LastError } from "./subscription.ts";

/** Both secrets sign for this long after a rotation (P4). */
const OVERLAP_MS = 24 * 3_600_000;
/** The environment of the apps' queues: not a slug, so no project has it. */
export const APP_ENVIRONMENT = "~apps";

/** An app without its secrets. Times in milliseconds since 1970. */
export interface AppRow {
  no: number;
  id: string;
  resourceName: string;
  projectNo: number;
  name: string;
  mode: "push" | "pull";
  /** `null` of a pull app. */
  url: string | null;
  /** The queue that wakes its runs. */
  queueNo: number;
  maxConcurrency: number;
  state: "active" | "paused";
  notifications: Notifications | null;
  /** What its SDK said last: `null` until a push app has synced or a pull app's worker has polled. */
  protocol: string | null;
  buildId: string | null;
  syncedAt: number | null;
  /** Why the last sync failed; `null` after one that did not. */
  syncError: string | null;
  failing: boolean;
  lastError: LastError | null;
  lastSuccessAt: number | null;
  /** Kept messages that no run took in time (W15), and run results that were dropped (W17). */
  unclaimed: number;
  unnotified: number;
  createdAt: number;
  updatedAt: number;
}

/** What the engine needs of an app: the row, its sealed secrets (newest first; `null` of a pull app), and when its queue has work. */
export interface AppLane {
  app: AppRow;
  secret: string | null;
  /** Signs too, for `forMs` from now. */
  previous: { secret: string; forMs: number } | null;
  /** Milliseconds until a run is to be woken, as far as is known; `null`: none. */
  nextInMs: number | null;
}

/** A new app; ids, names and the sealed secret are drawn by the caller, `queue` is the one that wakes its runs. */
export interface NewApp {
  id: string;
  resourceName: string;
  projectNo: number;
  name: string;
  mode: "push" | "pull";
  url: string | null;
  maxConcurrency: number;
  notifications: Notifications | null;
  secret: string | null;
  queue: NewQueue;
}

/** What an update may change; what is not given stays. */
export type AppChange = Partial<Pick<AppRow, "url" | "maxConcurrency" | "state" | "notifications">>;

const COLUMNS = `no, id, resource_name, project_no, name, mode, url, queue_no, max_concurrency, state, secret, previous_secret, previous_until,
  notifications, protocol, build_id, synced_at, sync_error, failing, last_error, last_success_at, unclaimed, unnotified, created_at, updated_at`;
/** The earliest instants at which an app's wake-ups stand in line, or will. */
const NEXT = `(SELECT MIN(m.line_at) FROM message m WHERE m.queue_no = app.queue_no AND m.line_at IS NOT NULL) AS line_at,
  (SELECT MIN(m.later_at) FROM message m WHERE m.queue_no = app.queue_no AND m.later_at IS NOT NULL) AS later_at`;

const textOrNull = (value: Value | undefined): string | null => (value == null ? null : String(value));
const jsonOrNull = <T>(value: Value | undefined): T | null => (value == null ? null : (JSON.parse(String(value)) as T));

function appOf(row: Row): AppRow {
  return {
    no: Number(row.no),
    id: String(row.id),
    resourceName: String(row.resource_name),
    projectNo: Number(row.project_no),
    name: String(row.name),
    mode: row.mode === "pull" ? "pull" : "push",
    url: textOrNull(row.url),
    queueNo: Number(row.queue_no),
    maxConcurrency: Number(row.max_concurrency),
    state: row.state === "paused" ? "paused" : "active",
    notifications: jsonOrNull<Notifications>(row.notifications),
    protocol: textOrNull(row.protocol),
    buildId: textOrNull(row.build_id),
    syncedAt: numberOrNull(row.synced_at),
    syncError: textOrNull(row.sync_error),
    failing: Number(row.failing) === 1,
    lastError: jsonOrNull<LastError>(row.last_error),
    lastSuccessAt: numberOrNull(row.last_success_at),
    unclaimed: Number(row.unclaimed),
    unnotified: Number(row.unnotified),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

function laneOf(row: Row, now: number): AppLane {
  const until = numberOrNull(row.previous_until);
  const dues = [numberOrNull(row.line_at), numberOrNull(row.later_at)].filter((at) => at !== null);
  return {
    app: appOf(row),
    secret: textOrNull(row.secret),
    previous:
      row.previous_secret == null || until === null || until <= now ? null : { secret: String(row.previous_secret), forMs: until - now },
    nextInMs: dues.length === 0 ? null : Math.max(0, Math.min(...dues) - now),
  };
}

const missing = (): Fault => new Fault("app_not_found", "there is no such app");
const taken = (name: string): Fault => new Fault("name_taken", `the project has an app named ${name} already`);

/** A reference to an app of a project: an id, a resource name or a name. */
export interface AppReference {
  projectNo: number;
  reference: string;
}

/** The app that a reference names: an id, a resource name or a name; `null` when there is none. */
export async function findApp(tx: Tx, projectNo: number, reference: string): Promise<AppRow | null> {
  const id = /^[0-9a-f-]{36}$/i.test(reference);
  const column = id ? "id" : /^wfa_[a-z0-9]{12}$/.test(reference) ? "resource_name" : "name";
  const [row] = await tx.query(`SELECT ${COLUMNS} FROM app WHERE project_no = :projectNo AND ${column} = :reference`, {
    projectNo,
    reference: id ? reference.toLowerCase() : reference,
  });
  return row === undefined ? null : appOf(row);
}

/** The apps that references name, in order, each looked for once. */
async function findApps(tx: Tx, asked: readonly AppReference[]): Promise<(AppRow | null)[]> {
  const memory: Remembered = new Map();
  return Promise.all(
    asked.map(({ projectNo, reference }) => remembered(memory, `${projectNo} ${reference}`, () => findApp(tx, projectNo, reference))),
  );
}

/** Every cold verb of apps. */
export const appVerbs = {
  findApps,

  /** Throws `name_taken`. */
  async createApp(tx: Tx, given: NewApp): Promise<AppRow> {
    const queue = await queueVerbs.createQueue(tx, given.queue);
    const [counter] = await tx.query("UPDATE app_counter SET last = last + 1 RETURNING last");
    const [row] = await tx.query(
      `INSERT INTO app (no, id, resource_name, project_no, name, mode, url, queue_no, max_concurrency, state, secret, notifications,
         created_at, updated_at)
       VALUES (:no, :id, :resourceName, :projectNo, :name, :mode, :url, :queueNo, :maxConcurrency, 'active', :secret, :notifications, :now, :now)
       ON CONFLICT (project_no, name) DO NOTHING RETURNING ${COLUMNS}`,
      {
        no: counter?.last as number,
        id: given.id,
        resourceName: given.resourceName,
        projectNo: given.projectNo,
        name: given.name,
        mode: given.mode,
        url: given.url,
        queueNo: queue.no,
        maxConcurrency: given.maxConcurrency,
        secret: given.secret,
        notifications: given.notifications === null ? null : JSON.stringify(given.notifications),
        now: tx.now,
      },
    );
    if (row === undefined) throw taken(given.name);
    await laneChanged(tx, queue.no);
    return appOf(row);
  },

  /** An app by its number; `null` when there is none. */
  async getApp(tx: Tx, no: number): Promise<AppRow | null> {
    const [row] = await tx.query(`SELECT ${COLUMNS} FROM app WHERE no = :no`, { no });
    return row === undefined ? null : appOf(row);
  },

  /** Up to `limit` apps of a project whose names come after `after`, by name. */
  async listApps(tx: Tx, projectNo: number, after: string | null, limit: number): Promise<AppRow[]> {
    const rows = await tx.query(
      `SELECT ${COLUMNS} FROM app WHERE project_no = :projectNo${after === null ? "" : " AND name > :after"} ORDER BY name LIMIT :limit`,
      { projectNo, limit, ...(after === null ? {} : { after }) },
    );
    return rows.map(appOf);
  },

  /** Pausing an app pauses the queue of its wake-ups. Throws `app_not_found`. */
  async updateApp(tx: Tx, no: number, change: AppChange): Promise<AppRow> {
    const [locked] = await tx.query(`UPDATE app SET updated_at = :now WHERE no = :no RETURNING ${COLUMNS}`, { no, now: tx.now });
    if (locked === undefined) throw missing();
    const app = { ...appOf(locked), ...change };
    const [row] = await tx.query(
      `UPDATE app SET url = :url, max_concurrency = :maxConcurrency, state = :state, notifications = :notifications
       WHERE no = :no RETURNING ${COLUMNS}`,
      {
        no,
        url: app.url,
        maxConcurrency: app.maxConcurrency,
        state: app.state,
        notifications: app.notifications === null ? null : JSON.stringify(app.notifications),
      },
    );
    await laneChanged(tx, app.queueNo);
    if (change.state !== undefined) await queueVerbs.updateQueue(tx, app.queueNo, { paused: change.state === "paused" });
    return appOf(row as Row);
  },

  /** Puts a new sealed secret before the one in force, which signs too for 24 hours more (P4). Throws `app_not_found`. */
  async rotateAppSecret(tx: Tx, no: number, sealed: string): Promise<AppRow> {
    const [row] = await tx.query(
      `UPDATE app SET previous_secret = secret, previous_until = :until, secret = :sealed, updated_at = :now WHERE no = :no
       RETURNING ${COLUMNS}`,
      { no, sealed, until: tx.now + OVERLAP_MS, now: tx.now },
    );
    if (row === undefined) throw missing();
    await laneChanged(tx, Number(row.queue_no));
    return appOf(row);
  },

  /** Ends an app with its queue, waits and kept messages; its runs can't be reached any more and are removed by `removeRuns`. */
  async deleteApp(tx: Tx, no: number): Promise<null> {
    const [row] = await tx.query("SELECT queue_no, project_no FROM app WHERE no = :no", { no });
    if (row === undefined) throw missing();
    await queueVerbs.deleteQueue(tx, Number(row.queue_no));
    const gone = await tx.query("DELETE FROM app WHERE no = :no RETURNING no", { no });
    if (gone.length === 0) throw missing();
    for (const table of ["workflow", "wait", "kept_message", "resuming", "run_result"])
      await tx.query(`DELETE FROM ${table} WHERE app_no = :no`, { no });
    await tx.query("INSERT INTO app_removal (app_no, removed_at) VALUES (:no, :now)", { no, now: tx.now });
    return null;
  },

  /** A page of all apps with what the engine needs of them, for the start; `after` is the last number seen. */
  async appLanes(tx: Tx, after: number, limit: number): Promise<{ lanes: AppLane[]; next: number | null }> {
    const rows = await tx.query(`SELECT ${COLUMNS}, ${NEXT} FROM app WHERE no > :after ORDER BY no LIMIT :limit`, { after, limit });
    return { lanes: rows.map((row) => laneOf(row, tx.now)), next: rows.length < limit ? null : Number(rows.at(-1)?.no) };
  },

  /** What the engine needs of one app; `null` when there is none. */
  async appLane(tx: Tx, no: number): Promise<AppLane | null> {
    const [row] = await tx.query(`SELECT ${COLUMNS}, ${NEXT} FROM app WHERE no = :no`, { no });
    return row === undefined ? null : laneOf(row, tx.now);
  },

  /** The number of the app that a queue wakes the runs of; `null`: the queue is another one. */
  async appOfQueue(tx: Tx, queueNo: number): Promise<number | null> {
    const [row] = await tx.query("SELECT no FROM app WHERE queue_no = :queueNo", { queueNo });
    return row === undefined ? null : Number(row.no);
  },

  /** The apps that have work due now: one question for all of them, should wake-ups have been lost. */
  async dueApps(tx: Tx): Promise<number[]> {
    const due = (at: string): string =>
      `EXISTS (SELECT 1 FROM message m WHERE m.queue_no = a.queue_no AND m.${at} IS NOT NULL AND m.${at} <= :now)`;
    const rows = await tx.query(`SELECT a.no AS no FROM app a WHERE a.state = 'active' AND (${due("line_at")} OR ${due("later_at")})`, {
      now: tx.now,
    });
    return rows.map(({ no }) => Number(no));
  },

  /** Stores how executions of an app went (P15); instants as durations before now. An app that is gone is passed over. */
  async saveAppStatus(
    tx: Tx,
    no: number,
    status: { failing: boolean; error: (Omit<LastError, "at"> & { agoMs: number }) | null; successAgoMs: number | null },
  ): Promise<null> {
    const { agoMs, ...rest } = status.error ?? { agoMs: 0 };
    await tx.query(
      `UPDATE app SET failing = :failing, last_error = COALESCE(:error, last_error),
         last_success_at = COALESCE(:success, last_success_at) WHERE no = :no`,
      {
        no,
        failing: status.failing,
        error: status.error === null ? null : JSON.stringify({ at: tx.now - agoMs, ...rest }),
        success: status.successAgoMs === null ? null : tx.now - status.successAgoMs,
      },
    );
    return null;
  },
};
