/** A subscription's life: made, changed, paused, rotated, deleted, restarted, stopped. `lifeSuite` is run by the tests beside it. */
import type { Fault } from "@millrace/contract";
import { afterEach, describe, expect, it } from "vitest";
import type { Caller } from "../identity/caller.ts";
import { faultOf, type Ground } from "../queue/world.suite.ts";
import { bodies, gate, genuine, messages, openPushWorld, type PushWorld, type PushWorldOptions } from "./world.suite.ts";

const hour = 3_600_000;
const key = (name: string, hash = "h") => ({ scope: "s", key: name, hash });

export function lifeSuite(engine: Ground): void {
  describe(`a subscription's life on ${engine}`, () => {
    let push: PushWorld;
    const open = async (options?: PushWorldOptions) => {
      push = await openPushWorld(engine, options);
      return push;
    };
    afterEach(() => push.close());

    it("P1, P2: a queue has one subscription, found by id and resource name, with defaults and a secret shown once", async () => {
      await open();
      const made = await push.subscribe({ name: "orders" });
      const queue = await push.world.call("GetQueue", { queueId: "orders" });
      expect(made).toMatchObject({
        queueId: queue.id,
        target: { kind: "https", url: push.url(), timeoutSeconds: 30 },
        batchSize: 10,
        maxConcurrency: 10,
        state: "active",
        recordAttempts: false,
        status: { health: "healthy", lastError: null, lastSuccessAt: null, inFlight: 0, limit: 10, deliveriesPerMinute: 0 },
      });
      expect(made.resourceName).toMatch(/^qsb_[a-z0-9]{12}$/);
      expect(made.signingSecret).toMatch(/^whsec_[A-Za-z0-9]{43}$/);
      const again = faultOf(push.call("CreateSubscription", {}, { queueId: "orders", target: made.target }));
      expect((await again).code).toBe("subscription_exists");
      for (const subscriptionId of [made.id, made.resourceName])
        expect(await push.call("GetSubscription", { subscriptionId })).toEqual({ ...made, signingSecret: null });
      expect((await faultOf(push.call("GetSubscription", { subscriptionId: "qsb_000000000000" }))).code).toBe("subscription_not_found");
      const two = await Promise.allSettled(
        [1, 2].map(async () => {
          await push.world.call("CreateQueue", {}, { name: "twice" }).catch(() => {});
          return push.call("CreateSubscription", {}, { queueId: "twice", target: made.target });
        }),
      );
      expect(two.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    });

    it("P2, P5: a repeated creation or rotation with the same key answers the first one without its secret, and changes nothing", async () => {
      const { endpoint } = await open();
      await push.world.call("CreateQueue", {}, { name: "orders" });
      const body = { queueId: "orders", target: { kind: "https", url: push.url() } };
      const made = await push.call("CreateSubscription", {}, body, { key: key("c") });
      expect(await push.call("CreateSubscription", {}, body, { key: key("c") })).toEqual({ ...made, signingSecret: null });
      const subscriptionId = made.id;
      const rotated = await push.call("RotateSubscriptionSecret", { subscriptionId }, undefined, { key: key("r") });
      const repeat = await push.call("RotateSubscriptionSecret", { subscriptionId }, undefined, { key: key("r") });
      expect([rotated.signingSecret === null, repeat.signingSecret]).toEqual([false, null]);
      await push.send("orders", "one");
      const request = await endpoint.next();
      expect(genuine(request, made.signingSecret as string) && genuine(request, rotated.signingSecret as string)).toBe(true);
      expect(JSON.stringify(push.logged)).not.toContain("whsec_");
    });

    it("P4, P26: after a rotation both secrets sign for 24 hours by the virtual clock, newest first; of three the newest two", async () => {
      const { endpoint } = await open();
      const made = await push.subscribe({ name: "orders" });
      const rotate = async () => (await push.call("RotateSubscriptionSecret", { subscriptionId: made.id })).signingSecret as string;
      const deliver = async () => {
        await push.send("orders", "one");
        const request = await endpoint.next();
        return [made.signingSecret, ...secrets].map((secret) => genuine(request, secret));
      };
      const secrets: string[] = [];
      secrets.push(await rotate());
      expect(await deliver()).toEqual([true, true]);
      await push.pass(24 * hour - 60_000);
      expect(await deliver()).toEqual([true, true]);
      await push.subscriptions.rest();
      await push.restart();
      expect(await deliver()).toEqual([true, true]);
      await push.pass(60_000);
      expect(await deliver()).toEqual([false, true]);
      secrets.push(await rotate(), await rotate());
      expect(await deliver()).toEqual([false, false, true, true]);
      const header = String((await endpoint.received(5))[4]?.headers["ezgh-signature"]);
      expect(header.match(/v1=/g)).toHaveLength(2);
    });

    it("P3, P16: an update takes effect from the next delivery; bounds and endpoint rules are checked and named", async () => {
      const { endpoint, other } = await open();
      const hold = gate();
      endpoint.answer(hold);
      const { id } = await push.subscribe({ name: "orders" }, { maxConcurrency: 1, target: { timeoutSeconds: 20 } });
      const subscriptionId = id;
      await push.send("orders", "one");
      await endpoint.next();
      const target = { kind: "https", url: push.url(other) };
      const updated = await push.call("UpdateSubscription", { subscriptionId }, { target, batchSize: 2 });
      expect(updated).toMatchObject({ target: { url: push.url(other), timeoutSeconds: 20 }, batchSize: 2, maxConcurrency: 1 });
      await push.send("orders", "two", "three", "four");
      hold.open();
      expect(bodies(await other.next())).toEqual(["two", "three"]);
      expect(bodies(await other.next())).toEqual(["four"]);
      expect(endpoint.requests).toHaveLength(1);
      const refused = (url: string) => faultOf(push.call("UpdateSubscription", { subscriptionId }, { target: { kind: "https", url } }));
      for (const url of [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://millrace.example.com/",
        "https://u:p@hooks.example.com/",
      ])
        expect((await refused(url)).code).toBe("invalid_target");
      for (const body of [{ batchSize: 11 }, { maxConcurrency: 0 }, { target: { ...target, timeoutSeconds: 61 } }, { queueId: "x" }])
        await expect(push.call("UpdateSubscription", { subscriptionId }, body)).rejects.toThrow();
    });

    it("P3: each verb needs its own permission on the queue, and beyond the key's reach there is no subscription", async () => {
      await open();
      const { id: subscriptionId } = await push.subscribe({ name: "orders" });
      const within = `${push.world.within}/queues`;
      const caller = (allow: string[], on = `${within}/orders`): Caller => ({
        keyId: allow.join() + on,
        keyName: "k",
        projectNo: null,
        within: null,
        statements: [{ allow, on: [on] }],
      });
      const verbs = [
        ["GetSubscription", "get"],
        ["UpdateSubscription", "update"],
        ["PauseSubscription", "pause"],
        ["ResumeSubscription", "pause"],
        ["RotateSubscriptionSecret", "update"],
        ["ListAttempts", "get"],
        ["DeleteSubscription", "delete"],
      ] as const;
      for (const [name, verb] of verbs) {
        const body = name === "UpdateSubscription" ? {} : undefined;
        const call = (by: Caller) => push.call(name, { subscriptionId }, body, { caller: by });
        const permission = `queues.subscriptions.${verb}`;
        expect(await faultOf(call(caller(["queues.subscriptions.list"])))).toMatchObject({
          code: "permission_denied",
          details: { permission },
        });
        expect((await faultOf(call(caller(["*"], `${within}/elsewhere`)))).code).toBe("subscription_not_found");
        await call(caller([permission]));
      }
    });

    it("P1: a list shows what the key reaches, in pages, and one queue's when asked", async () => {
      await open();
      const made = [];
      for (const name of ["a", "b", "c"]) made.push(await push.subscribe({ name }));
      const list = (query: Record<string, unknown>, caller?: Caller) =>
        push.call("ListSubscriptions", {}, undefined, { query, ...(caller === undefined ? {} : { caller }) });
      const ids = (page: { subscriptions: unknown[] }) => page.subscriptions.map((each) => (each as { id: string }).id);
      const first = (await list({ limit: 2 })) as { subscriptions: unknown[]; nextCursor: string | null };
      const second = (await list({ limit: 2, cursor: first.nextCursor })) as typeof first;
      expect([...ids(first), ...ids(second)]).toEqual(made.map(({ id }) => id));
      expect(second.nextCursor).toBeNull();
      expect(ids((await list({ queueId: "b" })) as typeof first)).toEqual([made[1]?.id]);
      const reach = { allow: ["queues.subscriptions.list"], on: [`${push.world.within}/queues/c`] };
      const some = await list({}, { keyId: "some", keyName: "some", projectNo: null, within: null, statements: [reach] });
      expect(ids(some as typeof first)).toEqual([made[2]?.id]);
      expect(((await faultOf(list({ cursor: "nonsense" }))) as Fault).code).toBe("invalid_request");
    });

    it("P16, CTRL-03: after an answered pause nothing starts, what is open is settled by its answers, and it survives a restart", async () => {
      const { endpoint } = await open();
      const hold = gate();
      endpoint.answer(async (request) => {
        await hold.after;
        return { status: bodies(request)[0] === "m1" ? 500 : 200 };
      });
      const { id: subscriptionId } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 4 });
      await push.send("orders", "m0", "m1", "m2", "m3");
      await endpoint.opened(4);
      const sending = push.send("orders", "m4", "m5", "m6");
      expect((await push.call("PauseSubscription", { subscriptionId })).state).toBe("paused");
      await sending;
      await endpoint.received(4);
      hold.open();
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 3, scheduled: 1, ready: 3, inflight: 0 });
      await push.pass(60_000);
      await push.restart();
      await push.send("orders", "m7");
      await push.pass(60_000);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(4);
      const pulled = await push.world.call("ReceiveMessages", { queueId: "orders" }, { maxMessages: 1 });
      expect(pulled.messages).toHaveLength(1);
      await push.world.call("AckMessages", { queueId: "orders" }, { receipts: pulled.messages.map(({ receipt }) => receipt) });
      endpoint.answer({});
      await push.call("ResumeSubscription", { subscriptionId });
      await endpoint.received(8);
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 8, ready: 0, scheduled: 0 });
    });

    it("P16: messages whose claim was under way during a pause are given back with their attempt, at once", async () => {
      const { endpoint } = await open();
      const { id: subscriptionId } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 2 });
      for (let round = 0; round < 20; round++) {
        const sent = push.send("orders", `${round}`);
        await push.call("PauseSubscription", { subscriptionId });
        const { started } = push;
        await sent;
        await push.subscriptions.rest();
        expect(push.started).toBe(started);
        expect((await push.stats("orders")).inflight).toBe(0);
        await push.call("ResumeSubscription", { subscriptionId });
        await push.subscriptions.rest();
      }
      await endpoint.received(20);
      expect(new Set(endpoint.requests.flatMap(bodies)).size).toBe(20);
    });

    it("P16: a deleted subscription starts nothing more, its open delivery is settled, and the queue can have a new one", async () => {
      const { endpoint, other } = await open();
      const hold = gate();
      endpoint.answer(hold);
      const { id: subscriptionId } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 1 });
      await push.send("orders", "one", "two");
      await endpoint.next();
      await push.call("DeleteSubscription", { subscriptionId });
      expect((await faultOf(push.call("GetSubscription", { subscriptionId }))).code).toBe("subscription_not_found");
      hold.open();
      await push.subscriptions.rest();
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 1, ready: 1 });
      await push.call("CreateSubscription", {}, { queueId: "orders", target: { kind: "https", url: push.url(other) } });
      expect(bodies(await other.next())).toEqual(["two"]);
      expect(endpoint.requests).toHaveLength(1);
    });

    it("P16: a paused queue is not pushed until it is resumed; a deleted queue's open delivery ends quietly", async () => {
      const { endpoint } = await open();
      const { id: subscriptionId } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 1 });
      await push.world.call("UpdateQueue", { queueId: "orders" }, { paused: true });
      await push.send("orders", "one", "two");
      await push.pass(60_000);
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(0);
      const hold = gate();
      endpoint.answer(hold);
      await push.world.call("UpdateQueue", { queueId: "orders" }, { paused: false });
      await endpoint.next();
      await push.world.call("DeleteQueue", { queueId: "orders" });
      hold.open();
      await push.subscriptions.rest();
      expect(endpoint.requests).toHaveLength(1);
      expect((await faultOf(push.call("GetSubscription", { subscriptionId }))).code).toBe("subscription_not_found");
      // The lane goes once its last delivery is settled, which nothing here waits for.
      for (let turn = 0; turn < 10_000 && push.subscriptions.lanes > 0; turn++) await new Promise(setImmediate);
      expect(push.subscriptions.lanes).toBe(0);
    });

    it("P13, P15: health survives a restart, and what was failing starts again with one delivery at a time", async () => {
      const { endpoint } = await open();
      const { id } = await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 4 });
      endpoint.answer({ status: 418, body: "teapot" });
      await push.send("orders", "one");
      await endpoint.next();
      await push.subscriptions.rest();
      const before = await push.status(id);
      await push.restart();
      expect(await push.status(id)).toEqual({ ...before, limit: 1, deliveriesPerMinute: 0 });
      const hold = gate();
      endpoint.answer(hold);
      await push.send("orders", "two", "three", "four");
      await push.world.pass(1_000);
      await endpoint.opened(1);
      expect((await push.status(id)).inFlight).toBe(1);
      hold.open();
      await endpoint.received(5);
      await push.subscriptions.rest();
      await push.pass(1_000);
      const after = await push.status(id);
      expect(after).toMatchObject({ health: "healthy", lastError: before.lastError });
      await push.restart();
      expect((await push.status(id)).lastSuccessAt).toBe(after.lastSuccessAt);
    });

    it("P15: the last 100 failed attempts are kept for 24 hours, newest first, with the answer's first KiB", async () => {
      const { endpoint } = await open();
      const { id: subscriptionId } = await push.subscribe({ name: "orders", visibilityTimeoutSeconds: 1 });
      const [messageId] = await push.send("orders", "one");
      endpoint.answer((request) => ({ status: 500, body: `${request.order} ${"\u00e4".repeat(2_000)}` }));
      for (let i = 0; i < 140; i++) await push.pass(30_000);
      const page = await push.call("ListAttempts", { subscriptionId }, undefined, { query: { limit: 99 } });
      const rest = await push.call("ListAttempts", { subscriptionId }, undefined, { query: { cursor: page.nextCursor } });
      expect([page.attempts.length, rest.attempts.length, rest.nextCursor]).toEqual([99, 1, null]);
      const newest = page.attempts[0];
      expect(newest).toMatchObject({ outcome: "failed", class: "http", status: 500, messageIds: [messageId] });
      expect(newest?.answer?.startsWith(`${endpoint.requests.length} `)).toBe(true);
      expect(Buffer.byteLength(newest?.answer ?? "")).toBeLessThanOrEqual(1024);
      expect(newest?.answer).not.toContain("\ufffd");
      endpoint.answer({});
      await push.pass(30_000);
      await push.pass(24 * hour);
      expect((await push.call("ListAttempts", { subscriptionId })).attempts).toEqual([]);
    });

    it("P5, P15: an endpoint that answers with its own secret brings it into no status, log or kept attempt", async () => {
      const { endpoint } = await open();
      const { id: subscriptionId, signingSecret } = await push.subscribe({ name: "orders" }, { recordAttempts: true });
      endpoint.answer({ status: 500, body: `secret=${signingSecret}` });
      await push.send("orders", "one");
      await endpoint.next();
      await push.subscriptions.rest();
      const { attempts } = await push.call("ListAttempts", { subscriptionId });
      expect(attempts[0]?.answer).toBe("secret=whsec_…");
      const shown = JSON.stringify([attempts, await push.status(subscriptionId), push.logged]);
      expect(shown).toContain("HTTP 500: secret=whsec_…");
      expect(shown).not.toContain(signingSecret);
    });

    it("P15: successful attempts are kept too when the subscription says so", async () => {
      const { endpoint } = await open();
      const { id: subscriptionId } = await push.subscribe({ name: "orders" }, { recordAttempts: true });
      endpoint.answer({ body: "thanks" });
      const [messageId] = await push.send("orders", "one");
      const request = await endpoint.next();
      await push.subscriptions.rest();
      const { attempts } = await push.call("ListAttempts", { subscriptionId });
      expect(attempts).toMatchObject([
        {
          deliveryId: request.headers["ezgh-delivery-id"],
          outcome: "delivered",
          class: null,
          status: 200,
          message: null,
          messageIds: [messageId],
          answer: "thanks",
        },
      ]);
      await push.call("UpdateSubscription", { subscriptionId }, { recordAttempts: false });
      await push.send("orders", "two");
      await endpoint.next();
      await push.subscriptions.rest();
      expect((await push.call("ListAttempts", { subscriptionId })).attempts).toHaveLength(1);
    });

    it("P25, CTRL-08: a stop lets open deliveries end and settle; what outlasts the grace time lapses and comes back", async () => {
      const { endpoint } = await open();
      const hold = gate();
      const never = new Promise(() => {});
      endpoint.answer((request) => ({ after: bodies(request)[0] === "long" ? never : hold.after }));
      await push.subscribe({ name: "orders" }, { batchSize: 1, maxConcurrency: 3 });
      await push.send("orders", "one", "two", "long");
      await endpoint.opened(3);
      await push.send("orders", "later");
      const stopped = push.restart(30_000);
      hold.open();
      await Promise.all(endpoint.requests.filter((request) => bodies(request)[0] !== "long").map(({ done }) => done));
      // Both answers are settled before the rest is aborted: the grace time ends when the clock says so.
      for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
      expect(endpoint.requests).toHaveLength(3);
      push.world.clock.advance(30_000);
      endpoint.answer({});
      await stopped;
      await endpoint.received(4);
      await push.subscriptions.rest();
      expect(bodies(endpoint.requests[3] as never)).toEqual(["later"]);
      expect(await push.stats("orders")).toMatchObject({ acknowledged: 3, inflight: 1 });
      await push.pass(60_000);
      expect(messages((await endpoint.received(5))[4] as never)).toMatchObject([{ body: "long", receiveCount: 2 }]);
    });
  });
}
