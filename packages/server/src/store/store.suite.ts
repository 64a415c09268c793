/** What the store promises, through its whole length (batcher, worker, database), on one engine. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { postgres, scratch } from "@millrace/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { defaults } from "./engines.suite.ts";
import { type OpenStore, openStore } from "./open.ts";
import type { ClaimedMessage, QueueSettings, SendRow, SettleRow } from "./types.ts";

/** The tests of one engine. */
export function storeSuite(kind: "sqlite" | "postgres"): void {
  describe(`the store on ${kind}`, () => {
    const clock = createClock({ frozen: true });
    let url: string;
    let store: OpenStore;
    let projectNo: number;
    let made = 0;

    beforeAll(async () => {
      url = kind === "sqlite" ? join(scratch("store").path, "store.db") : await (await postgres()).fresh();
      store = await openStore({ url, clock });
      const organization = await store.run("createOrganization", { id: randomUUID(), name: "o" });
      const given = { id: randomUUID(), environmentId: randomUUID(), name: "p", organizationNo: organization.no };
      projectNo = (await store.run("createProject", given)).no;
    });
    afterAll(() => store.close());

    const queue = async (settings: Partial<QueueSettings> = {}, type: "standard" | "fifo" = "standard"): Promise<number> => {
      const name = `q${++made}`;
      const row = {
        id: randomUUID(),
        resourceName: `que_${String(made).padStart(12, "0")}`,
        projectNo,
        environment: "production",
        name,
        type,
      };
      return (await store.run("createQueue", { ...row, settings: { ...defaults, ...settings }, source: "api" as const })).no;
    };
    const send = async (queueNo: number, ...rows: Partial<Omit<SendRow, "body"> & { body: string }>[]) => {
      const results = await store.send(
        rows.map(({ body = "x", ...row }) => ({
          queueNo,
          attributes: null,
          meta: null,
          groupKey: null,
          dedupId: null,
          delayMs: null,
          ...row,
          body: Buffer.from(body),
        })),
      );
      return results.map((result) => {
        if ("refused" in result) throw new Error(result.refused);
        return result;
      });
    };
    const claim = async (queueNo: number, batchSize = 10, leaseMs: number | null = 30_000): Promise<ClaimedMessage[]> =>
      (await store.claim({ queueNo, batchSize, batches: 1, leaseMs })).batches.flat();
    const settle = async (queueNo: number, messages: ClaimedMessage[], outcome: SettleRow["outcome"], extra: Partial<SettleRow> = {}) =>
      (await store.settle(messages.map(({ seq, receipt }) => ({ queueNo, seq, receipt, outcome, ...extra })))).map(({ result }) => result);
    const texts = (messages: ClaimedMessage[]) => messages.map((m) => Buffer.from(m.body).toString());
    const sweep = async () => {
      await store.run("sweepLapsed", 1000);
      await store.run("sweepExpired", 1000);
    };
    const stats = (no: number) => store.run("stats", no);

    it("Q8, LEASE-02, LEASE-04: a receipt works once and only while its lease runs", async () => {
      const no = await queue({}, "fifo");
      await send(no, { groupKey: "g", body: "1" }, { groupKey: "g", body: "2" });
      const [first] = (await claim(no, 1, 2_000)) as [ClaimedMessage];
      clock.advance(2_001);
      expect(await settle(no, [first], "ack")).toEqual(["stale"]);
      const [again] = (await claim(no, 1)) as [ClaimedMessage];
      expect([texts([again]), again.receives]).toEqual([["1"], 2]);
      const acks = await Promise.all([settle(no, [again], "ack"), settle(no, [again], "ack"), settle(no, [first], "ack")]);
      expect(acks.flat().sort()).toEqual(["acked", "gone", "gone"]);
      expect(texts(await claim(no))).toEqual(["2"]);
      expect((await stats(no)).acknowledged).toBe(1);
    });

    it("LEASE-07: a delayed message is first handed out when its delay ends, once", async () => {
      const no = await queue({ visibilityTimeoutMs: 2_000 });
      await send(no, { delayMs: 10_000 });
      const empty = await store.claim({ queueNo: no, batchSize: 1, batches: 1, leaseMs: null });
      expect(empty.batches).toEqual([]);
      expect(Math.abs((empty.nextInMs as number) - 10_000)).toBeLessThan(1_000);
      clock.advance(8_000);
      expect(await claim(no)).toEqual([]);
      clock.advance(2_001);
      const got = (await Promise.all([claim(no), claim(no), claim(no), claim(no)])).flat();
      expect(got.map((m) => m.receives)).toEqual([1]);
    });

    it("Q9, FIFO-01, FIFO-02: a group is closed while one of its messages is in flight, and comes back in order", async () => {
      const no = await queue({}, "fifo");
      await send(no, { groupKey: "g", body: "1" }, { groupKey: "g", body: "2" });
      const both = await claim(no, 10, 5_000);
      expect(texts(both)).toEqual(["1", "2"]);
      await send(no, { groupKey: "g", body: "3" }, { groupKey: "h", body: "other" });
      expect(texts(await claim(no))).toEqual(["other"]);
      clock.advance(5_001);
      const order: string[] = [];
      for (let got = await claim(no); got.length > 0; got = await claim(no)) {
        order.push(...texts(got));
        await settle(no, got, "ack");
      }
      expect(order).toEqual(["1", "2", "3"]);
    });

    it("Q9: a message whose first delivery time has not come does not block its group, one that waits for a retry does", async () => {
      const no = await queue({}, "fifo");
      await send(no, { groupKey: "g", body: "later", delayMs: 60_000 }, { groupKey: "g", body: "now" });
      const [now] = (await claim(no)) as [ClaimedMessage];
      expect(texts([now])).toEqual(["now"]);
      expect(await settle(no, [now], "retry", { delayMs: 90_000 })).toEqual(["retrying"]);
      clock.advance(60_001);
      expect(await claim(no)).toEqual([]);
      clock.advance(30_001);
      const [first] = await claim(no);
      expect(texts([first as ClaimedMessage])).toEqual(["later"]);
    });

    it("P10: a head that was attempted before comes alone until it is done, and its followers keep their attempts", async () => {
      const no = await queue({ maxAttempts: 5, deadLetter: "list" });
      await send(no, ...["a", "b", "c"].map((body) => ({ groupKey: "g", body })));
      const all = await claim(no);
      expect(texts(all)).toEqual(["a", "b", "c"]);
      await settle(no, all.slice(0, 1), "retry", { delayMs: 100 });
      await settle(no, all.slice(1), "release", { delayMs: 100 });
      clock.advance(101);
      const [head, ...rest] = await claim(no);
      expect([texts([head as ClaimedMessage]), head?.attempts, rest]).toEqual([["a"], 2, []]);
      await settle(no, [head as ClaimedMessage], "ack");
      expect((await claim(no)).map((m) => [m.attempts, m.receives])).toEqual([
        [1, 2],
        [1, 2],
      ]);
    });

    it("Q10, Q9: of 200 groups each is served once per 200 claims, beside a hot one", async () => {
      const no = await queue();
      await send(no, ...Array.from({ length: 300 }, (_, i) => ({ groupKey: "hot", body: `hot ${i}` })));
      await send(no, ...Array.from({ length: 200 }, (_, i) => ({ groupKey: `g${i}`, body: `g${i}` })));
      clock.advance(1);
      const seen = new Set<string>();
      for (let claims = 0; claims < 201; claims++) {
        const got = await claim(no, 1);
        for (const m of got) seen.add(m.groupKey as string);
        await settle(no, got, "ack");
        // Places in the line are told apart by the millisecond.
        clock.advance(1);
      }
      expect(seen.size).toBe(201);
    });

    it("Q11, FIFO-07: a repeated deduplication id is answered with the first message, also after an ack, a purge and a restart", async () => {
      const no = await queue({ deduplicationWindowMs: 60_000 });
      const [first] = await send(no, { dedupId: "X" });
      await settle(no, await claim(no), "ack");
      await store.run("purge", no, "all", null, 100);
      await store.close();
      store = await openStore({ url, clock });
      const [again] = await send(no, { dedupId: "X", body: "another body" });
      expect(again).toEqual({ ...first, deduplicated: true });
      expect((await stats(no)).ready).toBe(0);
      clock.advance(60_001);
      const [fresh] = await send(no, { dedupId: "X" });
      expect(fresh?.deduplicated).toBe(false);
    });

    it("Q13, FIFO-05, DLQ-05: the last failed attempt moves a message whole, past deduplication, and its group flows on", async () => {
      const target = await queue({}, "fifo");
      const no = await queue({ maxAttempts: 3, deadLetter: "queue", deadLetterNo: target }, "fifo");
      const body = `\r\n😀${"z".repeat(200_000)}`;
      const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`name-${i}`, `wert\n😀 ${i}`]));
      await send(target, { dedupId: "same", groupKey: "g" });
      const [sent] = await send(no, { groupKey: "g", dedupId: "same", body, attributes }, { groupKey: "g", body: "next" });
      for (let attempt = 1; attempt <= 3; attempt++) {
        const [head] = (await claim(no, 1)) as [ClaimedMessage];
        expect(head.attempts).toBe(attempt);
        const expected = attempt < 3 ? "retrying" : "dead";
        expect(await settle(no, [head], "retry", { error: `failure ${attempt}` })).toEqual([expected]);
      }
      expect(texts(await claim(no))).toEqual(["next"]);
      await settle(target, await claim(target, 1), "ack");
      const [letter] = (await claim(target, 1)) as [ClaimedMessage];
      expect(letter).toMatchObject({ messageId: sent?.messageId, groupKey: "g", attributes, receives: 1, attempts: 1 });
      expect(texts([letter])).toEqual([body]);
      expect(await store.run("getMessage", target, letter.messageId)).toMatchObject({ lastError: "failure 3", sourceNo: no });
    });

    it("DLQ-03: a redriven message starts again with fresh attempts and stays", async () => {
      const target = await queue();
      const no = await queue({ maxAttempts: 1, deadLetter: "queue", deadLetterNo: target });
      const [sent] = await send(no, {});
      await settle(no, await claim(no), "retry");
      await store.run("startRedrive", { id: randomUUID(), queueNo: target, messageIds: null, ratePerSecond: null });
      for (let step = 0; step < 5; step++) await store.run("stepRedrive");
      const got = await claim(no);
      expect(got.map((m) => [m.messageId, m.receives])).toEqual([[sent?.messageId, 1]]);
      expect(await settle(no, got, "ack")).toEqual(["acked"]);
      expect(await claim(target)).toEqual([]);
    });

    it("Q13, P23: a last attempt that nobody answers is dead-lettered by the sweep, without a receive", async () => {
      const no = await queue({ maxAttempts: 1, deadLetter: "list" });
      await send(no, {});
      await claim(no, 1, 1_000);
      clock.advance(1_001);
      expect(await claim(no)).toEqual([]);
      await sweep();
      expect(await stats(no)).toMatchObject({ dead: 1, ready: 0, inflight: 0, deadLettered: 1 });
      const { messages } = await store.run("peekMessages", no, { state: "dead", after: null, limit: 10, bodyBytes: null });
      expect(messages).toHaveLength(1);
    });

    it("Q8, Q18: a lease past the retention can be acknowledged; a failure then deletes instead of dead-lettering", async () => {
      const no = await queue({ retentionMs: 60_000, maxAttempts: 1, deadLetter: "list" });
      await send(no, {}, {}, {});
      const [a, b] = (await claim(no, 2, 90_000)) as [ClaimedMessage, ClaimedMessage];
      clock.advance(61_000);
      await sweep();
      expect((await stats(no)).inflight).toBe(2);
      expect(await settle(no, [a], "ack")).toEqual(["acked"]);
      expect(await settle(no, [b], "retry")).toEqual(["expired"]);
      expect(await stats(no)).toMatchObject({ dead: 0, ready: 0, expired: 2, acknowledged: 1 });
    });

    it("Q15: a purge removes everything or the dead alone, counts it, and lets nothing block a group", async () => {
      const no = await queue({ maxAttempts: 1, deadLetter: "list" });
      await send(no, ...Array.from({ length: 25 }, (_, i) => ({ groupKey: `g${i % 3}` })));
      await settle(no, await claim(no, 3), "dead");
      expect(await store.run("purge", no, "dead", null, 100)).toMatchObject({ purged: 3, done: true });
      await claim(no, 2);
      let purged = 0;
      for (let upto: number | null = null, done = false; !done; ) {
        const step: { purged: number; uptoSeq: number; done: boolean } = await store.run("purge", no, "all", upto, 10);
        ({ uptoSeq: upto, done } = step);
        purged += step.purged;
      }
      expect(purged).toBe(22);
      await send(no, { groupKey: "g0" }, { groupKey: "g1" });
      expect(await claim(no)).toHaveLength(2);
    });

    it("Q16: a paused queue hands nothing out, takes sends and settles, and tells when it goes on", async () => {
      const no = await queue();
      await send(no, {});
      const held = await claim(no);
      await store.run("updateQueue", no, { paused: true });
      await send(no, { body: "while paused" });
      expect(await store.claim({ queueNo: no, batchSize: 1, batches: 1, leaseMs: null })).toEqual({ batches: [], nextInMs: null });
      expect(await settle(no, held, "ack")).toEqual(["acked"]);
      const told = new Promise<number>((resolve) => {
        const stop = store.onReady((queueNo, inMs) => {
          if (queueNo !== no) return;
          stop();
          resolve(inMs);
        });
      });
      await store.run("updateQueue", no, { paused: false });
      expect(await told).toBe(0);
      expect(texts(await claim(no))).toEqual(["while paused"]);
    });

    it("Q19: a limit of two holds over claims, and a lapse, an ack and a deletion each free a slot", async () => {
      const no = await queue({ groupConcurrency: 2 });
      await send(no, ...Array.from({ length: 8 }, (_, i) => ({ groupKey: "g", body: String(i) })), { body: "loose" });
      const two = (await claim(no, 10, 5_000)).filter((m) => m.groupKey === "g");
      expect(two).toHaveLength(2);
      expect(await claim(no)).toEqual([]);
      await settle(no, two.slice(0, 1), "ack");
      const third = await claim(no, 10, 5_000);
      expect(third).toHaveLength(1);
      await store.run("deleteMessage", no, (third[0] as ClaimedMessage).messageId);
      expect(await claim(no, 10, 5_000)).toHaveLength(1);
      clock.advance(5_001);
      expect((await claim(no, 10, 5_000)).filter((m) => m.groupKey === "g")).toHaveLength(2);
    });

    it("Q19: without a limit each ready group gets its share, and messages without a group are one", async () => {
      const no = await queue({ groupConcurrency: null });
      await send(no, ...Array.from({ length: 40 }, () => ({ groupKey: "hot" })), ...Array.from({ length: 40 }, () => ({})), {
        groupKey: "rare",
      });
      const got = await claim(no, 9);
      const shares = ["hot", null, "rare"].map((group) => got.filter((m) => m.groupKey === group).length);
      expect(got).toHaveLength(9);
      expect(shares).toEqual([4, 4, 1]);
    });

    it("Q19: another meaning of groups takes hold at once, for what is queued and in flight", async () => {
      const no = await queue({ groupConcurrency: null });
      await send(no, ...Array.from({ length: 6 }, () => ({ groupKey: "g" })), {}, {});
      await claim(no, 3);
      await store.run("updateQueue", no, { groupConcurrency: 1 });
      expect((await claim(no)).every((m) => m.groupKey === null)).toBe(true);
      await store.run("updateQueue", no, { groupConcurrency: 1000 });
      expect((await claim(no, 20)).filter((m) => m.groupKey === "g").length).toBeGreaterThan(0);
    });

    it("Q12: an idempotency key is stored with its effect, answered again, and refused to another request", async () => {
      const no = await queue();
      const key = { scope: `p send ${no}`, key: "k", hash: "h" };
      const row: SendRow = {
        queueNo: no,
        body: Buffer.from("once"),
        attributes: null,
        meta: null,
        groupKey: null,
        dedupId: null,
        delayMs: null,
      };
      const answers = await Promise.all(Array.from({ length: 5 }, () => store.once(key, "sendMessages", [row])));
      expect(new Set(answers.map(({ result }) => JSON.stringify(result))).size).toBe(1);
      expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
      expect((await stats(no)).sent).toBe(1);
      await expect(store.once({ ...key, hash: "other" }, "sendMessages", [row])).rejects.toMatchObject({ code: "idempotency_conflict" });
      const failed = { ...key, key: "failed" };
      await expect(store.once(failed, "sendMessages", [{ ...row, queueNo: 999_999 }])).rejects.toMatchObject({ code: "queue_not_found" });
      expect((await store.once(failed, "sendMessages", [row])).replayed).toBe(false);
      clock.advance(48 * 3_600_000 + 1);
      expect((await store.once({ ...key, hash: "other" }, "sendMessages", [row])).replayed).toBe(false);
    });

    it("Q3: bodies and attributes of every kind come back byte for byte", async () => {
      const no = await queue();
      const bodies = [Buffer.alloc(0), Buffer.from([0, 255, 128, 10, 13]), Buffer.from("😀\u2028\u0000"), Buffer.alloc(70_000, 7)];
      const attributes = { __proto__x: "1", constructor: "2", "": "", ü: "\r\n" };
      await store.send(
        bodies.map((body) => ({
          queueNo: no,
          body,
          attributes,
          meta: { contentType: "x/y" },
          groupKey: null,
          dedupId: null,
          delayMs: null,
        })),
      );
      const got = await claim(no);
      expect(got.map((m) => Buffer.from(m.body).toString("hex"))).toEqual(bodies.map((body) => body.toString("hex")));
      expect(got.every((m) => JSON.stringify(m.attributes) === JSON.stringify(attributes) && m.meta?.contentType === "x/y")).toBe(true);
    });

    it("P23: a claim that is lost with its process comes back when its lease ends", async () => {
      const no = await queue();
      await send(no, {});
      await claim(no, 1, 4_000);
      await store.close();
      store = await openStore({ url, clock });
      expect(await claim(no)).toEqual([]);
      clock.advance(4_001);
      expect((await claim(no)).map((m) => m.receives)).toEqual([2]);
    });
  });
}
