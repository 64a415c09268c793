/**
 * Cold verbs of subscriptions: the row of a queue's one managed consumer, its sealed secrets and the state of its deliveries.
 * A queue has at most one (P1, by a unique index). Answers of `createSubscription` … `rotateSecret` hold no secret; only
 * `activeSubscriptions` and `loadSubscription`, which feed the engine, answer them, sealed.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Row, Tx, Value } from "../db/db.ts";
import { attemptVerbs } from "./attempt.ts";
import { inList } from "./in-list.ts";
import { laneChanged } from "./lane-change.ts";
import type { QueueSettings } from "./types.ts";

/** Both secrets sign for this long after a rotation (P4). */
const OVERLAP_MS = 24 * 3_600_000;

/** An endpoint, as stored: the URL exactly as given. */
export interface HttpsTarget {
  kind: "https";
  url: string;
  timeoutSeconds: number;
}
/** Each message starts a run of the workflow (W12). `appId` is the app's UUID. */
export interface StartTarget {
  kind: "workflow";
  mode: "start";
  appId: string;
  workflow: string;
}
/** Each message resumes the runs that wait for the value of its attribute (W14); unmatched ones may be kept (W15). */
export interface ResumeTarget {
  kind: "workflow";
  mode: "resume";
  appId: string;
  workflow: string;
  correlationAttribute: string;
  keepUnmatchedSeconds: number;
}
export type WorkflowTarget = StartTarget | ResumeTarget;
/** What a subscription delivers to. Its kind and mode never change. */
export type Target = HttpsTarget | WorkflowTarget;

/** The last failure of a subscription (P15); `at` in milliseconds since 1970. */
export interface LastError {
  at: number;
  class: "http" | "timeout" | "connection" | "refused" | "tls" | "message" | "workflow";
  status?: number;
  message: string;
}

/** A subscription without its secrets. Times in milliseconds since 1970. */
export interface SubscriptionRow<To extends Target = Target> {
  id: string;
  resourceName: string;
  projectNo: number;
  projectId: string;
  queueNo: number;
  queueId: string;
  queueName: string;
  target: To;
  batchSize: number;
  maxConcurrency: number;
  state: "active" | "paused";
  recordAttempts: boolean;
  failing: boolean;
  lastError: LastError | null;
  lastSuccessAt: number | null;
  createdAt: number;
  updatedAt: number;
}

/** What the engine needs of a subscription: the row, its sealed secrets (newest first; empty for workflows) and its queue. */
export interface LaneRow<To extends Target = Target> {
  subscription: SubscriptionRow<To>;
  secret: string;
  /** Signs too, for `forMs` from now. */
  previous: { secret: string; forMs: number } | null;
  queue: { resourceName: string; type: "standard" | "fifo"; settings: QueueSettings };
  /** Milliseconds until the queue has something to claim, as far as is known; `null`: nothing. */
  nextInMs: number | null;
}

/** A new subscription; id, name and secret are drawn by the caller. */
export interface NewSubscription {
  id: string;
  resourceName: string;
  projectNo: number;
  queueNo: number;
  target: Target;
  batchSize: number;
  maxConcurrency: number;
  state: "active" | "paused";
  recordAttempts: boolean;
  /** Sealed; empty where nothing is signed. */
  secret: string;
}

/** What an update may change; what is not given stays. A target without a timeout keeps the one it had; its kind stays. */
export interface SubscriptionChange {
  target?: (Omit<HttpsTarget, "timeoutSeconds"> & { timeoutSeconds?: number | undefined }) | WorkflowTarget;
  batchSize?: number;
  maxConcurrency?: number;
  recordAttempts?: boolean;
}

/** A change of a subscription's health; instants as durations before now, for this process's clock may differ from the store's. */
export interface StatusRow {
  id: string;
  queueNo: number;
  failing: boolean;
  error: (Omit<LastError, "at"> & { agoMs: number }) | null;
  successAgoMs: number | null;
}

