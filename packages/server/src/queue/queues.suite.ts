/** Queues through their handlers, on either engine: Q1, Q2, Q13's refusals, Q15, Q16. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Caller } from "../identity/caller.ts";
import { faultOf, type Ground, openWorld, type World } from "./world.suite.ts";

/** Declares the suite for one ground. */
export function queuesSuite(engine: Ground): void {
  describe(`queues on ${engine}`, () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld(engine);
    });
    beforeEach(() => world.fresh());
    afterAll(() => world.close());

    const create = (name: string, settings: Record<string, unknown> = {}) => world.call("CreateQueue", {}, { name, ...settings });
    const reject = (call: Promise<unknown>) => faultOf(call);

    it("Q1, Q2: a queue has its names, its type, its times and the defaults of this door", async () => {
      const queue = await create("orders");
      expect(queue).toMatchObject({
        name: "orders",
        type: "standard",
        visibilityTimeoutSeconds: 60,
        retentionSeconds: 345_600,
        delaySeconds: 0,
        redrivePolicy: null,
        deadLetter: null,
        maxAttempts: null,
        retryBackoffMinSeconds: null,
        retryBackoffMaxSeconds: null,
        deduplicationWindowSeconds: 300,
        contentBasedDeduplication: false,
        rateLimit: null,
        groups: { concurrency: 1 },
        maxBytes: null,
        paused: false,
        source: "api",
      });
      expect(Date.parse(queue.createdAt) - world.clock.now()).toBeGreaterThanOrEqual(0);
      expect(Date.parse(queue.createdAt) - world.clock.now()).toBeLessThanOrEqual(world.slackMs);
      expect(queue.updatedAt).toBe(queue.createdAt);
      expect(queue.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(queue.resourceName).toMatch(/^que_[a-z0-9]{12}$/);
      for (const queueId of [queue.id, queue.resourceName, "orders"]) expect(await world.call("GetQueue", { queueId })).toEqual(queue);
    });

    it("Q1: a name is taken once in its environment, letter for letter", async () => {
      await create("orders");
      expect(await reject(create("orders"))).toMatchObject({ code: "queue_exists", status: 409 });
      await create("Orders");
      expect((await world.call("GetQueue", { queueId: "Orders" })).name).toBe("Orders");
      expect((await reject(world.call("GetQueue", { queueId: "ORDERS" }))).code).toBe("queue_not_found");
    });

    it("Q1: a deleted queue's name can be taken again, and nothing of the old queue is in the new one", async () => {
      const first = await create("orders");
      const [sent] = (await world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "old", dedupId: "d" }] })).messages;
      const before = await world.room.findQueue(world.projectNo, "orders");
      await world.call("DeleteQueue", { queueId: "orders" });
      const second = await create("orders");
      expect(second.id).not.toBe(first.id);
      const after = await world.room.findQueue(world.projectNo, "orders");
      expect(after?.no).toBeGreaterThan(before?.no as number);
      expect(await world.call("ReceiveMessages", { queueId: "orders" }, {})).toEqual({ messages: [] });
      const again = await world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "new", dedupId: "d" }] });
      expect(again.messages[0]).not.toHaveProperty("deduplicated", true);
      expect(again.messages[0]?.messageId).not.toBe(sent?.messageId);
    });

    it("Q2: settings are kept as given, and an update changes what it names alone", async () => {
      const given = {
        visibilityTimeoutSeconds: 43_200,
        retentionSeconds: 60,
        delaySeconds: 31_536_000,
        retryBackoffMinSeconds: 2,
        retryBackoffMaxSeconds: 2,
        deduplicationWindowSeconds: 0,
        contentBasedDeduplication: true,
        rateLimit: { count: 5, periodSeconds: 60 },
        groups: { concurrency: null },
        maxBytes: 10_000,
        paused: true,
      };
      expect(await create("orders", given)).toMatchObject(given);
      await world.pass(1000);
      const updated = await world.call(
        "UpdateQueue",
        { queueId: "orders" },
        { rateLimit: null, retryBackoffMinSeconds: null, paused: false },
      );
      expect(updated).toMatchObject({ ...given, rateLimit: null, retryBackoffMinSeconds: null, paused: false });
      expect(Date.parse(updated.updatedAt) - Date.parse(updated.createdAt)).toBeGreaterThanOrEqual(1000);
      expect(await world.call("GetQueue", { queueId: "orders" })).toEqual(updated);
    });

    it("Q2: a smallest backoff above the largest is refused, also when they come in two requests", async () => {
      const bad = await reject(create("orders", { retryBackoffMinSeconds: 3, retryBackoffMaxSeconds: 2 }));
      expect(bad).toMatchObject({
        code: "invalid_request",
        details: { path: "retryBackoffMinSeconds", bound: "at most retryBackoffMaxSeconds" },
      });
      await create("orders", { retryBackoffMaxSeconds: 2 });
      expect((await reject(world.call("UpdateQueue", { queueId: "orders" }, { retryBackoffMinSeconds: 3 }))).code).toBe("invalid_request");
      expect((await world.call("GetQueue", { queueId: "orders" })).retryBackoffMinSeconds).toBeNull();
    });

    it("Q19: a FIFO queue's groups go one message at a time, and no setting can change that", async () => {
      const path = "groups.concurrency";
      for (const concurrency of [2, null])
        expect(await reject(create("f", { type: "fifo", groups: { concurrency } }))).toMatchObject({
          code: "invalid_request",
          details: { path },
        });
      expect((await create("f", { type: "fifo", groups: { concurrency: 1 } })).groups).toEqual({ concurrency: 1 });
      expect((await reject(world.call("UpdateQueue", { queueId: "f" }, { groups: { concurrency: 5 } }))).code).toBe("invalid_request");
    });

    it("Q13: a redrive policy names its queue in three ways, and null removes it with its limit", async () => {
      const dead = await create("dead");
      for (const deadLetterQueueId of [dead.id, dead.resourceName, "dead"]) {
        const queue = await create(`q-${deadLetterQueueId.length}`, { redrivePolicy: { deadLetterQueueId, maxReceiveCount: 1000 } });
        expect(queue).toMatchObject({
          redrivePolicy: { deadLetterQueueId: dead.id, maxReceiveCount: 1000 },
          deadLetter: "queue",
          maxAttempts: 1000,
        });
      }
      expect(await world.call("UpdateQueue", { queueId: "q-4" }, { redrivePolicy: null })).toMatchObject({
        redrivePolicy: null,
        deadLetter: null,
        maxAttempts: null,
      });
    });

    it("Q13: a dead-letter queue is another queue, exists, ends no circle, and is FIFO for a FIFO queue", async () => {
      const policy = (deadLetterQueueId: string) => ({ redrivePolicy: { deadLetterQueueId, maxReceiveCount: 1 } });
      await create("a");
      await create("b", policy("a"));
      await create("c", policy("b"));
      const path = "redrivePolicy.deadLetterQueueId";
      const update = (queueId: string, to: string) => reject(world.call("UpdateQueue", { queueId }, policy(to)));
      expect(await update("a", "a")).toMatchObject({ code: "invalid_request", details: { path } });
      expect(await update("a", "c")).toMatchObject({ code: "invalid_request", details: { path } });
      expect(await update("a", "nowhere")).toMatchObject({ code: "queue_not_found", details: { path } });
      expect((await world.call("GetQueue", { queueId: "a" })).redrivePolicy).toBeNull();
      expect(await reject(create("f", { type: "fifo", ...policy("a") }))).toMatchObject({ code: "invalid_request", details: { path } });
      await create("fifo-dead", { type: "fifo" });
      expect((await create("f", { type: "fifo", ...policy("fifo-dead") })).type).toBe("fifo");
    });

    it("Q13, DLQ-01: a queue that holds another's dead letters cannot be deleted until the policy goes", async () => {
      await create("dead");
      await create("orders", { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 1 } });
      expect(await reject(world.call("DeleteQueue", { queueId: "dead" }))).toMatchObject({ code: "queue_in_use", status: 409 });
      await world.call("UpdateQueue", { queueId: "orders" }, { redrivePolicy: null });
      await world.call("DeleteQueue", { queueId: "dead" });
      expect((await reject(world.call("GetQueue", { queueId: "dead" }))).code).toBe("queue_not_found");
    });

    it("a list goes by name in pages that neither repeat nor skip while queues come and go, and shows only what the key reaches", async () => {
      for (const name of ["a", "b", "c", "d", "e"]) await create(name);
      const page = async (cursor?: string, caller?: Caller) => {
        const answer = await world.call("ListQueues", {}, undefined, {
          query: { limit: "2", ...(cursor === undefined ? {} : { cursor }) },
          caller,
        });
        return {
          names: (answer.queues as { name: string }[]).map(({ name }) => name),
          next: (answer.nextCursor as string | null) ?? undefined,
        };
      };
      const first = await page();
      expect(first.names).toEqual(["a", "b"]);
      await world.call("DeleteQueue", { queueId: "a" });
      await create("aa");
      const second = await page(first.next);
      const third = await page(second.next);
      expect([...second.names, ...third.names]).toEqual(["c", "d", "e"]);
      expect(third.next).toBeUndefined();
      const narrow: Caller = {
        keyId: "n",
        keyName: "narrow",
        projectNo: null,
        within: null,
        statements: [{ allow: ["queues.*"], on: [`${world.within}/queues/d`] }],
      };
      expect(await page(undefined, narrow)).toEqual({ names: ["d"], next: undefined });
      expect((await reject(world.call("CreateQueue", {}, { name: "x" }, { caller: narrow }))).code).toBe("permission_denied");
      const other = { redrivePolicy: { deadLetterQueueId: "e", maxReceiveCount: 1 } };
      expect((await reject(world.call("UpdateQueue", { queueId: "d" }, other, { caller: narrow }))).code).toBe("queue_not_found");
    });

    it("Q12: the same key makes one queue and answers it again", async () => {
      const key = { scope: `CreateQueue ${world.within}`, key: "k", hash: "h" };
      const first = await world.call("CreateQueue", {}, { name: "orders" }, { key });
      expect(await world.call("CreateQueue", {}, { name: "orders" }, { key })).toEqual(first);
    });

    it("Q15: deleting a queue takes its messages, its memory of sends and its counts, bit by bit and out of reach at once", async () => {
      await create("orders");
      const messages = Array.from({ length: 10 }, (_, i) => ({ body: "x", dedupId: `d${i}` }));
      for (let i = 0; i < 3; i++) {
        await world.call(
          "SendMessages",
          { queueId: "orders" },
          { messages: messages.map((m) => ({ ...m, dedupId: `${m.dedupId}-${i}` })) },
        );
      }
      const held = await world.call("ReceiveMessages", { queueId: "orders" }, {});
      const queue = await world.room.findQueue(world.projectNo, "orders");
      await world.call("DeleteQueue", { queueId: "orders" });
      expect((await reject(world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "x" }] }))).code).toBe("queue_not_found");
      await world.pass(0);
      const left = ["message", "dedup", "tally"]
        .map((table) => `(SELECT count(*) FROM ${table} WHERE queue_no = ${queue?.no})`)
        .join(" + ");
      expect(await world.count(`SELECT ${left} AS n`)).toBe(0);
      // An outcome of a delivery under way is dropped quietly.
      expect(held.messages).toHaveLength(1);
      const settled = await world.room.messages.ack(queue as never, [held.messages[0]?.receipt as string]);
      expect(settled.results[0]).toMatchObject({ ok: false, code: "message_not_found" });
    });

    it("Q15: a large queue is gone at once, and its rows go in parts of a thousand, none left behind", async () => {
      await create("large");
      const queueNo = (await world.room.findQueue(world.projectNo, "large"))?.no as number;
      const row = { queueNo, body: new Uint8Array(1), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
      await world.store.send(Array.from({ length: 2_500 }, () => row));
      const rows = () => world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${queueNo}`);
      await world.store.run("deleteQueue", queueNo);
      expect(await world.store.send([row])).toEqual([{ refused: "queue_not_found" }]);
      expect((await world.store.claim({ queueNo, batchSize: 10, batches: 1, leaseMs: null })).batches).toEqual([]);
      const left = [await rows()];
      while (await world.queueStore.run("removeDeleted")) left.push(await rows());
      expect(left).toEqual([2_500, 1_500, 500, 0]);
      const removals = () => world.count(`SELECT count(*) AS n FROM queue_removal WHERE queue_no = ${queueNo}`);
      expect(await removals()).toBe(1);
      await world.pass(60_000);
      await world.pass(30_000);
      expect(await removals()).toBe(0);
    });

    it("Q15, LEASE-06: many queues deleted at once hold neither each other's removal nor anybody's dead letters up", async () => {
      await create("dead");
      await create("live", { visibilityTimeoutSeconds: 2, redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 1 } });
      const numbers: number[] = [];
      for (let i = 0; i < 101; i++) {
        await create(`gone-${i}`, { visibilityTimeoutSeconds: 1, redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 1 } });
        numbers.push((await world.room.findQueue(world.projectNo, `gone-${i}`))?.no as number);
      }
      const [no] = numbers.slice(-1) as [number];
      const row = { queueNo: no, body: new Uint8Array(1), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
      await world.store.send(Array.from({ length: 600 }, () => row));
      await world.store.claim({ queueNo: no, batchSize: 600, batches: 1, leaseMs: null });
      await world.call("SendMessages", { queueId: "live" }, { messages: [{ body: "x" }] });
      await world.call("ReceiveMessages", { queueId: "live" }, {});
      for (const gone of numbers) await world.store.run("deleteQueue", gone);
      while (await world.queueStore.run("removeDeleted"));
      expect(await world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${no}`)).toBe(0);
      await world.pass(2_000);
      await world.pass(5_000);
      expect(await world.call("GetQueueStats", { queueId: "dead" })).toMatchObject({ ready: 1 });
    });

    it("Q16: a paused queue takes sends and settles but hands nothing out, and resuming answers who waits", async () => {
      await create("orders");
      await world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "first" }] });
      const held = await world.call("ReceiveMessages", { queueId: "orders" }, {});
      await world.call("UpdateQueue", { queueId: "orders" }, { paused: true });
      await world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "second" }] });
      expect(await world.call("ReceiveMessages", { queueId: "orders" }, {})).toEqual({ messages: [] });
      const empty = await world.wait("orders", { waitSeconds: 1 });
      await world.pass(1000);
      expect(await empty.answer).toEqual({ messages: [] });
      const acked = await world.call("AckMessages", { queueId: "orders" }, { receipts: [held.messages[0]?.receipt] });
      expect(acked.results[0]?.ok).toBe(true);
      const waiting = await world.wait("orders", { waitSeconds: 20 });
      await world.call("UpdateQueue", { queueId: "orders" }, { paused: false });
      expect((await waiting.answer).messages[0]?.body).toBe("second");
    });
  });
}
