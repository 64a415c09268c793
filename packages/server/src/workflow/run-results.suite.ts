/** Run results that go to a queue, on either engine. `runResultSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Caller } from "../identity/caller.ts";
import { faultOf, type Ground } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import { StepFailed, type Workflow } from "./executor.suite.ts";
import { type JointWorld, openJointWorld } from "./joint-world.suite.ts";
import { placedResultChore } from "./placed-results.ts";

const hour = 3_600_000;
const workflows: Record<string, Workflow> = {
  echo: async (input) => input,
  large: async (length: number) => "x".repeat(length),
  fail: async () => {
    throw new StepFailed({ code: "user", name: "CardDeclinedError", message: "Card declined" });
  },
  sleepy: async (_, step) => step.sleep("nap", hour),
};

export function runResultSuite(kind: Ground): void {
  describe(`run results on ${kind}`, () => {
    let j: JointWorld;
    let app: AppRow;
    beforeAll(async () => {
      j = await openJointWorld(kind);
    });
    afterAll(() => j.close());
    beforeEach(async () => {
      await j.w.world.fresh();
      app = (await j.w.app(workflows)).row;
    });

    const notify = (queueId: string, given: Record<string, unknown> = {}) =>
      j.call(
        "UpdateApp",
        { appId: app.id },
        { notifications: { queueId, on: ["completed", "failed", "cancelled", "timedOut"], ...given } },
      );
    const ended = async (workflow: string, input?: unknown): Promise<string> => {
      const id = await j.w.start(app, workflow, input);
      await j.w.until(app, id, ({ endedAt }) => endedAt !== null);
      if (kind === "databases") await sendWaiting();
      return id;
    };
    /** What housekeeping does for results that wait; those for another database always do. */
    const sendWaiting = async (): Promise<{ nextInMs: number | null }> =>
      kind === "databases" ? { nextInMs: await placedResultChore(j.w.world.store).run() } : j.w.world.store.run("sendRunResults");

    const sendAllWaiting = async (): Promise<void> => {
      for (let round = 0; round < 40; round++) {
        const { nextInMs } = await sendWaiting();
        if (nextInMs === null) return;
        await j.w.pass(nextInMs + j.w.world.slackMs);
      }
    };

    it("W17: every end sends one message, with the output or the error", async () => {
      const queueId = await j.queue("results");
      expect((await notify("results")).notifications).toEqual({
        queueId,
        on: ["completed", "failed", "cancelled", "timedOut"],
        workflows: null,
        groupBy: "run",
      });
      const done = await ended("echo", { n: 1 });
      const failed = await ended("fail");
      const cancelled = await j.w.start(app, "sleepy");
      await j.w.until(app, cancelled, ({ status }) => status === "waiting");
      await j.call("CancelRun", { appId: app.id, runId: cancelled });
      await j.w.until(app, cancelled, ({ endedAt }) => endedAt !== null);
      const timed = await j.call("StartRun", { appId: app.id }, { workflow: "sleepy", timeoutSeconds: 60 });
      await j.w.until(app, timed.id, ({ status }) => status === "waiting");
      await j.w.pass(60_000 + j.w.world.slackMs);
      await j.w.world.store.run("timeOutRuns");
      const times = { startedAt: expect.stringMatching(/Z$/), endedAt: expect.stringMatching(/Z$/) };
      const base = { type: "workflows.run.ended", appId: app.id, attempt: 1, ...times };
      expect(await j.contents("results")).toEqual([
        { ...base, runId: done, workflow: "echo", status: "completed", output: { n: 1 } },
        {
          ...base,
          runId: failed,
          workflow: "fail",
          status: "failed",
          error: { code: "user", name: "CardDeclinedError", message: "Card declined" },
        },
        { ...base, runId: cancelled, workflow: "sleepy", status: "cancelled" },
        { ...base, runId: timed.id, workflow: "sleepy", status: "timedOut", error: expect.objectContaining({ code: "timeout" }) },
      ]);
      // On a standard queue results wait for nobody.
      const { messages } = await j.w.world.call("PeekMessages", { queueId: "results" });
      expect(messages.map(({ groupId, state }) => [groupId, state])).toEqual(messages.map(() => [undefined, "ready"]));
    });

    it("W17: only the statuses and workflows that were asked for send; null turns it off", async () => {
      await j.queue("results");
      await notify("results", { on: ["failed"], workflows: ["fail"] });
      await ended("echo", 1);
      await ended("fail");
      expect(await j.contents("results")).toMatchObject([{ workflow: "fail", status: "failed" }]);
      expect((await j.call("UpdateApp", { appId: app.id }, { notifications: null })).notifications).toBeNull();
      await ended("fail");
      expect(await j.contents("results")).toHaveLength(1);
    });

    it("W17, WF-16: an output over 256 KiB is named by the path that reads it", async () => {
      await j.queue("results");
      await notify("results");
      const id = await ended("large", 262_144);
      const [body] = await j.contents("results");
      expect(body).not.toHaveProperty("output");
      const { id: projectId, organization } = (await j.w.world.store.run("findProject", "acme", j.w.world.within.split("/")[1] as string))
        .project as { id: string; organization: { id: string } };
      expect(body?.outputRef).toBe(`/v1/organizations/${organization.id}/projects/${projectId}/apps/${app.id}/runs/${id}/output`);
      expect((await j.call("GetRunOutput", { appId: app.id, runId: id })).output).toHaveLength(262_144);
      await ended("large", 200_000);
      expect((await j.contents("results"))[1]?.output).toHaveLength(200_000);
    });

    it("W17, WF-16: a retried run that ends again sends another message; on FIFO queues each (run, attempt, status) is there once", async () => {
      await j.queue("results", { type: "fifo" });
      await notify("results");
      const id = await ended("fail");
      await j.call("RetryRun", { appId: app.id, runId: id });
      await j.w.until(app, id, ({ attempt, endedAt }) => attempt === 2 && endedAt !== null);
      await j.contents("results");
      const { messages } = await j.w.world.call("PeekMessages", { queueId: "results" });
      expect(messages.map(({ groupId, dedupId }) => [groupId, dedupId])).toEqual([
        [id, `${id}:1:failed`],
        [id, `${id}:2:failed`],
      ]);
    });

    it("W17, WF-16: grouped by workflow the results of a workflow stand in the order of its endings, also behind one that had to wait", async () => {
      await j.queue("results", { type: "fifo", maxBytes: 2_000 });
      await notify("results", { groupBy: "workflow" });
      const ids: string[] = [];
      for (let n = 0; n < 12; n++) ids.push(await ended("echo", n));
      const fit = (await j.contents("results")).length;
      expect(fit).toBeGreaterThan(1);
      expect(fit).toBeLessThan(12);
      await j.w.world.call("UpdateQueue", { queueId: "results" }, { maxBytes: null });
      // With room again, what ends now still stands behind what waits.
      ids.push(await ended("echo", 12));
      if (kind !== "databases") expect((await j.contents("results")).length).toBe(fit);
      await sendAllWaiting();
      const messages = await j.contents("results");
      expect(messages.map(({ runId }) => runId)).toEqual(ids);
      expect((await j.w.world.call("PeekMessages", { queueId: "results" })).messages.every(({ groupId }) => groupId === "echo")).toBe(true);
    });

    it("W17: results behind one that pauses are not looked at again before it is", async () => {
      await j.queue("results", { type: "fifo", maxBytes: 1 });
      await notify("results", { groupBy: "workflow" });
      for (let n = 0; n < 3; n++) await ended("echo", n);
      for (let round = 0; round < 3; round++) await j.w.pass(((await sendWaiting()).nextInMs as number) + j.w.world.slackMs);
      await sendWaiting();
      expect((await sendWaiting()).nextInMs).toBeGreaterThan(0);
      await j.w.world.call("UpdateQueue", { queueId: "results" }, { maxBytes: null });
      await sendAllWaiting();
      expect(await j.contents("results")).toHaveLength(3);
    });

    it("W17, WF-16: a queue that can't take a result never keeps the run from ending; it is tried for 24 hours, then dropped and counted", async () => {
      await j.queue("results", { maxBytes: 1 });
      await notify("results");
      const id = await ended("echo", 1);
      expect((await j.w.run(app, id)).status).toBe("completed");
      await j.w.pass(23 * hour);
      await sendWaiting();
      expect((await j.call("GetApp", { appId: app.id })).droppedResults).toBe(0);
      await j.w.world.call("UpdateQueue", { queueId: "results" }, { maxBytes: null });
      await j.w.pass(hour / 2);
      await sendWaiting();
      expect(await j.contents("results")).toMatchObject([{ runId: id }]);
      await j.w.world.call("PurgeQueue", { queueId: "results" }, {});
      await j.w.world.call("UpdateQueue", { queueId: "results" }, { maxBytes: 1 });
      await ended("echo", 2);
      await j.w.pass(25 * hour);
      await sendWaiting();
      expect((await j.call("GetApp", { appId: app.id })).droppedResults).toBe(1);
      expect(await j.contents("results")).toEqual([]);
    });

    it("W17, WF-16: a deleted queue drops results at once", async () => {
      await j.queue("results");
      await notify("results");
      await j.w.world.call("DeleteQueue", { queueId: "results" });
      const id = await ended("echo", 1);
      expect((await j.w.run(app, id)).status).toBe("completed");
      expect((await j.call("GetApp", { appId: app.id })).droppedResults).toBe(1);
      expect((await sendWaiting()).nextInMs).toBeNull();
    });

    it("W17: results may go only where the caller itself may send", async () => {
      await j.queue("results");
      const { within } = j.w.world;
      const caller: Caller = {
        keyId: "some",
        keyName: "some",
        projectNo: null,
        within: null,
        statements: [
          { allow: ["workflows.apps.*"], on: [`${within}/apps/*`] },
          { allow: ["queues.queues.get"], on: [`${within}/queues/*`] },
        ],
      };
      const given = { notifications: { queueId: "results", on: ["failed"] } };
      expect(await faultOf(j.call("UpdateApp", { appId: app.id }, given, { caller }))).toMatchObject({
        code: "permission_denied",
        details: { permission: "queues.messages.send", path: "notifications.queueId" },
      });
      const nowhere = { notifications: { queueId: "nowhere", on: ["failed"] } };
      expect((await faultOf(j.call("UpdateApp", { appId: app.id }, nowhere))).code).toBe("queue_not_found");
    });
  });
}
