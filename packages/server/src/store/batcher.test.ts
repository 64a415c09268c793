import { Fault } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import { type Batcher, createBatcher } from "./batcher.ts";
import type { HotAnswer, HotBatch } from "./hot.ts";
import type { StoredSend } from "./send.ts";

const row = (text: string): StoredSend => ({
  queueNo: 1,
  body: Buffer.from(text),
  attributes: null,
  meta: null,
  groupKey: null,
  dedupId: null,
  delayMs: null,
});
const answerTo = (batch: HotBatch): HotAnswer => ({
  settles: batch.settles.map(() => ({ result: "acked" })),
  claims: batch.claims.map(() => ({ batches: [], nextInMs: null })),
  sends: batch.sends.map((_, i) => ({ seq: i + 1, sentAt: 1, deduplicated: false, deliverAt: 1 })),
  late: [],
});

/** A batcher over a database that the test answers for. */
function over(run: (batch: HotBatch) => Promise<HotAnswer>, more: { pendingRows?: number; pendingBytes?: number } = {}): Batcher {
  return createBatcher({
    lanes: [{ kinds: ["settle", "claim", "send", "other"], width: 1, rows: 100 }],
    run,
    isFull: (error) => error instanceof Error && error.message === "full",
    ...more,
  });
}

describe("group commit", () => {
  it("coalesces what waits into one transaction and answers each caller its own rows", async () => {
    const seen: number[] = [];
    const batcher = over(async (batch) => {
      seen.push(batch.sends.length);
      return answerTo(batch);
    });
    const results = await Promise.all([batcher.send([row("a")]), batcher.send([row("b"), row("c")]), batcher.send([row("d")])]);
    expect(seen).toEqual([4]);
    expect(results.map((list) => list.map((r) => ("seq" in r ? r.seq : 0)))).toEqual([[1], [2, 3], [4]]);
  });

  it("what waits is shared among the transactions that may begin, as long as each is worth one", async () => {
    const seen: number[] = [];
    const batcher = createBatcher({
      lanes: [{ kinds: ["send"], width: 3, rows: 20, leastShare: 4 }],
      run: async (batch) => {
        seen.push(batch.sends.length);
        return answerTo(batch);
      },
      isFull: () => false,
    });
    const sendsOf = async (callers: number): Promise<number[]> => {
      await Promise.all(Array.from({ length: callers }, () => batcher.send([row("a")])));
      return seen.splice(0);
    };
    expect(await sendsOf(4)).toEqual([4]);
    expect(await sendsOf(10)).toEqual([4, 4, 2]);
    expect(await sendsOf(30)).toEqual([10, 10, 10]);
    expect(await sendsOf(90)).toEqual([20, 20, 20, 10, 10, 10]);
  });

  it("a row that breaks its transaction fails alone: the others are stored", async () => {
    const batcher = over(async (batch) => {
      if (batch.sends.some(({ body }) => body.toString() === "poison")) throw new Error("bad row");
      return answerTo(batch);
    });
    const results = await Promise.allSettled(["a", "poison", "b"].map((text) => batcher.send([row(text)])));
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  });

  it("A4: what waits is bounded in rows and bytes; beyond it callers are told when to come back, and settles still pass", async () => {
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    for (const bound of [{ pendingRows: 3 }, { pendingBytes: 500 }]) {
      const batcher = over(async (batch) => {
        await held;
        return answerTo(batch);
      }, bound);
      const waiting = [1, 2, 3].map(() => batcher.send([row("x")]));
      const refused = await batcher.send([row("x"), row("y")]).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "overloaded", details: { retryAfterSeconds: 1 } });
      await expect(batcher.claim({ queueNo: 1, batchSize: 1, batches: 1, leaseMs: null })).rejects.toMatchObject({ code: "overloaded" });
      const settled = batcher.settle([{ queueNo: 1, seq: 1, receipt: 2, outcome: "ack" }]);
      release();
      await Promise.all([...waiting, settled]);
    }
  });

  it("Q2: a full disk refuses sends and still tries the settles beside them", async () => {
    const batcher = over(async (batch) => {
      if (batch.sends.length > 0) throw new Error("full");
      return answerTo(batch);
    });
    const [sent, settled] = await Promise.all([
      batcher.send([row("a")]),
      batcher.settle([{ queueNo: 1, seq: 1, receipt: 2, outcome: "ack" }]),
    ]);
    expect(sent).toEqual([{ refused: "backlog_full" }]);
    expect(settled).toEqual([{ result: "acked" }]);
  });

  it("a lost database rejects everybody with the same fault, and nothing is tried one by one", async () => {
    let runs = 0;
    const batcher = over(async () => {
      runs++;
      throw new Fault("unavailable", "away");
    });
    const results = await Promise.allSettled([batcher.send([row("a")]), batcher.send([row("b")])]);
    expect(results.every((r) => r.status === "rejected" && r.reason.code === "unavailable")).toBe(true);
    expect(runs).toBe(1);
  });

  it("the share of sends bounds each transaction without holding settles up", async () => {
    const seen: [sends: number, settles: number][] = [];
    const batcher = over(async (batch) => {
      seen.push([batch.sends.length, batch.settles.length]);
      return answerTo(batch);
    });
    batcher.setSendShare(2);
    await Promise.all([
      ...Array.from({ length: 6 }, () => batcher.send([row("x")])),
      batcher.settle([{ queueNo: 1, seq: 1, receipt: 2, outcome: "ack" }]),
    ]);
    expect(seen).toEqual([
      [2, 1],
      [2, 0],
      [2, 0],
    ]);
  });
});
