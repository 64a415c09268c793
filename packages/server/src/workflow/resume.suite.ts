/** Queue to waiting run: subscriptions that resume runs, on either engine. `resumeSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { faultOf, type Ground } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import type { Workflow } from "./executor.suite.ts";
import { type JointWorld, openJointWorld } from "./joint-world.suite.ts";

interface Order {
  queueId: string;
  key: string;
  timeoutMs?: number;
  lookbackMs?: number;
  times?: number;
}

/** Waits for one message, or several in turn, and answers their bodies. */
const order: Workflow = async ({ queueId, key, timeoutMs = 86_400_000, lookbackMs, times = 1 }: Order, step) => {
  const bodies = [];
  for (let n = 1; n <= times; n++) {
    const message = await step.wait(n === 1 ? "paid" : `paid#${n}`, queueId, key, timeoutMs, lookbackMs);
    bodies.push(message === null ? null : message.body);
  }
  return bodies;
};

export function resumeSuite(kind: Ground): void {
  describe(`runs resumed by messages on ${kind}`, () => {
    let j: JointWorld;
    let app: AppRow;
    let queueId: string;
    beforeAll(async () => {
      j = await openJointWorld(kind);
    });
    afterAll(() => j.close());
    beforeEach(async () => {
      await j.w.world.fresh();
      app = (await j.w.app({ order })).row;
      await j.queue("dead");
      queueId = await j.queue("payments", { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 5 } });
    });

    const subscribe = (given: Record<string, unknown> = {}) => {
      const target = { kind: "workflow", mode: "resume", appId: app.id, workflow: "order", correlationAttribute: "orderKey", ...given };
      return j.call("CreateSubscription", {}, { queueId: "payments", target, maxConcurrency: 5 });
    };
    const paid = (key: string, body = "paid") => ({ body, attributes: { orderKey: key } });
    /** Starts a run and waits until it waits. */
    const waiting = async (key: string, given: Partial<Order> = {}): Promise<string> => {
      const id = await j.w.start(app, "order", { queueId, key, ...given });
      await j.w.until(app, id, ({ status }) => status === "waiting");
      return id;
    };
    const output = async (id: string) => {
      expect((await j.w.until(app, id, ({ endedAt }) => endedAt !== null)).status).toBe("completed");
      return j.w.output(app, id);
    };
    const status = async (subscriptionId: string) => (await j.call("GetSubscription", { subscriptionId })).status;

    it("W14: a message goes to every run of the app that waits for its queue and key, and to nobody else; then it is acknowledged", async () => {
      const { id: subscriptionId } = await subscribe();
      const [one, two, other] = [await waiting("order:1"), await waiting("order:1"), await waiting("order:2")];
      await j.send("payments", paid("order:1", "19.99"));
      await j.rest();
      expect(await output(one)).toEqual(["19.99"]);
      expect(await output(two)).toEqual(["19.99"]);
      expect((await j.w.run(app, other)).status).toBe("waiting");
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 1, ready: 0, scheduled: 0 });
      expect(await status(subscriptionId)).toMatchObject({ health: "healthy", lastError: null });
      const [step] = await j.w.steps(app, one);
      const message = JSON.parse(new TextDecoder().decode(step?.result ?? undefined)) as object;
      expect(Object.keys(message)).toEqual(["messageId", "body", "attributes", "sentAt", "queueId"]);
      // A run that waits afterwards waits for the next message.
      const late = await waiting("order:1");
      await j.rest();
      expect((await j.w.run(app, late)).status).toBe("waiting");
    });

    it("WF-01, W14: a message that nobody waits for is tried again with backoff; a run that waits within that time gets it", async () => {
      const { id: subscriptionId } = await subscribe();
      await j.send("payments", paid("order:1"));
      await j.rest();
      expect(await j.stats("payments")).toMatchObject({ scheduled: 1, acknowledged: 0 });
      expect(await status(subscriptionId)).toMatchObject({
        health: "failing",
        lastError: { class: "message", message: expect.stringContaining("No run to resume") },
      });
      await j.pass(1_000);
      const id = await waiting("order:1");
      await j.pass(2_000);
      expect(await output(id)).toEqual(["paid"]);
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 1, deadLettered: 0 });
    });

    it("WF-01: around every instant of a retry a message is either taken by the run or dead-lettered after five tries, never both", async () => {
      await subscribe();
      const instants = [0, 1_000, 3_000, 7_000, 15_000];
      const starts = instants.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at >= 0);
      const runs: { at: number; id: string; key: string }[] = [];
      await j.send("payments", ...starts.map((at) => paid(`at:${at}`)));
      let now = 0;
      for (const at of [...starts].sort((a, b) => a - b)) {
        await j.pass(at - now);
        now = at;
        runs.push({ at, key: `at:${at}`, id: await waiting(`at:${at}`) });
      }
      await j.pass(60_000);
      const dead = (await j.w.world.call("PeekMessages", { queueId: "dead" }, undefined, { query: { limit: 100 } })).messages;
      const deadKeys = dead.map(({ attributes }) => attributes.orderKey);
      let taken = 0;
      for (const { key, id } of runs) {
        const { status: now } = await j.w.run(app, id);
        expect(["completed", "waiting"]).toContain(now);
        expect(deadKeys.includes(key)).toBe(now === "waiting");
        if (now === "completed") taken++;
      }
      expect(taken).toBeGreaterThan(5);
      expect(await j.stats("payments")).toMatchObject({ acknowledged: taken, deadLettered: starts.length - taken, ready: 0, scheduled: 0 });
    });

    it("W14: a missing attribute and an invalid key are like nobody waiting, and don't slow down messages that somebody waits for", async () => {
      const { id: subscriptionId } = await subscribe();
      await j.send(
        "payments",
        { body: "no attribute" },
        paid("not a key"),
        paid("x".repeat(257)),
        ...Array.from({ length: 20 }, () => paid("none")),
      );
      await j.rest();
      expect(await j.stats("payments")).toMatchObject({ scheduled: 23 });
      const { attempts } = await j.call("ListAttempts", { subscriptionId }, undefined, { query: { limit: 100 } });
      expect(new Set(attempts.map(({ message }) => message))).toEqual(
        new Set([
          "No run to resume: the message lacks the correlation attribute",
          "No run to resume: the correlation attribute's value is not a key",
          "No run to resume: none waits for this key",
        ]),
      );
      const id = await waiting("order:1");
      await j.send("payments", paid("order:1"));
      await j.rest();
      expect(await output(id)).toEqual(["paid"]);
      expect((await status(subscriptionId)).limit).toBe(5);
      await j.pass(1_000);
      for (const ms of [2_000, 4_000, 8_000]) await j.pass(ms);
      expect(await j.stats("dead")).toMatchObject({ ready: 23 });
    });

    it("WF-05, WF-07, W14: a resume is stored with the acknowledgement and the wake-up: a crash right after it loses nothing", async () => {
      const { no: queueNo } = (await j.w.world.store.run("findQueue", j.w.world.projectNo, "production", "payments")) ?? { no: 0 };
      for (let round = 1; round <= 5; round++) {
        const key = `order:${round}`;
        const id = await waiting(key);
        await j.send("payments", paid(key, String(round)));
        const { batches } = await j.w.world.store.claim({ queueNo, batchSize: 1, batches: 1, leaseMs: null });
        const message = batches[0]?.[0];
        if (message === undefined) throw new Error("nothing was claimed");
        const { seq, receipt } = message;
        const row = {
          projectNo: j.w.world.projectNo,
          appId: app.id,
          queueNo,
          seq,
          receipt,
          key,
          message: new TextEncoder().encode(`{"body":"${round}"}`),
          keepMs: 0,
          leaseMs: 60_000,
        };
        expect(await j.w.world.store.run("resumeRuns", [row])).toEqual(["resumed"]);
        // The process is gone before it heard of it, and the message with it.
        await j.restart();
        expect(await j.w.world.store.run("resumeRuns", [row])).toEqual(["stale"]);
        // Where the crash met the execution too, that one is repeated when its lease ends.
        expect(await j.w.ended(app, id, 10_000)).toMatchObject({ status: "completed" });
        expect(await j.w.output(app, id)).toEqual([String(round)]);
      }
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 5, ready: 0, inflight: 0, deadLettered: 0 });
    });

    it("WF-08: a message for more runs than one transaction takes goes to each once, over a crash in between, and not to those who wait since", async () => {
      const wanted = 230;
      const ids: string[] = [];
      for (let n = 0; n < wanted; n++) ids.push(await j.w.start(app, "order", { queueId, key: "all", times: 2 }));
      for (const id of ids) await j.w.until(app, id, ({ status }) => status === "waiting");
      const { no: queueNo } = (await j.w.world.store.run("findQueue", j.w.world.projectNo, "production", "payments")) ?? { no: 0 };
      await j.send("payments", paid("all", "once"));
      const claim = await j.w.world.store.claim({ queueNo, batchSize: 1, batches: 1, leaseMs: null });
      const message = claim.batches[0]?.[0];
      if (message === undefined) throw new Error("nothing was claimed");
      const { seq, receipt } = message;
      const given = { projectNo: j.w.world.projectNo, appId: app.id, queueNo, key: "all", keepMs: 0, leaseMs: 60_000 };
      const row = { ...given, seq, receipt, message: new TextEncoder().encode('{"body":"once"}') };
      expect(await j.w.world.store.run("resumeRuns", [row])).toEqual(["more"]);
      await j.restart();
      // The resumed ones wait again, and others begin to wait.
      const late = await waiting("all");
      await j.rest();
      await subscribe();
      await j.pass(60_000 + j.w.world.slackMs);
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 1, ready: 0, inflight: 0 });
      for (const id of ids) {
        const run = await j.w.until(app, id, ({ status }) => status === "waiting");
        const steps = await j.w.steps(app, run.id);
        expect(steps.map((step) => step.status)).toEqual(["completed", "pending"]);
      }
      expect((await j.w.steps(app, late)).map((step) => step.status)).toEqual(["pending"]);
    });

    it("W14: a timeout is null and ends the wait; the message and the timeout never both win", async () => {
      await subscribe();
      const id = await waiting("order:1", { timeoutMs: 5_000 });
      await j.pass(5_000 + j.w.world.slackMs);
      expect(await output(id)).toEqual([null]);
      await j.send("payments", paid("order:1"));
      await j.rest();
      expect(await j.stats("payments")).toMatchObject({ scheduled: 1, acknowledged: 0 });
      const two = await waiting("order:2", { timeoutMs: 5_000 });
      await j.send("payments", paid("order:2"));
      await j.pass(5_000 + j.w.world.slackMs);
      expect(await output(two)).toEqual(["paid"]);
    });

    it("W14: cancelling a run ends its wait: a message that comes then finds nobody", async () => {
      await subscribe();
      const id = await waiting("order:1");
      await j.call("CancelRun", { appId: app.id, runId: id });
      await j.send("payments", paid("order:1"));
      await j.rest();
      expect(await j.w.until(app, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "cancelled" });
      expect(await j.stats("payments")).toMatchObject({ scheduled: 1, acknowledged: 0 });
    });

    it("W15: a kept message is acknowledged at once, and the first run whose wait looks back far enough takes it", async () => {
      await subscribe({ keepUnmatchedSeconds: 60 });
      await j.send("payments", paid("order:1", "early"));
      await j.rest();
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 1, scheduled: 0 });
      const blind = await waiting("order:1");
      await j.pass(10_000);
      const short = await waiting("order:1", { lookbackMs: 9_000 });
      const id = await j.w.start(app, "order", { queueId, key: "order:1", lookbackMs: 11_000 + j.w.world.slackMs });
      expect(await output(id)).toEqual(["early"]);
      const late = await waiting("order:1", { lookbackMs: 60_000 });
      for (const each of [blind, short, late]) expect((await j.w.run(app, each)).status).toBe("waiting");
      // Who waits comes before keeping.
      await j.send("payments", paid("order:1", "now"));
      await j.rest();
      for (const each of [blind, short, late]) expect(await output(each)).toEqual(["now"]);
    });

    it("W15: kept messages that no run takes in time expire and are counted; keeping is off unless it is asked for, and bounded", async () => {
      await subscribe({ keepUnmatchedSeconds: 60 });
      await j.send("payments", paid("order:1"), paid("order:2"));
      await j.rest();
      await j.w.world.clock.advance(60_000 + j.w.world.slackMs);
      expect(await j.w.world.store.run("expireKept")).toBe(false);
      expect((await j.call("GetApp", { appId: app.id })).unclaimedMessages).toBe(2);
      const id = await waiting("order:1", { lookbackMs: 604_800_000 });
      expect((await j.w.run(app, id)).status).toBe("waiting");
      await j.queue("plain");
      const target = { kind: "workflow", mode: "resume", appId: app.id, workflow: "order", correlationAttribute: "key" };
      const made = await j.call("CreateSubscription", {}, { queueId: "plain", target });
      expect(made.target).toEqual({ ...target, keepUnmatchedSeconds: 0 });
      const beyond = { queueId: "plain", target: { ...target, keepUnmatchedSeconds: 604_801 } };
      await expect(j.call("CreateSubscription", {}, beyond)).rejects.toThrow();
    });

    it("W15: a wait that opens while a message is being kept misses nothing: it is resumed, or takes what was kept", async () => {
      await subscribe({ keepUnmatchedSeconds: 60 });
      const ids: string[] = [];
      for (let n = 0; n < 12; n++) {
        const [id] = await Promise.all([
          j.w.start(app, "order", { queueId, key: `race:${n}`, lookbackMs: 60_000 }),
          j.send("payments", paid(`race:${n}`, String(n))),
        ]);
        ids.push(id);
      }
      await j.rest();
      for (const [n, id] of ids.entries()) expect(await output(id)).toEqual([String(n)]);
      expect(await j.stats("payments")).toMatchObject({ acknowledged: 12 });
    });

    it("W15: a run that suspends on a wait whose message was kept already goes on at once", async () => {
      await subscribe({ keepUnmatchedSeconds: 60 });
      const { row: pull } = await j.w.app({}, "pull");
      const target = { kind: "workflow", mode: "resume", appId: pull.id, workflow: "order", correlationAttribute: "orderKey" };
      await j.queue("other");
      await j.call("CreateSubscription", {}, { queueId: "other", target: { ...target, keepUnmatchedSeconds: 60 } });
      const poll = () =>
        j.w.engine.poll(pull.no, {
          announcement: { protocol: "1.2", buildId: "b", workflows: [{ name: "order" }] },
          app: { id: pull.id, queueNo: pull.queueNo },
          max: 1,
          waitMs: 0,
          gone: () => new AbortController().signal,
        });
      expect(await poll()).toEqual([]);
      await j.send("other", paid("order:1", "early"));
      await j.rest();
      await j.w.start(pull, "order");
      const [first] = await poll();
      const otherId = (await j.w.world.call("GetQueue", { queueId: "other" })).id;
      const wait = { id: "paid", type: "wait" as const, status: "pending" as const, queueId: otherId, key: "order:1", timeoutMs: 60_000 };
      const answer = { status: "suspended" as const, steps: [{ ...wait, lookbackMs: 60_000 }] };
      expect(await j.w.engine.executions.end("1.2", [{ token: first?.token ?? "", answer }])).toEqual([{ ok: true }]);
      const [second] = await poll();
      expect(second?.journal.steps).toMatchObject([{ id: "paid", status: "completed", result: expect.stringContaining("early") }]);
    });

    it("W14: resuming needs the permission workflows.runs.resume on the workflow", async () => {
      const within = j.w.world.within;
      const caller = {
        keyId: "some",
        keyName: "some",
        projectNo: null,
        within: null,
        statements: [{ allow: ["queues.*", "workflows.runs.start"], on: [`${within}/*`] }],
      };
      const target = { kind: "workflow", mode: "resume", appId: app.id, workflow: "order", correlationAttribute: "orderKey" };
      const refused = await faultOf(j.call("CreateSubscription", {}, { queueId: "payments", target }, { caller }));
      expect(refused).toMatchObject({ code: "permission_denied", details: { permission: "workflows.runs.resume" } });
    });
  });
}
