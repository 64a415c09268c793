/**
 * Group commit: everything that waits goes into one transaction, and each caller is answered after its commit. What waits is bounded;
 * beyond it callers are told to come back (A4). A batch that fails for one row's sake is tried again piece by piece, so that the
 * others don't suffer for it.
 */
import { Fault } from "@millrace/contract";
import type { StoredClaim } from "./claim.ts";
import type { HotAnswer, HotBatch } from "./hot.ts";
import type { StoredResult, StoredSend } from "./send.ts";
import type { HotSettle } from "./settle.ts";
import type { ClaimAsk, SettleResult } from "./types.ts";

/** Which verbs share transactions, and how many of these run at once. */
export interface LaneShape {
  kinds: readonly Work["kind"][];
  width: number;
  /** The most rows of one transaction; a claim counts the messages it asks for. */
  rows: number;
  /** Where several may begin, what waits is shared among them in parts of at least so many rows; unless given, the first takes all it can. */
  leastShare?: number;
}

export interface BatcherOptions {
  lanes: readonly LaneShape[];
  run: (batch: HotBatch) => Promise<HotAnswer>;
  /** Sees every failed transaction; `true` says that the disk is full. */
  isFull: (error: unknown) => boolean;
  /** The most bytes and rows that may wait. */
  pendingBytes?: number;
  pendingRows?: number;
}

type Work = {
  rows: number;
  bytes: number;
  reject: (error: unknown) => void;
} & (
  | { kind: "settle"; settles: HotSettle[]; resolve: (results: SettleResult[]) => void }
  | { kind: "claim"; ask: ClaimAsk; resolve: (claim: StoredClaim) => void }
  | { kind: "send"; sends: StoredSend[]; resolve: (results: StoredResult[]) => void }
  | { kind: "other"; run: () => Promise<void>; resolve: () => void }
);

export interface Batcher {
  settle(rows: HotSettle[]): Promise<SettleResult[]>;
  claim(ask: ClaimAsk): Promise<StoredClaim>;
  send(rows: StoredSend[]): Promise<StoredResult[]>;
  /** Runs something between two transactions of the lane that takes it, or at once where no lane does. */
  between<Result>(run: () => Promise<Result>): Promise<Result>;
  /** At most so many sent rows per transaction, `null` for no bound of its own: how deliveries that fall behind slow sending down. */
  setSendShare(rows: number | null): void;
  /** Resolves when nothing waits and nothing runs. */
  idle(): Promise<void>;
}

const PENDING_BYTES = 128 * 1024 * 1024;
const PENDING_ROWS = 100_000;
/** A row's weight besides its body. */
const ROW_BYTES = 200;

function batchOf(works: readonly Work[]): HotBatch {
  const batch: HotBatch = { settles: [], claims: [], sends: [] };
  for (const work of works) {
    if (work.kind === "settle") for (const row of work.settles) batch.settles.push(row);
    else if (work.kind === "claim") batch.claims.push(work.ask);
    else if (work.kind === "send") for (const row of work.sends) batch.sends.push(row);
  }
  return batch;
}

const overloaded = () =>
  new Fault("overloaded", "More is waiting to be stored than the server can take. Try again shortly.", { retryAfterSeconds: 1 });

