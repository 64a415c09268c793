/** What an endpoint sees and what its answers do, on either engine: `pushSuite` is run by the tests beside it. */
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, it } from "vitest";
import type { Ground } from "../queue/world.suite.ts";
import { bodies, gate, genuine, messages, openPushWorld, type PushWorld, type PushWorldOptions } from "./world.suite.ts";

const letters = (n: number, prefix = "m"): string[] => Array.from({ length: n }, (_, i) => `${prefix}${i}`);

export function pushSuite(engine: Ground): void {
  describe(`push on ${engine}`, () => {
    let push: PushWorld;
    const open = async (options?: PushWorldOptions) => {
      push = await openPushWorld(engine, options);
      return push;
    };
    afterEach(() => push.close());

    it("P2, P4, P17: a batch is signed for both kinds of verifiers, carries its delivery id, and is acknowledged by a 2xx", async () => {
      const { endpoint } = await open();
      const { signingSecret, resourceName } = await push.subscribe({ name: "orders" });
      const ids = await push.send("orders", "one", "two");
      const request = await endpoint.next();
      expect(request.json()).toMatchObject({ subscription: resourceName, messages: [{ messageId: ids[0], body: "one" }, { body: "two" }] });
      expect(genuine(request, signingSecret)).toBe(true);
      expect(request.headers["ezgh-delivery-id"]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/);
      new Webhook(`${signingSecret}=`).verify(request.text, request.headers as Record<string, string>);
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ ready: 0, inflight: 0, acknowledged: 2 });
    });

    it("P7: a batch is what is ready, never waited for, and never more than the batch size", async () => {
      const { endpoint } = await open();
      const hold = gate();
      endpoint.answer(hold);
      await push.subscribe({ name: "orders" }, { maxConcurrency: 1, batchSize: 10 });
      await push.send("orders", "alone");
      expect(bodies(await endpoint.next())).toEqual(["alone"]);
      await push.send("orders", ...letters(13));
      hold.open();
      expect(bodies(await endpoint.next())).toEqual(letters(10));
      expect(bodies(await endpoint.next())).toEqual(["m10", "m11", "m12"]);
    });

    it("P11, P17: of ten messages exactly the one that fails comes again, after 1, 2, 4 and 8 seconds, under a new delivery id", async () => {
      const { endpoint } = await open();
      await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 300 });
      const ids = await push.send("orders", ...letters(10));
      endpoint.answer({ body: JSON.stringify({ failed: [ids[4]] }) });
      const deliveries = new Set<unknown>();
      expect(bodies(await endpoint.next())).toHaveLength(10);
      for (const [attempt, seconds] of [1, 2, 4, 8].entries()) {
        if (engine === "sqlite") {
          await push.pass(seconds * 1000 - 1);
          await push.subscriptions.rest();
          expect(endpoint.requests).toHaveLength(attempt + 1);
          await push.pass(1);
        } else await push.pass(seconds * 1000);
        const again = await endpoint.next();
        expect(messages(again)).toMatchObject([{ messageId: ids[4], receiveCount: attempt + 2 }]);
        deliveries.add(again.headers["ezgh-delivery-id"]);
      }
      expect(deliveries.size).toBe(4);
      endpoint.answer({});
      await push.pass(16_000);
      await endpoint.next();
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 10, ready: 0, scheduled: 0, inflight: 0 });
    });

    it("P9, P15: every other status and a cut connection retry the whole batch; status tells the last of it until a success", async () => {
      const { endpoint } = await open();
      const { id } = await push.subscribe({ name: "orders" });
      endpoint.answer({ status: 500, body: "no \u{1F600} today" });
      await push.send("orders", "one", "two");
      await endpoint.next();
      await push.subscriptions.rest();
      expect(await push.status(id)).toMatchObject({
        health: "failing",
        lastError: { class: "http", status: 500, message: "HTTP 500: no \u{1F600} today" },
        lastSuccessAt: null,
        deliveriesPerMinute: 1,
      });
      endpoint.answer({ body: "{}", drop: "body" });
      await push.pass(1_000);
      expect(bodies(await endpoint.next())).toEqual(["one", "two"]);
      await push.subscriptions.rest();
      expect((await push.status(id)).lastError).toMatchObject({ class: "connection" });
      endpoint.answer({ body: '{"failed": 7}' });
      await push.pass(2_000);
      expect(bodies(await endpoint.next())).toEqual(["one", "two"]);
      await push.subscriptions.rest();
      const status = await push.status(id);
      expect(status).toMatchObject({ health: "healthy", lastError: { class: "connection" }, deliveriesPerMinute: 3 });
      expect(status.lastSuccessAt).not.toBeNull();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 2, inflight: 0, scheduled: 0 });
    });

    it("P10, FIFO-04: after a2 of a1 b1 a2 b2 a3 failed, a2 comes alone until it succeeds, then a3; b waits for nothing", async () => {
      const { endpoint } = await open();
      const hold = gate();
      endpoint.answer(hold);
      await push.subscribe({ name: "orders", type: "fifo" }, { maxConcurrency: 1 });
      await push.send("orders", "first@x");
      await endpoint.next();
      const ids = await push.send("orders", "a1@a", "b1@b", "a2@a", "b2@b", "a3@a");
      endpoint.answer({ body: JSON.stringify({ failed: [ids[2]] }) });
      hold.open();
      const batch = bodies(await endpoint.next());
      expect([...batch].sort()).toEqual(["a1", "a2", "a3", "b1", "b2"]);
      expect(batch.filter((body) => body.startsWith("a"))).toEqual(["a1", "a2", "a3"]);
      await push.subscriptions.rest();
      await push.send("orders", "a4@a", "b3@b");
      expect(bodies(await endpoint.next())).toEqual(["b3"]);
      await push.pass(1_000);
      expect(bodies(await endpoint.next())).toEqual(["a2"]);
      await push.subscriptions.rest();
      endpoint.answer({});
      await push.pass(2_000);
      expect(messages(await endpoint.next())).toMatchObject([{ body: "a2", receiveCount: 3 }]);
      // Refunded: the head's failures cost its followers no attempt, so they come together.
      expect(messages(await endpoint.next())).toMatchObject([
        { body: "a3", receiveCount: 2 },
        { body: "a4", receiveCount: 1 },
      ]);
    });

    it("P10: nothing is dead-lettered for its head's failure; the head alone runs out of attempts and unblocks its group", async () => {
      const { endpoint } = await open();
      await push.world.call("CreateQueue", {}, { name: "dead", type: "fifo" });
      const redrivePolicy = { deadLetterQueueId: "dead", maxReceiveCount: 2 };
      await push.subscribe({ name: "orders", type: "fifo", redrivePolicy }, { maxConcurrency: 1, state: "paused" });
      await push.send("orders", "a1@a", "a2@a", "a3@a");
      const [{ id = "" } = {}] = (await push.call("ListSubscriptions", {})).subscriptions as { id?: string }[];
      endpoint.answer((request) => ({ status: bodies(request)[0] === "a1" ? 500 : 200 }));
      await push.call("ResumeSubscription", { subscriptionId: id });
      expect(bodies(await endpoint.next())).toEqual(["a1", "a2", "a3"]);
      await push.pass(1_000);
      expect(bodies(await endpoint.next())).toEqual(["a1"]);
      expect(bodies(await endpoint.next())).toEqual(["a2", "a3"]);
      await push.subscriptions.rest();
      expect(await push.stats("dead")).toMatchObject({ ready: 1 });
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 2, ready: 0, waiting: 0, scheduled: 0 });
    });

    it("P12: 429 and 503 with Retry-After hold the whole batch that long, at most the visibility timeout", async () => {
      const { endpoint } = await open();
      await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 20 });
      endpoint.answer({ status: 503, headers: { "retry-after": "7" } });
      await push.send("orders", "one", "two");
      await endpoint.next();
      await push.pass(3_000);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(1);
      endpoint.answer({ status: 429, headers: { "retry-after": "999999" } });
      await push.pass(4_000);
      expect(bodies(await endpoint.next())).toEqual(["one", "two"]);
      endpoint.answer({});
      await push.pass(20_000);
      expect(bodies(await endpoint.next())).toEqual(["one", "two"]);
    });

    it("P13: each 503 halves what may be in flight, each success adds one, and the endpoint never sees more at once", async () => {
      const { endpoint } = await open();
      const { id } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 8 });
      let hold = gate();
      endpoint.answer(async () => {
        await hold.after;
        return { status: 503 };
      });
      await push.send("orders", ...letters(40));
      await endpoint.opened(8);
      expect(await push.status(id)).toMatchObject({ inFlight: 8, limit: 8 });
      hold.open();
      await endpoint.received(9);
      await endpoint.idle();
      const limit = (await push.status(id)).limit;
      expect(limit).toBe(1);
      expect(endpoint.highWater).toBe(8);
      hold = gate();
      endpoint.answer({});
      for (let i = 0; i < 8; i++) await push.pass(5_000);
      expect(await push.status(id)).toMatchObject({ limit: 8, inFlight: 0 });
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 40 });
      expect(endpoint.highWater).toBe(8);
    });

    it("P14, CTRL-02: a subscription that fails steadily makes one delivery at a time ever more rarely; one success restores it", async () => {
      const { endpoint } = await open();
      const { id } = await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 1 }, { batchSize: 1, maxConcurrency: 10 });
      endpoint.answer({ status: 500 });
      await push.send("orders", ...letters(100));
      await endpoint.received(10);
      await push.subscriptions.rest();
      expect((await push.status(id)).limit).toBe(1);
      const before = endpoint.requests.length;
      for (let step = 0; step < 20; step++) await push.pass(15_000);
      await push.subscriptions.rest();
      // 1, 2, 4, 8, 16, then every 30 s: about 14 in five minutes, where ten at a time every second would be 3,000.
      expect(endpoint.requests.length - before).toBeGreaterThan(8);
      expect(endpoint.requests.length - before).toBeLessThan(20);
      const hold = gate();
      endpoint.answer(hold);
      await push.pass(30_000);
      await endpoint.opened(1);
      for (let second = 0; second < 5; second++) await push.world.pass(1_000);
      expect([endpoint.open, (await push.status(id)).inFlight]).toEqual([1, 1]);
      hold.open();
      for (let second = 0; second < 5; second++) await push.pass(1_000);
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 100 });
      expect(await push.status(id)).toMatchObject({ health: "healthy", limit: 10 });
    });

    it("P8, LEASE-09: while a slow endpoint works, nobody gets a second copy for 90 seconds, and its 2xx acknowledges", async () => {
      const { endpoint } = await open();
      const hold = gate();
      endpoint.answer(hold);
      await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 5 }, { target: { timeoutSeconds: 60 } });
      await push.send("orders", "slow");
      await endpoint.next();
      for (const ms of [5_000, 50_000, 30_000]) {
        await push.world.pass(ms);
        expect(await push.world.call("ReceiveMessages", { queueId: "orders" })).toEqual({ messages: [] });
      }
      hold.open();
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(1);
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 1, ready: 0, inflight: 0 });
    });

    it("Q2, C6: a queue's rate limit bounds the deliveries that start per period, each of as many messages as a batch holds", async () => {
      const { endpoint } = await open();
      await push.subscribe({ name: "orders", rateLimit: { count: 2, periodSeconds: 10 } }, { batchSize: 3, state: "paused" });
      await push.send("orders", ...letters(18));
      await push.call("ResumeSubscription", { subscriptionId: (await push.call("ListSubscriptions", {})).subscriptions[0]?.id ?? "" });
      await endpoint.received(2);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(2);
      await push.pass(10_000);
      await endpoint.received(4);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(4);
      await push.pass(10_000);
      await endpoint.received(6);
      await push.subscriptions.rest();
      expect(endpoint.requests.map((request) => bodies(request).length)).toEqual([3, 3, 3, 3, 3, 3]);
    });

    it("P24: an endpoint that hangs delays no other subscription", async () => {
      const { endpoint, other } = await open();
      const hold = gate();
      endpoint.answer(hold);
      await push.subscribe({ name: "hanging" }, { maxConcurrency: 2, batchSize: 1 });
      await push.subscribe({ name: "healthy" }, { maxConcurrency: 1, batchSize: 1, target: { url: push.url(other) } });
      await push.send("hanging", ...letters(20));
      await endpoint.opened(2);
      await push.send("healthy", ...letters(20));
      await other.received(20);
      expect(other.requests.flatMap(bodies)).toEqual(letters(20));
      expect(endpoint.requests).toHaveLength(2);
      hold.open();
      await endpoint.received(20);
    });

    it("P23, CTRL-07: what was claimed and not decided when the process ended comes back when its lease ends, with a higher count", async () => {
      const { endpoint } = await open();
      endpoint.answer({ after: new Promise(() => {}) });
      await push.subscribe({ name: "orders" }, { target: { timeoutSeconds: 10 } });
      const ids = await push.send("orders", "one", "two");
      await endpoint.next();
      await push.restart();
      endpoint.answer({});
      await push.pass(45_000);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(1);
      await push.pass(15_000);
      expect(messages(await endpoint.next())).toMatchObject(ids.map((messageId) => ({ messageId, receiveCount: 2 })));
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 2, inflight: 0 });
    });

    it("P26: delays, retries and leases follow the injected clock, signatures carry real time", async () => {
      const { endpoint } = await open();
      const { signingSecret } = await push.subscribe({ name: "orders" });
      await push.pass(40 * 86_400_000);
      await push.world.call("SendMessages", { queueId: "orders" }, { messages: [{ body: "later", delaySeconds: 30 * 86_400 }] });
      await push.pass(30 * 86_400_000 - 60_000);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(0);
      await push.pass(60_000);
      const request = await endpoint.next();
      expect(bodies(request)).toEqual(["later"]);
      expect(genuine(request, signingSecret)).toBe(true);
    });

    it("FIFO-08: one group that always fails takes nothing from the others, and no visible message is forgotten", async () => {
      const { endpoint } = await open();
      await push.subscribe({ name: "orders", type: "fifo", visibilityTimeoutSeconds: 8 }, { maxConcurrency: 10 });
      let failing = true;
      endpoint.answer((request) => ({
        body: JSON.stringify({ failed: failing ? messages(request).flatMap((m) => (m.groupId === "hot" ? [m.messageId] : [])) : [] }),
      }));
      const groups = letters(50, "g");
      await push.send("orders", ...letters(30, "h").map((body) => `${body}@hot`));
      for (const round of letters(4, "r")) await push.send("orders", ...groups.map((group) => `${round}@${group}`));
      for (let second = 0; second < 10; second++) await push.pass(1_000);
      const seen = () => endpoint.requests.flatMap(messages);
      const others = seen().filter(({ groupId }) => groupId !== "hot");
      expect(others).toHaveLength(200);
      for (const group of groups) expect(others.filter((m) => m.groupId === group).map(({ body }) => body)).toEqual(letters(4, "r"));
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 200 });
      failing = false;
      for (let second = 0; second < 20; second++) await push.pass(1_000);
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 230, ready: 0, waiting: 0, scheduled: 0, inflight: 0 });
    });

    it("DLQ-07: a limit lowered below a message's count moves it at its next failure, never without one; raised, it is delivered on", async () => {
      const { endpoint } = await open();
      await push.world.call("CreateQueue", {}, { name: "dead" });
      await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 1 });
      endpoint.answer({ status: 500 });
      await push.send("orders", "one");
      for (let count = 1; count < 5; count++) await push.pass(1_000);
      await endpoint.received(5);
      const limit = (maxReceiveCount: number) =>
        push.world.call("UpdateQueue", { queueId: "orders" }, { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount } });
      await push.subscriptions.rest();
      await limit(3);
      await push.world.pass(0);
      expect([await push.stats("orders"), await push.stats("dead")]).toMatchObject([{ scheduled: 1 }, { ready: 0 }]);
      await limit(10);
      await push.pass(1_000);
      expect(messages((await endpoint.received(6))[5] as never)).toMatchObject([{ receiveCount: 6 }]);
      await push.subscriptions.rest();
      await limit(3);
      await push.pass(1_000);
      await endpoint.received(7);
      await push.pass(5_000);
      expect([await push.stats("orders"), await push.stats("dead")]).toMatchObject([{ scheduled: 0, ready: 0, inflight: 0 }, { ready: 1 }]);
    });
  });
}
