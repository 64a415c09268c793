/**
 * Cold verbs of redrives: jobs that send dead letters back to where they came from (Q14). A job walks its queue by message number up
 * to the last one there was when it began, so it always ends, and a letter that comes back dead is not sent off again. Each step is
 * one transaction with its figures, so a job goes on after a restart and counts nothing twice.
 */
import { Fault } from "@millrace/contract";
import type { Row, Tx } from "../db/db.ts";
import { ANY_QUEUE } from "./by-queue.ts";
import { readMessageId } from "./message-id.ts";
import { moveDeadLetters } from "./move.ts";

/** A job. `selected`, `moved` and `failed` count messages. */
export interface RedriveRow {
  id: string;
  queueNo: number;
  state: "running" | "done" | "cancelled";
  selected: number;
  moved: number;
  failed: number;
  lastError: string | null;
  createdAt: number;
  updatedAt: number;
}

/** A new job; `messageIds` `null` takes all dead letters of the queue. */
export interface NewRedrive {
  id: string;
  queueNo: number;
  messageIds: string[] | null;
  ratePerSecond: number | null;
}

/** Where a job stands: the last number it has seen, and the numbers it was asked for (`null`: all). */
interface Place {
  after: number;
  seqs: number[] | null;
}

/** How many messages one step moves at most, and how many it looks at. */
const STEP_MESSAGES = 500;
const STEP_ROWS = 2_000;
/** Ended jobs can be read for so long. */
const KEPT_MS = 14 * 86_400_000;
const CHUNK = 50;
/** In the list, or come here from another queue; what came back to its own queue is no letter any more. */
const LETTER = "(dead_at IS NOT NULL OR (source_no IS NOT NULL AND source_no <> queue_no))";

function redriveOf(row: Row): RedriveRow {
  return {
    id: row.id as string,
    queueNo: row.queue_no as number,
    state: row.state as RedriveRow["state"],
    selected: row.selected as number,
    moved: row.moved as number,
    failed: row.failed as number,
    lastError: row.last_error as string | null,
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
  };
}

/** The numbers under which the named dead letters stand in the queue; ids that name none are passed over. */
async function findNamed(tx: Tx, queueNo: number, ids: readonly string[]): Promise<number[]> {
  const sentAt = new Map<number, number>();
  for (const id of ids) {
    const read = readMessageId(id);
    if (read !== null) sentAt.set(read.origin, read.sentAt);
  }
  const origins = [...sentAt.keys()];
  const names = Array.from({ length: CHUNK }, (_, i) => `:o${i}`).join(", ");
  const seqs: number[] = [];
  for (let from = 0; from < origins.length; from += CHUNK) {
    const params: Record<string, number> = { queueNo };
    for (let i = 0; i < CHUNK; i++) params[`o${i}`] = origins[from + i] ?? -1;
    const rows = await tx.query(
      `SELECT seq, origin, sent_at FROM message
       WHERE seq IN (${names}) AND origin = seq AND queue_no = :queueNo AND ${LETTER}
       UNION ALL SELECT seq, origin, sent_at FROM message
       WHERE origin IN (${names}) AND origin <> seq AND queue_no = :queueNo AND ${LETTER}`,
      params,
    );
    for (const row of rows) if (sentAt.get(row.origin as number) === row.sent_at) seqs.push(row.seq as number);
  }
  return seqs.sort((a, b) => a - b);
}

async function countAll(tx: Tx, queueNo: number): Promise<number> {
  const [row] = await tx.query(
    `SELECT (SELECT count(*) FROM message WHERE queue_no = :queueNo AND dead_at IS NOT NULL)
       + (SELECT count(*) FROM message WHERE queue_no = :queueNo AND ${ANY_QUEUE} AND dead_at IS NULL AND ${LETTER}) AS n`,
    { queueNo },
  );
  return Number(row?.n ?? 0);
}

/** Starts a job over the dead letters there are now. Throws `queue_not_found`. */
async function startRedrive(tx: Tx, given: NewRedrive): Promise<RedriveRow> {
  const { queueNo } = given;
  const [queue] = await tx.query("SELECT no FROM queue WHERE no = :queueNo", { queueNo });
  if (queue === undefined) throw new Fault("queue_not_found", "There is no such queue.");
  const [counter] = await tx.query("UPDATE queue_counter SET last = last + 1 RETURNING last");
  const [top] = await tx.query(`SELECT seq FROM message WHERE queue_no = :queueNo AND ${ANY_QUEUE} ORDER BY seq DESC LIMIT 1`, { queueNo });
  const seqs = given.messageIds === null ? null : await findNamed(tx, queueNo, given.messageIds);
  const selected = seqs === null ? await countAll(tx, queueNo) : seqs.length;
  const place: Place = { after: 0, seqs };
  const rows = await tx.query(
    `INSERT INTO redrive (no, id, queue_no, state, upto_seq, picked, rate_per_second, selected, moved, failed, created_at, updated_at)
     VALUES (:no, :id, :queueNo, :state, :upto, :picked, :rate, :selected, 0, 0, :now, :now) RETURNING *`,
    {
      no: counter?.last as number,
      id: given.id,
      queueNo,
      state: selected === 0 ? "done" : "running",
      upto: top?.seq ?? 0,
      picked: JSON.stringify(place),
      rate: given.ratePerSecond,
      selected,
      now: tx.now,
    },
  );
  return redriveOf(rows[0] as Row);
}

