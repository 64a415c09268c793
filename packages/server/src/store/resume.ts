/**
 * Resumes (W14): a message goes to every run of the app that waits for its queue and key, and is acknowledged, in one transaction. For
 * more runs than one transaction takes, what is left is remembered by a bound: who began to wait after the first of these transactions
 * does not get the message, and nobody gets it twice. A message that nobody waits for may be kept instead (W15).
 */
import type { Tx } from "../db/db.ts";
import { isElsewhere } from "./elsewhere.ts";
import { demandSettled, type Held, heldOf } from "./held.ts";
import { inList } from "./in-list.ts";
import { lockRun } from "./run-rows.ts";
import { appNos } from "./start.ts";
import { lockWaitKeys, type WaitKey } from "./wait.ts";
import { carryOut, type Effects, noEffects, wakeQueueOf, wakeUp } from "./wake.ts";

/** A leased message that resumes runs. `message` is what they get, as JSON bytes; `keepMs` 0: not kept. */
export interface ResumeRow extends Held {
  projectNo: number;
  appId: string;
  key: string;
  message: Uint8Array;
  keepMs: number;
  /** How long the lease is made when more transactions are needed. */
  leaseMs: number;
}

/** `resumed` and `kept` messages are acknowledged, `more` ones go on; the others are left to the caller, `stale` ones are over. */
export type ResumeOutcome = "resumed" | "kept" | "more" | "nobody" | "app_not_found" | "stale";

/** How many runs one message resumes in one transaction. */
const RESUMED_AT_ONCE = 200;
/** How long it is remembered how far a message came: longer than any message lives. */
const REMEMBERED_MS = 400 * 86_400_000;

interface OpenWait {
  no: number;
  run_no: number;
  step_id: string;
}
type Row = ResumeRow & WaitKey;

/** How far a message came in earlier transactions: the last wait that it is for. `null`: this is its first. */
async function boundOf(tx: Tx, { appNo, queueNo, seq }: Row): Promise<number | null> {
  const [known] = await tx.query("SELECT upto_no FROM resuming WHERE app_no = :appNo AND queue_no = :queueNo AND seq = :seq", {
    appNo,
    queueNo,
    seq,
  });
  return known === undefined ? null : Number(known.upto_no);
}

/** Gives a message to one wait. */
async function give(tx: Tx, row: Row, wait: OpenWait, runId: string, wakeQueueNo: number, effects: Effects): Promise<void> {
  await tx.query("DELETE FROM wait WHERE no = :no", { no: wait.no });
  const [step] = await tx.query<{ timer_seq: number | null }>(
    `UPDATE step SET status = 'completed', result = :message, ended_at = :now
     WHERE run_no = :runNo AND id = :id AND status = 'pending' RETURNING timer_seq`,
    { runNo: wait.run_no, id: wait.step_id, message: row.message, now: tx.now },
  );
  if (step === undefined) return;
  await tx.query("UPDATE run SET journal_bytes = journal_bytes + :bytes WHERE no = :no", { no: wait.run_no, bytes: row.message.length });
  if (step.timer_seq !== null) effects.removals.push({ queueNo: wakeQueueNo, seq: step.timer_seq, runId });
  effects.sends.push(wakeUp(wakeQueueNo, runId, "message"));
}

/** Keeps a message for a wait to come. */
async function keep(tx: Tx, { appNo, queueNo, key, keepMs, message }: Row): Promise<void> {
  const [no] = await tx.sequence(1);
  await tx.query(
    `INSERT INTO kept_message (no, app_no, queue_no, key, kept_at, until, message)
     VALUES (:no, :appNo, :queueNo, :key, :now, :until, :message)`,
    { no: no as number, appNo, queueNo, key, now: tx.now, until: tx.now + keepMs, message },
  );
}

