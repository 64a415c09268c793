/** Queue to run: subscriptions that start runs, on either engine. `startSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Caller } from "../identity/caller.ts";
import { faultOf, type Ground } from "../queue/world.suite.ts";
import type { Workflow } from "./executor.suite.ts";
import { type JointWorld, openJointWorld } from "./joint-world.suite.ts";
import { runIdOf } from "./run-id.ts";

const echo: Workflow = async (input) => input;

export function startSuite(kind: Ground): void {
  describe(`runs started by messages on ${kind}`, () => {
    let j: JointWorld;
    beforeAll(async () => {
      j = await openJointWorld(kind);
    });
    afterAll(() => j.close());
    beforeEach(() => j.w.world.fresh());

    const subscribe = (queueId: string, appId: string, workflow: string, given: Record<string, unknown> = {}) =>
      j.call("CreateSubscription", {}, { queueId, target: { kind: "workflow", mode: "start", appId, workflow }, ...given });
    const projectId = async (): Promise<string> => {
      const [organization, project] = j.w.world.within.split("/") as [string, string];
      return (await j.w.world.store.run("findProject", organization, project)).project?.id as string;
    };

    it("W12: a message starts one run of the workflow with the message as its input, and is acknowledged", async () => {
      const { row } = await j.w.app({ charge: echo });
      const queueId = await j.queue("orders");
      const made = await subscribe("orders", row.name, "charge");
      expect(made).toMatchObject({
        target: { kind: "workflow", mode: "start", appId: row.id, workflow: "charge" },
        batchSize: 1,
        maxConcurrency: 10,
        signingSecret: null,
      });
      const [messageId] = (await j.send("orders", { body: '{"orderId":1042}', attributes: { source: "web" } })) as [string];
      await j.rest();
      const id = runIdOf(await projectId(), queueId, messageId);
      const run = await j.w.until(row, id, ({ endedAt }) => endedAt !== null);
      expect(run).toMatchObject({ status: "completed", source: { kind: "message", queueId, messageId } });
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(await j.w.output(row, id)).toEqual({
        messageId,
        body: '{"orderId":1042}',
        attributes: { source: "web" },
        sentAt: expect.stringMatching(/^\d{4}-.*Z$/),
        queueId,
      });
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 1, ready: 0, inflight: 0 });
      expect((await j.call("GetSubscription", { subscriptionId: made.id })).status).toMatchObject({ health: "healthy", lastError: null });
    });

    it("WF-09: a message that is delivered again finds its run, also after the subscription has got another workflow", async () => {
      const { row } = await j.w.app({ first: echo, second: echo });
      const queueId = await j.queue("orders");
      const [messageId] = (await j.send("orders", { body: "1" })) as [string];
      const id = runIdOf(await projectId(), queueId, messageId);
      // As after a start that was stored by a process whose acknowledgement was not.
      await j.w.runs.start(row, { workflow: "first", runId: id }, null);
      await subscribe("orders", row.id, "second");
      await j.rest();
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 1, ready: 0 });
      const { runs } = await j.call("ListRuns", { appId: row.id }, undefined, {});
      expect(runs).toMatchObject([{ id, workflow: "first" }]);
    });

    it("W12, WF-09: of two starts of the same message at once one makes the run, one acknowledges, and that is once", async () => {
      const { row } = await j.w.app({ charge: echo });
      const queueId = await j.queue("orders");
      const peer = kind !== "sqlite" ? await j.w.world.peer() : j.w.world.store;
      const { no: queueNo, projectNo } = (await j.w.world.store.run("findQueue", j.w.world.projectNo, "production", "orders")) ?? {
        no: 0,
        projectNo: 0,
      };
      const ids = await j.send("orders", ...Array.from({ length: 10 }, (_, i) => ({ body: String(i) })));
      const { batches } = await j.w.world.store.claim({ queueNo, batchSize: 1, batches: 10, leaseMs: null });
      const project = await projectId();
      for (const [message] of batches) {
        if (message === undefined) throw new Error("nothing was claimed");
        const { seq, receipt, messageId } = message;
        const rows = [
          {
            projectNo,
            appId: row.id,
            workflow: "charge",
            runId: runIdOf(project, queueId, messageId),
            input: new TextEncoder().encode("1"),
            source: { kind: "message" as const, queueId, messageId },
            queueNo,
            seq,
            receipt,
          },
        ];
        const both = await Promise.allSettled([j.w.world.store.run("startRuns", rows), peer.run("startRuns", rows)]);
        const told = both.map((each) => (each.status === "fulfilled" ? each.value[0] : (each.reason as { code: string }).code));
        // Over two databases the one that found the run may acknowledge before the one that made it.
        const acknowledges = kind === "databases" ? ["started", "existing"] : ["started"];
        const others = told.filter((outcome) => !acknowledges.includes(String(outcome)));
        expect(others).toHaveLength(1);
        expect(["stale", "receipt_mismatch"]).toContain(others[0]);
      }
      if (peer !== j.w.world.store) await peer.close();
      await j.rest();
      const { runs } = await j.call("ListRuns", { appId: row.id });
      expect(runs).toHaveLength(ids.length);
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 10, ready: 0, inflight: 0 });
    });

    it("W2, WF-17: what its app has not announced is tried again with backoff, dead-lettered at last, and told in the status", async () => {
      const { row } = await j.w.app({ other: echo }, "pull");
      await j.queue("dead");
      await j.queue("orders", { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 3 } });
      const made = await subscribe("orders", row.id, "charge");
      await j.send("orders", { body: "1" });
      await j.rest();
      expect(await j.stats("orders")).toMatchObject({ scheduled: 1, failed: 1 });
      expect((await j.call("GetSubscription", { subscriptionId: made.id })).status).toMatchObject({
        health: "failing",
        lastError: { class: "workflow", status: 404, message: expect.stringContaining("has not announced it") },
      });
      const { attempts } = await j.call("ListAttempts", { subscriptionId: made.id });
      expect(attempts).toMatchObject([{ outcome: "failed", class: "workflow", status: 404 }]);
      await j.pass(1_000);
      await j.pass(2_000);
      expect(await j.stats("orders")).toMatchObject({ scheduled: 0, ready: 0, deadLettered: 1 });
      expect(await j.stats("dead")).toMatchObject({ ready: 1 });
      // A workflow that is announced meanwhile starts with the next delivery.
      await j.send("orders", { body: "2" });
      await j.rest();
      const announced = { protocol: "1.2", buildId: "b", workflows: [{ name: "charge", timeoutMs: null, concurrency: null }], all: false };
      await j.w.world.store.run("announce", row.no, announced);
      await j.pass(1_000);
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 1 });
      expect((await j.call("ListRuns", { appId: row.id })).runs).toMatchObject([{ workflow: "charge", status: "queued" }]);
      await j.call("DeleteApp", { appId: row.id });
      await j.send("orders", { body: "3" });
      await j.rest();
      expect((await j.call("GetSubscription", { subscriptionId: made.id })).status.lastError?.message).toContain("the app was not found");
    });

    it("W13, WF-17: a group's next message waits until the one before it has started its run", async () => {
      const { row } = await j.w.app({ other: echo }, "pull");
      await j.queue("orders", { type: "fifo" });
      await subscribe("orders", row.id, "charge", { maxConcurrency: 5 });
      await j.send("orders", { body: "1", groupId: "a" }, { body: "2", groupId: "a" }, { body: "3", groupId: "a" });
      await j.rest();
      expect(await j.stats("orders")).toMatchObject({ scheduled: 1, waiting: 2, acknowledged: 0 });
      const announced = { protocol: "1.2", buildId: "b", workflows: [{ name: "charge", timeoutMs: null, concurrency: null }], all: false };
      await j.w.world.store.run("announce", row.no, announced);
      await j.pass(1_000);
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 3 });
      const { runs } = await j.call("ListRuns", { appId: row.id });
      const inputs = [];
      for (const { id } of [...runs].reverse()) inputs.push((await j.call("GetRunInput", { appId: row.id, runId: id })).input);
      expect(inputs).toMatchObject([1, 2, 3].map((n) => ({ body: String(n), groupId: "a", seq: expect.stringMatching(/^\d+$/) })));
    });

    it("W12: subscribing needs the app, one message a call, and the right to start the workflow; nothing is signed, the mode stays", async () => {
      const { row } = await j.w.app({ charge: echo }, "pull");
      await j.queue("orders");
      const within = j.w.world.within;
      expect(await faultOf(subscribe("orders", "nowhere", "charge"))).toMatchObject({
        code: "app_not_found",
        details: { path: "target.appId" },
      });
      expect(await faultOf(subscribe("orders", row.id, "charge", { batchSize: 2 }))).toMatchObject({
        code: "invalid_request",
        details: { path: "batchSize" },
      });
      const caller = (allow: string[], on: string[]): Caller => ({
        keyId: `${allow} ${on}`,
        keyName: "k",
        projectNo: null,
        within: null,
        statements: [
          { allow: ["queues.subscriptions.*"], on: [`${within}/queues/*`] },
          { allow, on },
        ],
      });
      const target = { kind: "workflow", mode: "start", appId: row.name, workflow: "charge" };
      const as = (by: Caller) => j.call("CreateSubscription", {}, { queueId: "orders", target, batchSize: 1 }, { caller: by });
      expect(await faultOf(as(caller(["workflows.runs.start"], [`${within}/apps/${row.name}/refund`])))).toMatchObject({
        code: "permission_denied",
        details: { permission: "workflows.runs.start" },
      });
      expect(await faultOf(as(caller(["workflows.*"], [`${within}/apps/elsewhere/*`])))).toMatchObject({ code: "app_not_found" });
      const made = await as(caller(["workflows.runs.start"], [`${within}/apps/${row.name}/charge`]));
      const subscriptionId = made.id;
      expect((await faultOf(j.call("RotateSubscriptionSecret", { subscriptionId }))).status).toBe(409);
      const update = (body: object) => j.call("UpdateSubscription", { subscriptionId }, body);
      expect(await update({ maxConcurrency: 3 })).toMatchObject({ maxConcurrency: 3, batchSize: 1, target: { workflow: "charge" } });
      expect((await faultOf(update({ batchSize: 5 }))).code).toBe("invalid_request");
      expect((await faultOf(update({ target: { kind: "https", url: "https://hooks.example.com/" } }))).code).toBe("invalid_request");
      expect((await faultOf(update({ target: { ...target, mode: "resume", correlationAttribute: "key" } }))).code).toBe("invalid_request");
    });

    it("P16, P25: a paused subscription starts nothing; after a resume and a restart it does", async () => {
      const { row } = await j.w.app({ charge: echo }, "pull");
      const announced = { protocol: "1.2", buildId: "b", workflows: [{ name: "charge", timeoutMs: null, concurrency: null }], all: false };
      await j.w.world.store.run("announce", row.no, announced);
      await j.queue("orders");
      const { id: subscriptionId } = await subscribe("orders", row.id, "charge");
      await j.call("PauseSubscription", { subscriptionId });
      await j.send("orders", { body: "1" });
      await j.rest();
      expect(await j.stats("orders")).toMatchObject({ ready: 1 });
      await j.call("ResumeSubscription", { subscriptionId });
      await j.restart();
      await j.rest();
      expect(await j.stats("orders")).toMatchObject({ acknowledged: 1 });
    });
  });
}
