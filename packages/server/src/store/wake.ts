/**
 * What a change of runs entails beyond their own rows: wake-ups in their apps' queues, settled messages, run results (W17). A verb
 * collects it and carries it out last, all at once: the locks of queues come after every other lock, in one order.
 */
import type { Tx } from "../db/db.ts";
import { runOwn } from "./hot.ts";
import { unpark, type WorkflowKey } from "./parking.ts";
import { type Remembered, remembered } from "./remembered.ts";
import { keepResult, lockResultGroups, type RunResult, resultSend } from "./run-result.ts";
import { noWrites, type RunWrites, writeRuns } from "./run-writes.ts";
import type { StoredSend } from "./send.ts";
import type { HotSettle } from "./settle.ts";
import { remove } from "./sweep.ts";
import type { SettleResult } from "./types.ts";

/** What is to be carried out. */
export interface Effects {
  settles: HotSettle[];
  sends: StoredSend[];
  results: RunResult[];
  /** Delayed wake-ups that have lost their reason. */
  removals: { queueNo: number; seq: number; runId: string }[];
  /** Workflows of which an execution is over, or need not begin any more: others may have waited for its place. */
  over: Map<string, WorkflowKey>;
  /** What the runs themselves are to become. */
  writes: RunWrites;
  /** What was read in this transaction and is the same for many runs. */
  memory: Remembered;
}

/** Nothing yet. */
export const noEffects = (): Effects => ({
  settles: [],
  sends: [],
  results: [],
  removals: [],
  over: new Map(),
  writes: noWrites(),
  memory: new Map(),
});

/** Why a run is woken: for whoever looks at the queue; an execution reads the tables. */
export type Why = "started" | "message" | "child" | "timer" | "cancelled" | "retried" | "timedOut" | "synced" | "place";

const encoder = new TextEncoder();

/** A wake-up of a run in its app's queue, `delayMs` from now. A delayed one holds back nothing that comes before it is due. */
export function wakeUp(queueNo: number, runId: string, why: Why, delayMs = 0): StoredSend {
  const body = encoder.encode(`{"why":"${why}"}`);
  return { queueNo, body, attributes: null, meta: null, groupKey: runId, dedupId: null, delayMs };
}

/** The queue that wakes an app's runs; `null` when the app is gone. */
export function wakeQueueOf(tx: Tx, appNo: number, { memory }: Effects): Promise<number | null> {
  return remembered(memory, `queue of ${appNo}`, async () => {
    const [app] = await tx.query("SELECT queue_no FROM app WHERE no = :appNo", { appNo });
    return app === undefined ? null : Number(app.queue_no);
  });
}

/** Notes that a place of a workflow's may have become free. */
export function freePlace({ over }: Effects, { appNo, workflow }: WorkflowKey): void {
  over.set(`${appNo} ${workflow}`, { appNo, workflow });
}

/**
 * Carries effects out as the last act of a verb; answers the settles in order, and the numbers of `sends` (`null`: refused, the app
 * is gone). Results that a queue can't take now are kept for later; those of a queue that is gone are dropped and counted.
 */
export async function carryOut(tx: Tx, effects: Effects): Promise<{ settled: SettleResult[]; sent: (number | null)[] }> {
  const { settles, sends, results, removals, over, writes, memory } = effects;
  writeRuns(tx, writes);
  for (const { appNo, id } of await unpark(tx, [...over.values()], memory)) {
    const queueNo = await wakeQueueOf(tx, appNo, effects);
    if (queueNo !== null) sends.push(wakeUp(queueNo, id, "place"));
  }
  lockResultGroups(tx, results);
  const ready: RunResult[] = [];
  for (const result of results) if (!(await keepResult(tx, result, "behind"))) ready.push(result);
  const all = [...sends, ...ready.map(resultSend)];
  const answer = await runOwn(tx, { settles, sends: all });
  const outcome = answer.sends.map((row) => ("refused" in row ? row.refused : null));
  for (const [i, result] of ready.entries()) {
    const refused = outcome[sends.length + i];
    if (refused != null) await keepResult(tx, result, refused);
  }
  const timers = removals.map(({ queueNo, seq, runId }) => ({ queue_no: queueNo, seq, group_key: runId }));
  await remove(tx, timers, "message.delete", (row) => [row.seq, row.queue_no], null);
  return { settled: answer.settles, sent: answer.sends.slice(0, sends.length).map((row) => ("refused" in row ? null : row.seq)) };
}
