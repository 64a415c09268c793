/**
 * Run results that go to a queue (W17): sent in the transaction that ends the run. What a queue has no room for waits here and is
 * tried again for 24 hours; what waits keeps back what comes after it in its group, so that a group's order is that of the endings.
 */
import { createHash } from "node:crypto";
import { type EndedRun, runResult } from "@millrace/contract/wire";
import type { Row, Tx } from "../db/db.ts";
import { FIRST_PLACED_QUEUE } from "./database-numbers.ts";
import { isElsewhere } from "./elsewhere.ts";
import { runOwn } from "./hot.ts";
import { type Remembered, remembered } from "./remembered.ts";
import { storedSend } from "./rows.ts";
import type { EndStatus, RunRow } from "./run-rows.ts";
import type { StoredSend } from "./send.ts";
import type { SendRefusal, SendRow } from "./types.ts";

/** An app's `notifications`, as stored. `workflows` `null`: of all. */
export interface Notifications {
  queueNo: number;
  queueId: string;
  /** Whether the queue is FIFO: only there a result has a group and a deduplication id. */
  fifo: boolean;
  on: EndStatus[];
  workflows: string[] | null;
  groupBy: "run" | "workflow";
}

/** A result that is to be sent. `groupKey` `null` where the queue is not FIFO. */
export interface RunResult {
  appNo: number;
  runId: string;
  queueNo: number;
  groupKey: string | null;
  dedupId: string;
  body: Uint8Array;
}

/** How long a result is tried, and the pauses between two tries: doubling up to the longest. */
const TRIED_MS = 24 * 3_600_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15 * 60_000;
/** How many are tried in one transaction. */
const TRIED_AT_ONCE = 100;

/** The message for the end of a run, `null` when the app wants none. `run` is as it stands after the end. */
export async function resultOf(tx: Tx, run: RunRow, output: Uint8Array | null, memory: Remembered): Promise<RunResult | null> {
  const [app] = await remembered(memory, `app ${run.appNo}`, () =>
    tx.query(
      `SELECT a.id AS id, a.notifications AS notifications, p.id AS project, o.id AS organization
       FROM app a JOIN project p ON p.no = a.project_no JOIN organization o ON o.no = p.organization_no WHERE a.no = :no`,
      { no: run.appNo },
    ),
  );
  if (app === undefined || app.notifications === null) return null;
  const wanted = JSON.parse(String(app.notifications)) as Notifications;
  const status = run.status as EndStatus;
  if (!wanted.on.includes(status) || (wanted.workflows !== null && !wanted.workflows.includes(run.workflow))) return null;
  const ended: EndedRun = {
    runId: run.id,
    appId: String(app.id),
    workflow: run.workflow,
    status,
    attempt: run.attempt,
    output: output === null ? null : new TextDecoder().decode(output),
    error: run.error,
    startedAt: run.startedAt,
    endedAt: run.endedAt ?? tx.now,
    outputPath: `/v1/organizations/${app.organization}/projects/${app.project}/apps/${app.id}/runs/${run.id}/output`,
  };
  return {
    appNo: run.appNo,
    runId: run.id,
    queueNo: wanted.queueNo,
    groupKey: wanted.fifo ? (wanted.groupBy === "run" ? run.id : run.workflow) : null,
    dedupId: `${run.id}:${run.attempt}:${status}`,
    body: new TextEncoder().encode(runResult(ended)),
  };
}

/** A result as a message. */
export function resultMessage({ queueNo, body, groupKey, dedupId }: RunResult): SendRow {
  const meta = { contentType: "application/json" };
  return { queueNo, body, attributes: null, meta, groupKey, dedupId: groupKey === null ? null : dedupId, delayMs: null };
}

/** The same, as it is stored. */
export const resultSend = (result: RunResult): StoredSend => storedSend(resultMessage(result));

const lockNo = ({ queueNo, groupKey }: RunResult): number => createHash("sha256").update(`${queueNo} ${groupKey}`).digest().readInt32BE();

/**
 * Locks the groups that runs share until the transaction ends, before whatever is asked next and any queue: of two endings the later one
 * sees what became of the earlier one's result. Nothing on SQLite, which has one writer.
 */
export function lockResultGroups(tx: Tx, results: readonly RunResult[]): void {
  const shared = results.filter(({ groupKey, runId }) => groupKey !== null && groupKey !== runId);
  tx.post(
    "lock.results",
    [...new Set(shared.map(lockNo))].map((no) => [no]),
  );
}

/**
 * Keeps a result that can't be sent now: its queue is full or on another database, or (`behind`) an earlier one of its group is kept.
 * That of a queue that is gone is dropped and counted. Answers whether it was dealt with.
 */
