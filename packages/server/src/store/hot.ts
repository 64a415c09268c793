/** The hot verbs of many callers as one transaction: settles, then claims, then sends, after all the locks that these need. */
import type { Tx } from "../db/db.ts";
import { claim, type Late, type StoredClaim } from "./claim.ts";
import { holdFences } from "./fence.ts";
import { lockQueues } from "./group.ts";
import { readQueues } from "./queue-memory.ts";
import { holdQuotas } from "./quota.ts";
import { queuesToLock as locksOfSend, quotasOfSend, type StoredResult, type StoredSend, send } from "./send.ts";
import { type HotSettle, queuesToLock as locksOfSettle, settle } from "./settle.ts";
import { type Tally, writeTally } from "./tally.ts";
import type { ClaimAsk, SettleResult } from "./types.ts";

export interface HotBatch {
  settles: HotSettle[];
  claims: ClaimAsk[];
  sends: StoredSend[];
}
export interface HotAnswer {
  settles: SettleResult[];
  claims: StoredClaim[];
  sends: StoredResult[];
  /** What was found expired while it was claimed: the caller settles it with `expire` in another transaction. */
  late: Late[];
}

/** Random even numbers below 2^49: the receipts of one portion of a claim. */
export const drawReceipt =
  (random: () => number): (() => number) =>
  () =>
    2 * Math.floor(random() * 2 ** 48) + 2;

/** Runs a batch of clients. `random` answers numbers from 0 to 1. */
export const runHot = (tx: Tx, batch: HotBatch, random: () => number): Promise<HotAnswer> => runBatch(tx, batch, random, true);

/** Settles and sends for the server itself, which goes by no quota: in the caller's transaction, after its other locks. */
export const runOwn = (tx: Tx, { settles, sends }: Pick<HotBatch, "settles" | "sends">): Promise<HotAnswer> =>
  runBatch(tx, { settles, claims: [], sends }, () => 0, false);

async function runBatch(tx: Tx, batch: HotBatch, random: () => number, ofClients: boolean): Promise<HotAnswer> {
  const { settles, claims, sends } = batch;
  const nos = new Set<number>();
  for (const row of settles) nos.add(row.queueNo);
  for (const ask of claims) nos.add(ask.queueNo);
  for (const row of sends) nos.add(row.queueNo);
  const queues = await readQueues(tx, nos);
  const tally: Tally = new Map();
  const fenced = holdFences(
    tx,
    claims.map(({ fence }) => fence),
  );
  // Who fails first is told; this one is asked for below.
  fenced.catch(() => {});
  const quotas = ofClients ? await holdQuotas(tx, quotasOfSend(sends, queues)) : undefined;
  lockQueues(tx, [...locksOfSettle(settles, queues), ...locksOfSend(sends, queues)]);
  const answer: HotAnswer = { settles: [], claims: [], sends: [], late: [] };
  if (settles.length > 0) answer.settles = await settle(tx, settles, queues, tally);
  if (claims.length > 0) {
    const claimed = await claim(tx, claims, queues, drawReceipt(random));
    answer.claims = claimed.claims;
    answer.late = claimed.late;
  }
  await fenced;
  if (sends.length > 0) answer.sends = await send(tx, sends, queues, tally, quotas);
  writeTally(tx, tally);
  return answer;
}