/** A batcher over `run`. */
export function createBatcher(options: BatcherOptions): Batcher {
  const mostBytes = options.pendingBytes ?? PENDING_BYTES;
  const mostRows = options.pendingRows ?? PENDING_ROWS;
  let bytes = 0;
  let rows = 0;
  let share: number | null = null;
  let idlers: (() => void)[] = [];

  const lanes = options.lanes.map((shape) => ({ shape, waiting: [] as Work[], running: 0, woken: false }));
  type Lane = (typeof lanes)[number];
  const laneOf = new Map(lanes.flatMap((lane) => lane.shape.kinds.map((kind) => [kind, lane] as const)));

  const wake = (lane: Lane): void => {
    if (lane.woken) return;
    lane.woken = true;
    setImmediate(() => {
      lane.woken = false;
      while (lane.running < lane.shape.width && lane.waiting.length > 0) start(lane);
    });
  };

  const start = (lane: Lane): void => {
    const batch = take(lane);
    lane.running++;
    for (const work of batch) {
      rows -= work.rows;
      bytes -= work.bytes;
    }
    void runAll(batch).finally(() => {
      lane.running--;
      if (lane.waiting.length > 0) wake(lane);
      else if (lanes.every((each) => each.running === 0 && each.waiting.length === 0)) {
        for (const idler of idlers) idler();
        idlers = [];
      }
    });
  };

  /** How many rows the next transaction may take. Callers that were answered together come back together: one for all would leave the rest idle. */
  const mostOf = ({ shape, running, waiting }: Lane): number => {
    if (shape.leastShare === undefined) return shape.rows;
    const all = waiting.reduce((sum, work) => sum + work.rows, 0);
    return Math.min(shape.rows, Math.max(shape.leastShare, Math.ceil(all / (shape.width - running))));
  };

  /** The next transaction's work: in order of arrival, but other work alone, and sends no more than their share. */
  const take = (lane: Lane): Work[] => {
    if (lane.waiting[0]?.kind === "other") return [lane.waiting.shift() as Work];
    const batch: Work[] = [];
    const left: Work[] = [];
    const most = mostOf(lane);
    let taken = 0;
    let sent = 0;
    let closed = false;
    for (const work of lane.waiting) {
      const tooMuch = batch.length > 0 && taken + work.rows > most;
      const tooManySends = work.kind === "send" && share !== null && sent > 0 && sent + work.rows > share;
      if (work.kind === "other" || tooMuch) closed = true;
      if (closed || tooManySends) left.push(work);
      else {
        batch.push(work);
        taken += work.rows;
        if (work.kind === "send") sent += work.rows;
      }
    }
    lane.waiting = left;
    return batch;
  };

  const runAll = async (batch: Work[]): Promise<void> => {
    const [only] = batch;
    if (only?.kind === "other") return only.run();
    try {
      deliver(batch, await options.run(batchOf(batch)));
    } catch (error) {
      if (error instanceof Fault && error.code === "unavailable") for (const work of batch) work.reject(error);
      else if (options.isFull(error)) await withoutSends(batch);
      else if (batch.length === 1) only?.reject(error);
      else for (const work of batch) await runAll([work]);
    }
  };

  /** A full disk takes no sends; receiving and acknowledging free space, so they are still tried. */
  const withoutSends = async (batch: Work[]): Promise<void> => {
    const others: Work[] = [];
    for (const work of batch) {
      if (work.kind === "send") work.resolve(work.sends.map(() => ({ refused: "backlog_full" })));
      else others.push(work);
    }
    if (others.length === 0) return;
    try {
      deliver(others, await options.run(batchOf(others)));
    } catch {
      const fault = new Fault("unavailable", "The disk is full.", { retryAfterSeconds: 5 });
      for (const work of others) work.reject(fault);
    }
  };

  const deliver = (batch: Work[], answer: HotAnswer): void => {
    let settled = 0;
    let claimed = 0;
    let sent = 0;
    for (const work of batch) {
      if (work.kind === "settle") {
        work.resolve(answer.settles.slice(settled, settled + work.rows));
        settled += work.rows;
      } else if (work.kind === "claim") {
        work.resolve(answer.claims[claimed++] as StoredClaim);
      } else if (work.kind === "send") {
        work.resolve(answer.sends.slice(sent, sent + work.rows));
        sent += work.rows;
      }
    }
    if (answer.late.length > 0) {
      const late = answer.late.map((row): HotSettle => ({ ...row, outcome: "expire" }));
      // Nobody waits for these: what fails here is swept when its lease ends.
      put({ kind: "settle", settles: late, rows: late.length, bytes: 0, resolve: () => {}, reject: () => {} });
    }
  };

  const put = (work: Work): void => {
    const lane = laneOf.get(work.kind);
    if (lane === undefined) throw new Error(`No lane takes ${work.kind}.`);
    rows += work.rows;
    bytes += work.bytes;
    lane.waiting.push(work);
    if (lane.running < lane.shape.width) wake(lane);
  };
  /** Acknowledgements are let in beyond the bound that sends and claims keep: they free what is held. */
  const isFree = (work: number, factor: number) => rows + work <= mostRows * factor && bytes <= mostBytes * factor;

  return {
    settle: (settles) =>
      new Promise((resolve, reject) => {
        if (settles.length === 0) resolve([]);
        else if (!isFree(settles.length, 2)) reject(overloaded());
        else put({ kind: "settle", settles, rows: settles.length, bytes: settles.length * ROW_BYTES, resolve, reject });
      }),
    claim: (ask) =>
      new Promise((resolve, reject) => {
        const size = Math.min(ask.batches * ask.batchSize, 1000);
        if (!isFree(size, 1)) reject(overloaded());
        else put({ kind: "claim", ask, rows: size, bytes: ROW_BYTES, resolve, reject });
      }),
    send: (sends) =>
      new Promise((resolve, reject) => {
        const weight = sends.reduce((sum, row) => sum + ROW_BYTES + row.body.length + (row.attributes?.length ?? 0), 0);
        if (sends.length === 0) resolve([]);
        else if (!isFree(sends.length, 1)) reject(overloaded());
        else put({ kind: "send", sends, rows: sends.length, bytes: weight, resolve, reject });
      }),
    between: (run) => {
      if (!lanes.some(({ shape }) => shape.kinds.includes("other"))) return run();
      return new Promise((resolve, reject) => {
        const own = async () => {
          try {
            resolve(await run());
          } catch (error) {
            reject(error);
          }
        };
        put({ kind: "other", run: own, rows: 1, bytes: 0, resolve: () => {}, reject });
      });
    },
    setSendShare: (most) => {
      share = most;
    },
    idle: () =>
      new Promise((resolve) => {
        if (lanes.every(({ running, waiting }) => running === 0 && waiting.length === 0)) resolve();
        else idlers.push(resolve);
      }),
  };
}
