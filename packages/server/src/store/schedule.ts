/**
 * Cold verbs of schedules (C9). An occurrence is sent and the schedule moved on in one transaction, and only by whoever still finds the
 * occurrence pending: several nodes and restarts send it once. When a schedule runs is reckoned by the callers, from the instant that
 * `now` answers; no clock but the store's counts.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { nextNo } from "./identity.ts";
import { sendOwn } from "./message.ts";
import { lockProject } from "./project-lock.ts";
import type { QueueRow, SendRow } from "./types.ts";

/** So many schedules a queue may have. */
const MOST = 1_000;
/** For so long a send that was refused waits before it is tried again. */
const AGAIN_MS = 30_000;

/** What a run sends, and when. `body` is text. */
export interface ScheduleFields {
  cron: string;
  timezone: string;
  body: string;
  contentType: string;
  headers: Record<string, string>;
  enabled: boolean;
}

/** A schedule. `nextAt`: its next occurrence, `null` while it is off or when there is none; `lastAt`: when it last sent. */
export interface ScheduleRow extends ScheduleFields {
  no: number;
  id: string;
  queueNo: number;
  name: string;
  source: "api" | "config";
  nextAt: number | null;
  lastAt: number | null;
  lastMessageId: string | null;
  lastError: string | null;
}

/** A schedule that is due: `pendingAt` is its occurrence. */
export interface DueSchedule {
  no: number;
  queueNo: number;
  cron: string;
  timezone: string;
  pendingAt: number;
}

/** One run as its caller reckoned it: the occurrence that is sent for the pending one, and the one after it; or why it could not be. */
export type ScheduleRun = { no: number; queueNo: number; pendingAt: number } & (
  | { occurrenceAt: number; nextAt: number | null }
  | { error: string }
);

const COLUMNS = `no, id, queue_no, name, cron, timezone, body, content_type, headers, enabled, source, next_at, last_at, last_message_id,
  last_error`;
const instant = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value));
const textOrNull = (value: unknown): string | null => (value === null || value === undefined ? null : String(value));

function scheduleOf(row: Row): ScheduleRow {
  return {
    no: Number(row.no),
    id: String(row.id),
    queueNo: Number(row.queue_no),
    name: String(row.name),
    cron: String(row.cron),
    timezone: String(row.timezone),
    body: String(row.body),
    contentType: String(row.content_type),
    headers: JSON.parse(String(row.headers)) as Record<string, string>,
    enabled: Number(row.enabled) === 1,
    source: row.source as ScheduleRow["source"],
    nextAt: instant(row.next_at),
    lastAt: instant(row.last_at),
    lastMessageId: textOrNull(row.last_message_id),
    lastError: textOrNull(row.last_error),
  };
}

const missing = (): Fault => new Fault("schedule_not_found", "the queue has no schedule of this name");
const stored = (fields: ScheduleFields) => ({
  cron: fields.cron,
  timezone: fields.timezone,
  body: fields.body,
  contentType: fields.contentType,
  headers: JSON.stringify(fields.headers),
  enabled: fields.enabled,
});

/** Sends one occurrence; answers the message's id, or why nothing was stored. */
async function sendOccurrence(
  tx: Tx,
  schedule: ScheduleRow,
  type: string,
  occurrenceAt: number,
): Promise<{ id: string } | { error: string }> {
  const dedupId = `${schedule.id}:${new Date(occurrenceAt).toISOString()}`;
  const row: SendRow = {
    queueNo: schedule.queueNo,
    body: new TextEncoder().encode(schedule.body),
    attributes: Object.keys(schedule.headers).length === 0 ? null : schedule.headers,
    meta: { contentType: schedule.contentType, dedupId, source: "schedule" },
    groupKey: type === "fifo" ? `schedule:${schedule.id}` : null,
    dedupId,
    delayMs: null,
  };
  try {
    const [sent] = await sendOwn(tx, [row]);
    return sent === undefined || "refused" in sent ? { error: "the message was refused" } : { id: sent.messageId };
  } catch (error) {
    // A refusal stores nothing, so the transaction goes on.
    if (!(error instanceof Fault) || (error.code !== "backlog_full" && error.code !== "queue_not_found")) throw error;
    return { error: error.code === "backlog_full" ? "backlog_full: the queue is full; it is tried again" : error.code };
  }
}