export async function keepResult(tx: Tx, result: RunResult, why: "behind" | SendRefusal): Promise<boolean> {
  const elsewhere = isElsewhere(result.queueNo);
  if (why === "queue_not_found") {
    await dropResult(tx, result.appNo);
    return true;
  }
  if (why === "behind" && !elsewhere) {
    if (result.groupKey === null) return false;
    const [before] = await tx.query("SELECT no FROM run_result WHERE queue_no = :queueNo AND group_key = :groupKey LIMIT 1", {
      queueNo: result.queueNo,
      groupKey: result.groupKey,
    });
    if (before === undefined) return false;
  }
  const [no] = await tx.sequence(1);
  await tx.query(
    `INSERT INTO run_result (no, app_no, run_id, queue_no, group_key, dedup_id, tries, next_at, until, body)
     VALUES (:no, :appNo, :runId, :queueNo, :groupKey, :dedupId, 1, :nextAt, :until, :body)`,
    { no: no as number, ...result, nextAt: elsewhere ? tx.now : tx.now + FIRST_PAUSE_MS, until: tx.now + TRIED_MS },
  );
  return true;
}

/** Counts a result that is not sent any more. */
export const dropResult = (tx: Tx, appNo: number) => tx.query("UPDATE app SET unnotified = unnotified + 1 WHERE no = :appNo", { appNo });

/** How long after its `tries`th try a result waits for the next one. */
export const pauseAfter = (tries: number): number => Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, tries - 2), LONGEST_PAUSE_MS);

/** A result that waits: numbered in the order of the endings, tried until `until`. */
export type KeptResult = RunResult & { no: number; tries: number; until: number };

function keptResultOf(row: Row): KeptResult {
  return {
    no: Number(row.no),
    appNo: Number(row.app_no),
    runId: String(row.run_id),
    queueNo: Number(row.queue_no),
    groupKey: row.group_key === null ? null : String(row.group_key),
    dedupId: String(row.dedup_id),
    tries: Number(row.tries),
    until: Number(row.until),
    body: row.body as Uint8Array,
  };
}

/** Of the results that wait, those whose queue is on this database, or on another. */
const ON = { here: "r.queue_no < :placed", elsewhere: "r.queue_no >= :placed" };

/** Of a group only the earliest is tried: the others wait for it, however long ago they were due themselves. */
const FIRST = "NOT EXISTS (SELECT 1 FROM run_result AS e WHERE e.queue_no = r.queue_no AND e.group_key = r.group_key AND e.no < r.no)";

/** Takes up to `limit` of them that are due, in the order of the endings, and counts the try. */
export async function takeDue(tx: Tx, side: keyof typeof ON, limit: number): Promise<KeptResult[]> {
  // The lock of the rows keeps a second node out.
  const rows = await tx.query(
    `UPDATE run_result SET tries = tries + 1 WHERE no IN (SELECT r.no FROM run_result AS r WHERE r.next_at <= :now AND ${ON[side]} AND ${FIRST}
       ORDER BY r.next_at, r.no LIMIT :limit) RETURNING *`,
    { now: tx.now, placed: FIRST_PLACED_QUEUE, limit },
  );
  return rows.map(keptResultOf).sort((a, b) => a.no - b.no);
}

/** When the next of them is due, `null` when none waits. */
export async function nextDueAt(tx: Tx, side: keyof typeof ON): Promise<number | null> {
  const [next] = await tx.query(`SELECT min(r.next_at) AS at FROM run_result AS r WHERE ${ON[side]} AND ${FIRST}`, {
    placed: FIRST_PLACED_QUEUE,
  });
  return next?.at == null ? null : Number(next.at);
}

/** Tries what is due again; answers how many are left to be tried at once, and in how many milliseconds the next is due. */
async function sendRunResults(tx: Tx): Promise<{ more: boolean; nextInMs: number | null }> {
  const kept = await takeDue(tx, "here", TRIED_AT_ONCE);
  const answer = await runOwn(tx, { settles: [], sends: kept.map(resultSend) });
  for (const [i, row] of kept.entries()) {
    const sent = answer.sends[i];
    const refused = sent !== undefined && "refused" in sent ? sent.refused : null;
    if (refused === "backlog_full" && row.until > tx.now) {
      await tx.query("UPDATE run_result SET next_at = :nextAt WHERE no = :no", { no: row.no, nextAt: tx.now + pauseAfter(row.tries) });
      continue;
    }
    if (refused !== null) await dropResult(tx, row.appNo);
    await tx.query("DELETE FROM run_result WHERE no = :no", { no: row.no });
  }
  const at = await nextDueAt(tx, "here");
  return { more: kept.length > 0 && at !== null && at <= tx.now, nextInMs: at === null ? null : Math.max(0, at - tx.now) };
}

/** Cold verbs: run results that wait. */
export const runResultVerbs = { sendRunResults };