/** Resumes runs; answers each row in order. Throws `receipt_mismatch` when a lease ended meanwhile: then nothing was done. */
async function resumeRuns(tx: Tx, rows: readonly ResumeRow[]): Promise<ResumeOutcome[]> {
  const apps = await appNos(tx, rows);
  const known = rows.map((row): Row | null => {
    const appNo = apps.get(`${row.projectNo} ${row.appId}`);
    return appNo === undefined ? null : { ...row, appNo };
  });
  lockWaitKeys(
    tx,
    known.filter((row) => row !== null),
  );
  const held = await heldOf(tx, rows);
  const effects = noEffects();
  const found: { bound: number | null; waits: OpenWait[] }[] = [];
  for (const row of known) {
    const bound = row === null ? null : await boundOf(tx, row);
    found.push({ bound, waits: row === null || !held.has(row.seq) ? [] : await waitsOf(tx, row, bound) });
  }
  // Runs are locked in one order, before their waits and steps.
  const runIds = new Map<number, string>();
  for (const no of [...new Set(found.flatMap(({ waits }) => waits.map((wait) => wait.run_no)))].sort((a, b) => a - b)) {
    const run = await lockRun(tx, no);
    if (run !== null) runIds.set(no, run.id);
  }
  // Who waited when it was looked for may have been timed out before its run was locked.
  const open = await stillOpen(
    tx,
    found.flatMap(({ waits }) => waits.map(({ no }) => no)),
  );
  const outcomes: ResumeOutcome[] = [];
  for (const [i, row] of known.entries()) {
    const { bound, waits } = found[i] as { bound: number | null; waits: OpenWait[] };
    if (row === null) outcomes.push("app_not_found");
    else if (!held.has(row.seq)) outcomes.push("stale");
    else {
      // A message before this one in the same transaction may have taken some.
      const theirs = waits.filter((wait) => open.delete(wait.no));
      outcomes.push(await settleRow(tx, row, bound, theirs, runIds, effects));
    }
  }
  const { settled } = await carryOut(tx, effects);
  demandSettled(settled);
  return outcomes;
}

/** The waits that a message is for, one more than a transaction takes. */
function waitsOf(tx: Tx, { appNo, queueNo, key }: Row, bound: number | null): Promise<OpenWait[]> {
  return tx.query<OpenWait>(
    `SELECT no, run_no, step_id FROM wait WHERE app_no = :appNo AND queue_no = :queueNo AND key = :key
       ${bound === null ? "" : "AND no <= :bound"} ORDER BY no LIMIT :limit`,
    { appNo, queueNo, key, limit: RESUMED_AT_ONCE + 1, ...(bound === null ? {} : { bound }) },
  );
}

/** Which of these waits are open. */
async function stillOpen(tx: Tx, nos: readonly number[]): Promise<Set<number>> {
  if (nos.length === 0) return new Set();
  const list = inList("no", nos);
  const rows = await tx.query<{ no: number }>(`SELECT no FROM wait WHERE no IN (${list.text})`, list.params);
  return new Set(rows.map(({ no }) => no));
}

async function settleRow(
  tx: Tx,
  row: Row,
  bound: number | null,
  open: readonly OpenWait[],
  runIds: ReadonlyMap<number, string>,
  effects: Effects,
): Promise<ResumeOutcome> {
  const { appNo, queueNo, seq, receipt } = row;
  if (open.length === 0 && bound === null && row.keepMs === 0) return "nobody";
  const wakeQueueNo = await wakeQueueOf(tx, appNo, effects);
  if (wakeQueueNo === null) return "app_not_found";
  for (const wait of open.slice(0, RESUMED_AT_ONCE)) {
    const runId = runIds.get(wait.run_no);
    if (runId !== undefined) await give(tx, row, wait, runId, wakeQueueNo, effects);
  }
  const apart = isElsewhere(queueNo);
  // A message of another database is settled later: should it come again until then, nobody gets it twice.
  if (bound === null && (apart || open.length > RESUMED_AT_ONCE)) {
    const [upto] = await tx.sequence(1);
    await tx.query(`INSERT INTO resuming (app_no, queue_no, seq, upto_no, until) VALUES (:appNo, :queueNo, :seq, :upto, :until)`, {
      appNo,
      queueNo,
      seq,
      upto: upto as number,
      until: tx.now + REMEMBERED_MS,
    });
  }
  if (open.length > RESUMED_AT_ONCE) {
    if (!apart) effects.settles.push({ queueNo, seq, receipt, outcome: "extend", delayMs: row.leaseMs });
    return "more";
  }
  if (bound === null && open.length === 0) await keep(tx, row);
  if (!apart) {
    if (bound !== null)
      await tx.query("DELETE FROM resuming WHERE app_no = :appNo AND queue_no = :queueNo AND seq = :seq", { appNo, queueNo, seq });
    effects.settles.push({ queueNo, seq, receipt, outcome: "ack" });
  }
  return open.length === 0 && bound === null ? "kept" : "resumed";
}

/** Cold verbs: resumes. */
export const resumeVerbs = { resumeRuns };