const select = `SELECT s.no AS no, s.id AS id, s.resource_name AS resource_name, s.project_no AS project_no,
  (SELECT p.id FROM project p WHERE p.no = s.project_no) AS project_id, s.queue_no AS queue_no,
  q.id AS queue_id, q.name AS queue_name, q.resource_name AS queue_resource, q.type AS queue_type, q.settings AS settings,
  s.target AS target, s.batch_size AS batch_size, s.max_concurrency AS max_concurrency, s.state AS state,
  s.record_attempts AS record_attempts, s.secret AS secret, s.previous_secret AS previous_secret, s.previous_until AS previous_until,
  s.failing AS failing, s.last_error AS last_error, s.last_success_at AS last_success_at, s.created_at AS created_at,
  s.updated_at AS updated_at FROM subscription s JOIN queue q ON q.no = s.queue_no`;

/** The earliest instants at which a queue's messages stand in line, or will. */
const next = `(SELECT MIN(m.line_at) FROM message m WHERE m.queue_no = s.queue_no AND m.line_at IS NOT NULL) AS line_at,
  (SELECT MIN(m.later_at) FROM message m WHERE m.queue_no = s.queue_no AND m.later_at IS NOT NULL) AS later_at`;
const selectLane = select.replace("SELECT ", `SELECT ${next}, `);

const instant = (value: Value | undefined): number | null => (value === null || value === undefined ? null : Number(value));

function toRow(row: Row): SubscriptionRow {
  return {
    id: String(row.id),
    resourceName: String(row.resource_name),
    projectNo: Number(row.project_no),
    projectId: String(row.project_id),
    queueNo: Number(row.queue_no),
    queueId: String(row.queue_id),
    queueName: String(row.queue_name),
    target: JSON.parse(String(row.target)) as Target,
    batchSize: Number(row.batch_size),
    maxConcurrency: Number(row.max_concurrency),
    state: row.state === "paused" ? "paused" : "active",
    recordAttempts: Number(row.record_attempts) === 1,
    failing: Number(row.failing) === 1,
    lastError: row.last_error === null ? null : (JSON.parse(String(row.last_error)) as LastError),
    lastSuccessAt: instant(row.last_success_at),
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  };
}

function nextInMs(row: Row, now: number): number | null {
  const dues = [instant(row.line_at), instant(row.later_at)].filter((at) => at !== null);
  return dues.length === 0 ? null : Math.max(0, Math.min(...dues) - now);
}

function toLane(row: Row, now: number): LaneRow {
  const until = instant(row.previous_until);
  return {
    subscription: toRow(row),
    secret: String(row.secret),
    previous:
      row.previous_secret === null || until === null || until <= now ? null : { secret: String(row.previous_secret), forMs: until - now },
    queue: {
      resourceName: String(row.queue_resource),
      type: row.queue_type === "fifo" ? "fifo" : "standard",
      settings: JSON.parse(String(row.settings)) as QueueSettings,
    },
    nextInMs: nextInMs(row, now),
  };
}

const missing = (ref: string): Fault =>
  new Fault("subscription_not_found", `there is no subscription ${ref.slice(0, 100)} in this project`);

async function find(tx: Tx, projectNo: number, ref: string): Promise<Row> {
  const column = ref.startsWith("qsb_") ? "resource_name" : "id";
  const [row] = await tx.query(`${select} WHERE s.project_no = :project AND s.${column} = :ref`, { project: projectNo, ref });
  if (row === undefined) throw missing(ref);
  return row;
}

async function change(tx: Tx, projectNo: number, ref: string, set: string, params: Record<string, Value>): Promise<SubscriptionRow> {
  const { no, queue_no: queueNo } = await find(tx, projectNo, ref);
  await tx.query(`UPDATE subscription SET ${set}, updated_at = CASE WHEN updated_at > :now THEN updated_at ELSE :now END WHERE no = :no`, {
    ...params,
    now: tx.now,
    no: no ?? null,
  });
  await laneChanged(tx, Number(queueNo));
  return toRow(await find(tx, projectNo, ref));
}

/** The target after an update. Throws `invalid_request` for one of another kind or mode. */
function targetAfter(was: Target, given: SubscriptionChange["target"]): Target {
  if (given === undefined) return was;
  if (given.kind === "https" && was.kind === "https") return { ...given, timeoutSeconds: given.timeoutSeconds ?? was.timeoutSeconds };
  if (given.kind === "workflow" && was.kind === "workflow" && given.mode === was.mode) return given;
  throw invalid("target.kind", "the kind and mode that the subscription was made with", given.kind);
}