/** Every cold verb of schedules. */
export const scheduleVerbs = {
  /** The store's present instant, in milliseconds since 1970. */
  now: async (tx: Tx): Promise<number> => tx.now,

  /** Makes a schedule. Throws `schedule_exists`, `queue_not_found`, `invalid_request`. */
  async createSchedule(
    tx: Tx,
    given: ScheduleFields & Pick<ScheduleRow, "id" | "queueNo" | "name" | "source" | "nextAt"> & { projectNo: number },
  ): Promise<ScheduleRow> {
    const no = await nextNo(tx);
    // As the end of a queue does: of the two at once, the schedule goes with its queue or is refused.
    await lockProject(tx, given.projectNo);
    const [queue] = await tx.query("SELECT no FROM queue WHERE no = :queueNo", { queueNo: given.queueNo });
    if (queue === undefined) throw new Fault("queue_not_found", "there is no such queue");
    const [count] = await tx.query("SELECT count(*) AS n FROM schedule WHERE queue_no = :queueNo", { queueNo: given.queueNo });
    if (Number(count?.n ?? 0) >= MOST) throw invalid("name", `at most ${MOST} schedules on one queue`);
    const [row] = await tx.query(
      `INSERT INTO schedule (no, id, queue_no, name, cron, timezone, body, content_type, headers, enabled, source, next_at, due_at,
         created_at, updated_at)
       VALUES (:no, :id, :queueNo, :name, :cron, :timezone, :body, :contentType, :headers, :enabled, :source, :nextAt, :nextAt, :now, :now)
       ON CONFLICT (queue_no, name) DO NOTHING RETURNING ${COLUMNS}`,
      {
        ...stored(given),
        no,
        id: given.id,
        queueNo: given.queueNo,
        name: given.name,
        source: given.source,
        nextAt: given.nextAt,
        now: tx.now,
      },
    );
    if (row === undefined) throw new Fault("schedule_exists", `the queue has a schedule named ${given.name} already`);
    return scheduleOf(row);
  },

  /**
   * Writes a schedule's fields, unless its cron, time zone or state are no longer those of `before`: then `null`, and the caller reckons
   * anew. `nextAt` `undefined` leaves the pending occurrence alone. Throws `schedule_not_found`.
   */
  async updateSchedule(
    tx: Tx,
    before: ScheduleRow,
    fields: ScheduleFields & { source: ScheduleRow["source"] },
    nextAt: number | null | undefined,
  ): Promise<ScheduleRow | null> {
    const [locked] = await tx.query(`UPDATE schedule SET updated_at = :now WHERE no = :no RETURNING ${COLUMNS}`, {
      no: before.no,
      now: tx.now,
    });
    if (locked === undefined) throw missing();
    const found = scheduleOf(locked);
    if (JSON.stringify(stored(found)) !== JSON.stringify(stored(before))) return null;
    const at = nextAt === undefined ? "" : ", next_at = :nextAt, due_at = :nextAt, last_error = NULL";
    const [row] = await tx.query(
      `UPDATE schedule SET cron = :cron, timezone = :timezone, body = :body, content_type = :contentType, headers = :headers,
         enabled = :enabled, source = :source${at} WHERE no = :no RETURNING ${COLUMNS}`,
      { ...stored(fields), source: fields.source, no: before.no, ...(nextAt === undefined ? {} : { nextAt }) },
    );
    if (row === undefined) throw missing();
    return scheduleOf(row);
  },

  /** Throws `schedule_not_found`. */
  async deleteSchedule(tx: Tx, queueNo: number, name: string): Promise<null> {
    const [row] = await tx.query("DELETE FROM schedule WHERE queue_no = :queueNo AND name = :name RETURNING no", { queueNo, name });
    if (row === undefined) throw missing();
    return null;
  },

  /** Throws `schedule_not_found`. */
  async getSchedule(tx: Tx, queueNo: number, name: string): Promise<ScheduleRow> {
    const [row] = await tx.query(`SELECT ${COLUMNS} FROM schedule WHERE queue_no = :queueNo AND name = :name`, { queueNo, name });
    if (row === undefined) throw missing();
    return scheduleOf(row);
  },

  /** Up to `limit` schedules of a queue by name, after the first `offset`, and how many there are. */
  async listSchedules(tx: Tx, queueNo: number, page: { offset: number; limit: number }): Promise<{ items: ScheduleRow[]; total: number }> {
    const [count] = await tx.query("SELECT count(*) AS n FROM schedule WHERE queue_no = :queueNo", { queueNo });
    const rows = await tx.query(`SELECT ${COLUMNS} FROM schedule WHERE queue_no = :queueNo ORDER BY name LIMIT :limit OFFSET :offset`, {
      queueNo,
      ...page,
    });
    return { items: rows.map(scheduleOf), total: Number(count?.n ?? 0) };
  },

  /** Up to `limit` schedules that are due, the present instant, and in how many milliseconds the next one is when none is. */
  async dueSchedules(tx: Tx, limit: number): Promise<{ now: number; due: DueSchedule[]; nextInMs: number | null }> {
    const rows = await tx.query(
      `SELECT no, queue_no, cron, timezone, next_at FROM schedule WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at, no LIMIT :limit`,
      { now: tx.now, limit },
    );
    const [next] = await tx.query("SELECT min(due_at) AS at FROM schedule WHERE due_at IS NOT NULL AND due_at > :now", { now: tx.now });
    const at = instant(next?.at);
    return {
      now: tx.now,
      due: rows.map((row) => ({
        no: Number(row.no),
        queueNo: Number(row.queue_no),
        cron: String(row.cron),
        timezone: String(row.timezone),
        pendingAt: Number(row.next_at),
      })),
      nextInMs: at === null ? null : at - tx.now,
    };
  },

  /** Sends the occurrences that are still pending and moves their schedules on; answers how many were sent. */
  async runSchedules(tx: Tx, runs: ScheduleRun[]): Promise<number> {
    let sent = 0;
    const putOff = ({ no, pendingAt }: ScheduleRun, error: string) =>
      tx.query("UPDATE schedule SET next_at = :pendingAt, due_at = :dueAt, last_error = :error WHERE no = :no", {
        no,
        pendingAt,
        dueAt: tx.now + AGAIN_MS,
        error,
      });
    // Queues are locked in one order everywhere.
    const ordered = [...runs].sort((a, b) => a.queueNo - b.queueNo || a.no - b.no);
    for (const run of ordered) {
      const { no, pendingAt } = run;
      const nextAt = "error" in run ? pendingAt : run.nextAt;
      const [row] = await tx.query(
        `UPDATE schedule SET next_at = :nextAt, due_at = :nextAt, last_at = :now, last_error = NULL
         WHERE no = :no AND next_at = :pendingAt AND due_at <= :now RETURNING ${COLUMNS}`,
        { no, pendingAt, nextAt, now: tx.now },
      );
      if (row === undefined) continue;
      if ("error" in run) {
        await putOff(run, run.error);
        continue;
      }
      const schedule = scheduleOf(row);
      const [queue] = await tx.query<{ type: QueueRow["type"] }>("SELECT type FROM queue WHERE no = :queueNo", {
        queueNo: schedule.queueNo,
      });
      const outcome = await sendOccurrence(tx, schedule, queue?.type ?? "standard", run.occurrenceAt);
      if ("id" in outcome) {
        sent++;
        await tx.query("UPDATE schedule SET last_message_id = :id WHERE no = :no", { no, id: outcome.id });
      } else await putOff(run, outcome.error);
    }
    return sent;
  },
};