/** A job of this queue; `null` when there is none. */
async function getRedrive(tx: Tx, queueNo: number, id: string): Promise<RedriveRow | null> {
  const [row] = await tx.query("SELECT * FROM redrive WHERE id = :id AND queue_no = :queueNo", { id, queueNo });
  return row === undefined ? null : redriveOf(row);
}

/** Stops a running job; one that has ended is answered as it is. */
async function cancelRedrive(tx: Tx, queueNo: number, id: string): Promise<RedriveRow | null> {
  await tx.query("UPDATE redrive SET state = 'cancelled', updated_at = :now WHERE id = :id AND queue_no = :queueNo AND state = 'running'", {
    id,
    queueNo,
    now: tx.now,
  });
  return getRedrive(tx, queueNo, id);
}

/** How many messages a job may move in one step, and how long it then pauses: both together never beat its rate. */
export function paceOf(ratePerSecond: number | null): { messages: number; pauseMs: number } {
  if (ratePerSecond === null) return { messages: STEP_MESSAGES, pauseMs: 0 };
  const messages = Math.min(STEP_MESSAGES, ratePerSecond);
  return { messages, pauseMs: Math.ceil((messages / ratePerSecond) * 1000) };
}

interface Letters {
  seqs: number[];
  /** The last number that was looked at. */
  after: number;
  end: boolean;
}

/** The next dead letters of a job, at most `most`. */
async function nextLetters(tx: Tx, queueNo: number, place: Place, upto: number, most: number): Promise<Letters> {
  if (place.seqs !== null) {
    const seqs = place.seqs.filter((seq) => seq > place.after).slice(0, most);
    const after = seqs.at(-1) ?? place.after;
    return { seqs, after, end: after >= (place.seqs.at(-1) ?? 0) };
  }
  const rows = await tx.query(
    `SELECT seq, CASE WHEN ${LETTER} THEN 1 ELSE 0 END AS letter FROM message
     WHERE queue_no = :queueNo AND ${ANY_QUEUE} AND seq > :after AND seq <= :upto ORDER BY seq LIMIT :rows`,
    { queueNo, after: place.after, upto, rows: STEP_ROWS },
  );
  const seqs: number[] = [];
  let after = place.after;
  for (const row of rows) {
    if (seqs.length === most) return { seqs, after, end: false };
    after = row.seq as number;
    if (row.letter === 1) seqs.push(after);
  }
  return { seqs, after, end: rows.length < STEP_ROWS };
}

/**
 * Moves one job on by a bounded step. Answers in how many milliseconds the next step is due (0: at once), `null` when no job runs.
 */
async function stepRedrive(tx: Tx): Promise<number | null> {
  const running = await tx.query(
    "SELECT no, rate_per_second, updated_at, moved, failed FROM redrive WHERE state = 'running' ORDER BY updated_at, no LIMIT 100",
  );
  let waitMs: number | null = null;
  for (const job of running) {
    const fresh = (job.moved as number) + (job.failed as number) === 0;
    const pauseMs = fresh ? 0 : paceOf(job.rate_per_second as number | null).pauseMs;
    const leftMs = Math.max(0, (job.updated_at as number) + pauseMs - tx.now);
    if (leftMs === 0) {
      await step(tx, job.no as number, job.updated_at as number);
      return 0;
    }
    waitMs = Math.min(waitMs ?? leftMs, leftMs);
  }
  return waitMs;
}

async function step(tx: Tx, no: number, seenAt: number): Promise<void> {
  // Another node that took this step in between has moved the time on.
  const [row] = await tx.query(
    "UPDATE redrive SET updated_at = :now WHERE no = :no AND state = 'running' AND updated_at = :seenAt RETURNING *",
    { no, seenAt, now: tx.now },
  );
  if (row === undefined) return;
  const job = redriveOf(row);
  const place = JSON.parse(row.picked as string) as Place;
  const pace = paceOf(row.rate_per_second as number | null);
  const { seqs, after, end } = await nextLetters(tx, job.queueNo, place, row.upto_seq as number, pace.messages);
  const { moved, failed, error } = await moveDeadLetters(tx, job.queueNo, seqs);
  // In flight or gone: what a job could not move, for whatever reason, it counts as failed and leaves where it is.
  const left = seqs.length - moved - failed;
  await tx.query(
    `UPDATE redrive SET moved = moved + :moved, failed = failed + :failed, last_error = coalesce(:error, last_error),
       picked = :picked, state = :state WHERE no = :no`,
    {
      no,
      moved,
      failed: failed + left,
      error: error ?? (left > 0 ? "the message was in flight or is gone" : null),
      picked: JSON.stringify({ ...place, after }),
      state: end ? "done" : "running",
    },
  );
}

/** Forgets jobs that ended 14 days ago. */
async function forgetRedrives(tx: Tx): Promise<null> {
  await tx.query("DELETE FROM redrive WHERE state <> 'running' AND updated_at < :before", { before: tx.now - KEPT_MS });
  return null;
}

export const redriveVerbs = { startRedrive, getRedrive, cancelRedrive, stepRedrive, forgetRedrives };