/** Every cold verb of subscriptions. */
export const subscriptionVerbs = {
  ...attemptVerbs,

  /** Throws `subscription_exists` (P1) and `queue_not_found`. */
  async createSubscription(tx: Tx, given: NewSubscription): Promise<SubscriptionRow> {
    const taken = async () => (await tx.query("SELECT no FROM subscription WHERE queue_no = :queue", { queue: given.queueNo })).length > 0;
    // Two creations at once on PostgreSQL may draw the same number: the loser of that draws again, the loser of the queue gives up.
    // The queue's row is held: it gets no consumer meanwhile.
    const [queue] = await tx.query("UPDATE queue SET updated_at = updated_at WHERE no = :queue RETURNING consumer_path", {
      queue: given.queueNo,
    });
    if (queue !== undefined && queue.consumer_path !== null)
      throw new Fault("subscription_exists", "the queue has a push consumer: set its consumerPath to null first");
    for (;;) {
      if (await taken()) throw new Fault("subscription_exists", "the queue has a subscription already");
      const rows = await tx.query(
        `INSERT INTO subscription (no, id, resource_name, queue_no, project_no, target, batch_size, max_concurrency, state, record_attempts,
           secret, failing, created_at, updated_at)
         SELECT (SELECT COALESCE(MAX(no), 0) + 1 FROM subscription), :id, :resource, q.no, q.project_no, :target, :batch, :most, :state, :record,
           :secret, 0, :now, :now FROM queue q WHERE q.no = :queue AND q.project_no = :project
         ON CONFLICT DO NOTHING RETURNING no`,
        {
          id: given.id,
          resource: given.resourceName,
          queue: given.queueNo,
          project: given.projectNo,
          target: JSON.stringify(given.target),
          batch: given.batchSize,
          most: given.maxConcurrency,
          state: given.state,
          record: given.recordAttempts,
          secret: given.secret,
          now: tx.now,
        },
      );
      if (rows.length > 0) {
        await laneChanged(tx, given.queueNo);
        return toRow(await find(tx, given.projectNo, given.id));
      }
      if (queue === undefined) throw new Fault("queue_not_found", "the queue was deleted meanwhile");
    }
  },

  /** By id or resource name. Throws `subscription_not_found`. */
  async getSubscription(tx: Tx, projectNo: number, ref: string): Promise<SubscriptionRow> {
    return toRow(await find(tx, projectNo, ref));
  },

  /** A page in order of creation, of one queue when `queueNo` is given; `next` resumes after it, `null` at the end. */
  async listSubscriptions(
    tx: Tx,
    ask: { projectNo: number; queueNo: number | null; after: number; limit: number },
  ): Promise<{ rows: { no: number; row: SubscriptionRow }[]; next: number | null }> {
    const found = await tx.query(
      `${select} WHERE s.project_no = :project AND s.no > :after ${ask.queueNo === null ? "" : "AND s.queue_no = :queue"} ORDER BY s.no LIMIT :n`,
      { project: ask.projectNo, after: ask.after, n: ask.limit + 1, ...(ask.queueNo === null ? {} : { queue: ask.queueNo }) },
    );
    const rows = found.slice(0, ask.limit).map((row) => ({ no: Number(row.no), row: toRow(row) }));
    return { rows, next: found.length > ask.limit ? (rows.at(-1)?.no ?? null) : null };
  },

  /** Takes effect from the next delivery (P16). */
  async updateSubscription(tx: Tx, projectNo: number, ref: string, given: SubscriptionChange): Promise<SubscriptionRow> {
    const was = toRow(await find(tx, projectNo, ref));
    const target = targetAfter(was.target, given.target);
    return change(tx, projectNo, ref, "target = :target, batch_size = :batch, max_concurrency = :most, record_attempts = :record", {
      target: JSON.stringify(target),
      batch: given.batchSize ?? was.batchSize,
      most: given.maxConcurrency ?? was.maxConcurrency,
      record: given.recordAttempts ?? was.recordAttempts,
    });
  },

  /** Pauses or resumes (P16). */
  async setSubscriptionState(tx: Tx, projectNo: number, ref: string, state: "active" | "paused"): Promise<SubscriptionRow> {
    return change(tx, projectNo, ref, "state = :state", { state });
  },

  /** Puts a new sealed secret before the one in force, which signs too for 24 hours more; an older one is dropped (P4). */
  async rotateSecret(tx: Tx, projectNo: number, ref: string, sealed: string): Promise<SubscriptionRow> {
    return change(tx, projectNo, ref, "previous_secret = secret, previous_until = :until, secret = :secret", {
      until: tx.now + OVERLAP_MS,
      secret: sealed,
    });
  },

  /** Removes the subscription and its attempts; the queue and its messages stay. */
  async deleteSubscription(tx: Tx, projectNo: number, ref: string): Promise<{ id: string; queueNo: number }> {
    const row = await find(tx, projectNo, ref);
    await removeSubscriptionOf(tx, Number(row.queue_no));
    return { id: String(row.id), queueNo: Number(row.queue_no) };
  },

  /** Stores how deliveries went; rows of subscriptions that are gone are passed over. */
  async saveStatus(tx: Tx, rows: readonly StatusRow[]): Promise<number> {
    for (const { id, failing, error, successAgoMs } of rows) {
      const { agoMs, ...rest } = error ?? { agoMs: 0 };
      await tx.query(
        `UPDATE subscription SET failing = :failing, last_error = COALESCE(:error, last_error),
           last_success_at = COALESCE(:success, last_success_at) WHERE id = :id`,
        {
          id,
          failing,
          error: error === null ? null : JSON.stringify({ at: tx.now - agoMs, ...rest }),
          success: successAgoMs === null ? null : tx.now - successAgoMs,
        },
      );
    }
    return rows.length;
  },

  /** A page of the active subscriptions with what the engine needs of them, for the start; `after` is the last `no` seen. */
  async activeSubscriptions(tx: Tx, after: number, limit: number): Promise<{ lanes: LaneRow[]; next: number | null }> {
    const found = await tx.query(`${selectLane} WHERE s.no > :after AND s.state = 'active' ORDER BY s.no LIMIT :n`, { after, n: limit });
    return { lanes: found.map((row) => toLane(row, tx.now)), next: found.length < limit ? null : Number(found.at(-1)?.no) };
  },

  /** Which of some queues with an active subscription have something to claim, and in how many milliseconds. At least one queue. */
  async nextWork(tx: Tx, queueNos: readonly number[]): Promise<{ queueNo: number; inMs: number }[]> {
    const { text, params } = inList("queue", queueNos);
    const rows = await tx.query(
      `SELECT s.queue_no AS queue_no, ${next} FROM subscription s WHERE s.queue_no IN (${text}) AND s.state = 'active'`,
      params,
    );
    return rows.flatMap((row) => {
      const inMs = nextInMs(row, tx.now);
      return inMs === null ? [] : [{ queueNo: Number(row.queue_no), inMs }];
    });
  },

  /** The queues of active subscriptions that have work due now: one question for all of them, should wake-ups have been lost. */
  async dueSubscriptions(tx: Tx): Promise<number[]> {
    const due = (at: string): string =>
      `EXISTS (SELECT 1 FROM message m WHERE m.queue_no = s.queue_no AND m.${at} IS NOT NULL AND m.${at} <= :now)`;
    const rows = await tx.query(
      `SELECT s.queue_no AS no FROM subscription s WHERE s.state = 'active' AND (${due("line_at")} OR ${due("later_at")})`,
      { now: tx.now },
    );
    return rows.map(({ no }) => Number(no));
  },

  /** What the engine needs of a queue's subscription, in whatever state; `null` when there is none. */
  async loadSubscription(tx: Tx, queueNo: number): Promise<LaneRow | null> {
    const [row] = await tx.query(`${selectLane} WHERE s.queue_no = :queue`, { queue: queueNo });
    return row === undefined ? null : toLane(row, tx.now);
  },
};

/** Removes a queue's subscription and its attempts, if it has one: part of deleting a queue (Q15). */
export async function removeSubscriptionOf(tx: Tx, queueNo: number): Promise<void> {
  await tx.query("DELETE FROM attempt WHERE subscription_no IN (SELECT no FROM subscription WHERE queue_no = :queue)", { queue: queueNo });
  const gone = await tx.query("DELETE FROM subscription WHERE queue_no = :queue RETURNING no", { queue: queueNo });
  if (gone.length > 0) await laneChanged(tx, queueNo);
}
