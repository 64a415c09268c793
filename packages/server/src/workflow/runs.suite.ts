/** Apps and runs through their API, on either engine. `runsSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Caller } from "../identity/caller.ts";
import { createHousekeeping } from "../queue/housekeeping.ts";
import { type Engine, faultOf } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import { workflowChores } from "./chores.ts";
import { StepFailed, type Workflow } from "./executor.suite.ts";
import { type JointWorld, openJointWorld } from "./joint-world.suite.ts";

const day = 86_400_000;
const key = (name: string) => ({ scope: "s", key: name, hash: "h" });
const workflows: Record<string, Workflow> = {
  echo: async (input) => input ?? null,
  sleepy: async (_, step) => step.sleep("nap", 3_600_000),
  fail: async (_, step) => {
    await step.run("first", () => "kept");
    throw new StepFailed({ code: "user", name: "CardDeclinedError", message: "Card declined: ÄRGER" });
  },
};

export function runsSuite(kind: Engine): void {
  describe(`apps and runs on ${kind}`, () => {
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

    const at = (runId?: string) => ({ appId: app.id, ...(runId === undefined ? {} : { runId }) });
    const ended = async (workflow: string, input?: unknown): Promise<string> => {
      const id = await j.w.start(app, workflow, input);
      await j.w.until(app, id, ({ endedAt }) => endedAt !== null);
      return id;
    };
    const waiting = async (): Promise<string> => {
      const id = await j.w.start(app, "sleepy");
      await j.w.until(app, id, ({ status }) => status === "waiting");
      return id;
    };
    const listed = async (query: Record<string, unknown> = {}, caller?: Caller) =>
      (await j.call("ListRuns", at(), undefined, { query, ...(caller === undefined ? {} : { caller }) })).runs.map(({ id }) => id);
    const holder = (allow: string[], on: string[]): Caller => ({
      keyId: `${allow} ${on}`,
      keyName: "k",
      projectNo: null,
      within: null,
      statements: [{ allow, on }],
    });

    it("W1, A3: an app has an id, a resource name and defaults; a push app's secret is shown once; it is found by all its names", async () => {
      const url = "https://app.example.com/workflows";
      const push = { name: "pushed", mode: "push", url };
      expect((await faultOf(j.call("CreateApp", {}, { ...push, url: "http://127.0.0.1/" }))).code).toBe("invalid_target");
      const made = await j.call("CreateApp", {}, push, { key: key("made") });
      expect(made).toMatchObject({ name: "pushed", mode: "push", url, maxConcurrency: 100, state: "active", notifications: null });
      expect(made.resourceName).toMatch(/^wfa_[a-z0-9]{12}$/);
      expect(made.signingSecret).toMatch(/^whsec_[A-Za-z0-9]{43}$/);
      expect(await j.call("CreateApp", {}, push, { key: key("made") })).toEqual({ ...made, signingSecret: null });
      for (const appId of [made.id, made.resourceName, made.name]) expect((await j.call("GetApp", { appId })).id).toBe(made.id);
      expect((await faultOf(j.call("CreateApp", {}, push))).code).toBe("name_taken");
      expect((await faultOf(j.call("GetApp", { appId: "nowhere" }))).code).toBe("app_not_found");
      expect((await faultOf(j.call("CreateApp", {}, { name: "a", mode: "push" }))).details?.path).toBe("url");
      expect((await faultOf(j.call("CreateApp", {}, { name: "a", mode: "pull", url }))).details?.path).toBe("url");
      const pull = await j.call("CreateApp", {}, { name: "pulled", mode: "pull", maxConcurrency: 3 });
      expect(pull).toMatchObject({ url: null, signingSecret: null, maxConcurrency: 3 });
      const first = await j.call("ListApps", {}, undefined, { query: { limit: 2 } });
      const second = await j.call("ListApps", {}, undefined, { query: { limit: 2, cursor: first.nextCursor } });
      expect([...first.apps, ...second.apps].map(({ name }) => name)).toEqual([app.name, "pulled", "pushed"]);
      expect(second.nextCursor).toBeNull();
      // The queue of its wake-ups is nobody's to see.
      expect((await j.w.world.call("ListQueues", {})).queues).toEqual([]);
    });

    it("W1, P4: rotating a secret shows a new one once; a pull app has none; an update changes what is given", async () => {
      const rotated = await j.call("RotateAppSecret", at(), undefined, { key: key("r") });
      expect(rotated.signingSecret).toMatch(/^whsec_/);
      expect((await j.call("RotateAppSecret", at(), undefined, { key: key("r") })).signingSecret).toBeNull();
      const { id } = await j.call("CreateApp", {}, { name: "pulled", mode: "pull" });
      expect((await faultOf(j.call("RotateAppSecret", { appId: id }))).code).toBe("not_signed");
      expect(await j.call("UpdateApp", at(), { maxConcurrency: 7 })).toMatchObject({ maxConcurrency: 7, url: app.url, state: "active" });
      await expect(j.call("UpdateApp", at(), { maxConcurrency: 1_001 })).rejects.toThrow();
      expect((await faultOf(j.call("UpdateApp", { appId: id }, { url: "https://app.example.com/" }))).code).toBe("invalid_request");
    });

    it("W1: a paused app executes nothing; what was started meanwhile goes on when it is active again", async () => {
      await j.call("UpdateApp", at(), { state: "paused" });
      const id = await j.w.start(app, "echo", 1);
      await j.pass(60_000);
      expect((await j.w.run(app, id)).status).toBe("queued");
      await j.call("UpdateApp", at(), { state: "active" });
      expect((await j.w.until(app, id, ({ endedAt }) => endedAt !== null)).status).toBe("completed");
    });

    it("W2: a sync says which workflows there are; a start of another one is refused", async () => {
      const { workflows: shown } = await j.call("ListWorkflows", at());
      expect(shown.map(({ name }) => name)).toEqual(["echo", "fail", "sleepy"]);
      expect((await faultOf(j.call("StartRun", at(), { workflow: "gone" }))).code).toBe("workflow_not_found");
      j.w.executor.workflows = { echo: workflows.echo as Workflow, fresh: workflows.echo as Workflow };
      j.w.executor.buildId = "build-2";
      expect(await j.call("SyncApp", at())).toMatchObject({ buildId: "build-2", protocol: "1.2", syncError: null });
      expect((await j.call("ListWorkflows", at())).workflows.map(({ name }) => name)).toEqual(["echo", "fresh"]);
      j.w.executor.buildId = "build-1";
    });

    it("W3: a run is started once per key and per run id, with an input of at most 262,144 bytes, wrappers not counted", async () => {
      const body = { workflow: "echo", input: { orderId: 1042 } };
      const run = await j.call("StartRun", at(), body, { key: key("start") });
      expect(run).toMatchObject({ appId: app.id, workflow: "echo", status: "queued", attempt: 1, source: { kind: "api" }, error: null });
      expect((await j.call("StartRun", at(), body, { key: key("start") })).id).toBe(run.id);
      await j.w.until(app, run.id, ({ endedAt }) => endedAt !== null);
      expect(await j.call("GetRunInput", at(run.id))).toEqual({ input: { orderId: 1042 } });
      expect(await j.call("GetRunOutput", at(run.id))).toEqual({ output: { orderId: 1042 } });
      const runId = "01999f60-4d5e-7f6a-8b9c-0d1e2f3a4b5c";
      expect((await j.call("StartRun", at(), { workflow: "echo", runId })).id).toBe(runId);
      expect((await faultOf(j.call("StartRun", at(), { workflow: "echo", runId }))).code).toBe("run_exists");
      const most = "é".repeat((262_144 - 2) / 2);
      await j.call("StartRun", at(), { workflow: "echo", input: most });
      expect(await faultOf(j.call("StartRun", at(), { workflow: "echo", input: `${most}x` }))).toMatchObject({
        code: "payload_too_large",
        details: { path: "input", got: "262145" },
      });
      expect((await listed()).length).toBe(3);
    });

    it("W3: runs are listed newest first, in pages, by status, workflow, time and text", async () => {
      const first = await ended("echo", 1);
      await j.pass(60_000);
      const failed = await ended("fail");
      const open = await waiting();
      expect(await listed()).toEqual([open, failed, first]);
      expect(await listed({ status: "failed" })).toEqual([failed]);
      expect(await listed({ status: "completed" })).toEqual([first]);
      expect(await listed({ workflow: "sleepy" })).toEqual([open]);
      const { createdAt } = await j.call("GetRun", at(failed));
      expect(await listed({ since: createdAt })).toEqual([open, failed]);
      expect(await listed({ until: createdAt })).toEqual([first]);
      expect(await listed({ text: "cardDECLINED" })).toEqual([failed]);
      expect(await listed({ text: "ÄRGER" })).toEqual([failed]);
      expect(await listed({ text: first.slice(-12) })).toEqual([first]);
      expect(await listed({ text: "%" })).toEqual([]);
      const page = await j.call("ListRuns", at(), undefined, { query: { limit: 2 } });
      const rest = await j.call("ListRuns", at(), undefined, { query: { limit: 2, cursor: page.nextCursor } });
      expect([...page.runs, ...rest.runs].map(({ id }) => id)).toEqual([open, failed, first]);
      expect(rest.nextCursor).toBeNull();
      const foreign = j.call("ListRuns", at(), undefined, { query: { status: "failed", cursor: page.nextCursor } });
      expect((await faultOf(foreign)).details?.path).toBe("cursor");
    });

    it("W3, W10: a run that was not begun is cancelled at once, an open one by its code; one that ended can't be", async () => {
      await j.call("UpdateApp", at(), { state: "paused" });
      const queued = await j.w.start(app, "echo");
      expect(await j.call("CancelRun", at(queued))).toMatchObject({ status: "cancelled", endedAt: expect.any(String) });
      await j.call("UpdateApp", at(), { state: "active" });
      const open = await waiting();
      expect(await j.call("CancelRun", at(open))).toMatchObject({ status: "waiting", cancelledAt: expect.any(String) });
      expect((await j.w.until(app, open, ({ endedAt }) => endedAt !== null)).status).toBe("cancelled");
      expect((await j.call("ListSteps", at(open))).steps).toMatchObject([{ id: "nap", type: "sleep", status: "cancelled" }]);
      for (const id of [queued, open]) expect((await faultOf(j.call("CancelRun", at(id)))).code).toBe("run_ended");
      await j.pass(2 * 3_600_000);
      expect((await j.w.run(app, open)).executions).toBe(2);
    });

    it("W3, W10: a retry is the next attempt with the completed steps; a run that goes on by itself can't be retried", async () => {
      const id = await ended("fail");
      j.w.executor.effects.length = 0;
      expect(await j.call("RetryRun", at(id))).toMatchObject({ status: "queued", attempt: 2, error: null, endedAt: null, steps: 1 });
      const again = await j.w.until(app, id, ({ endedAt }) => endedAt !== null);
      expect(again).toMatchObject({ status: "failed", attempt: 2 });
      expect(j.w.executor.effects).toEqual([]);
      expect((await faultOf(j.call("RetryRun", at(await waiting())))).code).toBe("run_not_ended");
    });

    it("W3: many runs are cancelled or retried by id or filter; what can't be is passed over", async () => {
      const failed = [await ended("fail"), await ended("fail")];
      const open = [await waiting(), await waiting()];
      const cancelled = await j.call("CancelRuns", at(), { runIds: [...open, failed[0]] });
      expect([[...cancelled.runIds].sort(), cancelled.more]).toEqual([[...open].sort(), false]);
      const retried = await j.call("RetryRuns", at(), { filter: { status: "failed", workflow: "fail" } });
      expect([...retried.runIds].sort()).toEqual([...failed].sort());
      for (const id of failed) await j.w.until(app, id, ({ attempt, endedAt }) => attempt === 2 && endedAt !== null);
      const unknown = j.call("CancelRuns", at(), { runIds: ["01999f60-0000-7000-8000-000000000000"] });
      expect((await faultOf(unknown)).code).toBe("run_not_found");
      await expect(j.call("CancelRuns", at(), { runIds: open, filter: {} })).rejects.toThrow("either runIds or filter");
    });

    it("W3: a filter's runs are cancelled a thousand at a time, each looked at once; a retry leaves completed ones alone unless asked", async () => {
      const completed = await ended("echo");
      await j.pass(1_000);
      const failed = await ended("fail");
      await j.call("UpdateApp", at(), { state: "paused" });
      const start = (n: number) => j.w.runs.start(app, { workflow: "echo", input: n }, null);
      const started = [await start(0), ...(await Promise.all(Array.from({ length: 1_000 }, (_, n) => start(n + 1))))];
      const first = await j.call("CancelRuns", at(), { filter: {} });
      expect([first.runIds.length, first.more]).toEqual([1_000, true]);
      const rest = await j.call("CancelRuns", at(), { filter: {}, cursor: first.nextCursor ?? "" });
      expect(new Set([...first.runIds, ...rest.runIds])).toEqual(new Set(started.map(({ id }) => id)));
      expect([rest.runIds.length, rest.nextCursor]).toEqual([1, null]);
      const foreign = j.call("CancelRuns", at(), { filter: { workflow: "echo" }, cursor: first.nextCursor ?? "" });
      expect((await faultOf(foreign)).details?.path).toBe("cursor");

      expect((await j.call("RetryRuns", at(), { filter: { workflow: "fail" } })).runIds).toEqual([failed]);
      const before = (await j.call("GetRun", at(completed))).createdAt;
      const until = new Date(Date.parse(before) + 1).toISOString();
      expect((await j.call("RetryRuns", at(), { filter: { until } })).runIds).toEqual([]);
      expect((await j.call("RetryRuns", at(), { filter: { until, status: "completed" } })).runIds).toEqual([completed]);
    });

    it("W3: a run ends as timedOut when its time is over, also while it waits; the default is 30 days", async () => {
      const { id } = await j.call("StartRun", at(), { workflow: "sleepy", timeoutSeconds: 60 });
      const long = await waiting();
      await j.w.until(app, id, ({ status }) => status === "waiting");
      await j.w.pass(60_000 + j.w.world.slackMs);
      await j.w.world.store.run("timeOutRuns");
      expect(await j.call("GetRun", at(id))).toMatchObject({ status: "timedOut", error: { code: "timeout", name: "TimeoutError" } });
      const run = await j.call("GetRun", at(long));
      expect(run.endedAt).toBeNull();
      expect(Date.parse(run.timeoutAt) - Date.parse(run.createdAt)).toBe(30 * day);
    });

    it("W11, W3: a run that takes too long is ended within a second, also one that begins right after a look", async () => {
      const { store, clock } = j.w.world;
      const housekeeping = createHousekeeping({ clock, chores: workflowChores(store), failed: (_, error) => expect(error).toBeNull() });
      try {
        for (const offsetMs of [10, 500, 990]) {
          clock.advance(offsetMs);
          await housekeeping.settled();
          const { id } = await j.call("StartRun", at(), { workflow: "sleepy", timeoutSeconds: 1 });
          const begunAt = clock.now();
          for (let run = await j.w.run(app, id); run.endedAt === null; run = await j.w.run(app, id)) {
            expect(clock.now() - begunAt).toBeLessThan(2_000);
            clock.advance(50);
            await housekeeping.settled();
          }
          const { status, endedAt, timeoutAt } = await j.w.run(app, id);
          expect(status).toBe("timedOut");
          expect((endedAt ?? 0) - timeoutAt).toBeLessThan(1_000 + j.w.world.slackMs);
        }
      } finally {
        await housekeeping.close();
      }
    });

    it("W3, W12: a run that ended 30 days ago is removed with its steps; the others stay", async () => {
      const old = await ended("fail");
      await j.w.pass(day);
      const young = await ended("fail");
      await j.w.pass(29 * day + j.w.world.slackMs);
      while (await j.w.world.store.run("removeRuns"));
      expect((await faultOf(j.call("GetRun", at(old)))).code).toBe("run_not_found");
      expect((await j.call("GetRun", at(young))).id).toBe(young);
      expect(await j.w.world.count("SELECT count(*) AS n FROM step WHERE run_no NOT IN (SELECT no FROM run)")).toBe(0);
    });

    it("W1: deleting an app ends its runs' wake-ups, and they are removed bit by bit; its name is free again", async () => {
      await ended("echo");
      const id = await waiting();
      await j.call("DeleteApp", at());
      expect((await faultOf(j.call("GetRun", at(id)))).code).toBe("app_not_found");
      while (await j.w.world.store.run("removeRuns"));
      expect(await j.w.world.count(`SELECT count(*) AS n FROM run WHERE app_no = ${app.no}`)).toBe(0);
      expect((await j.call("CreateApp", {}, { name: app.name, mode: "pull" })).name).toBe(app.name);
    });

    it("W1: a project that holds an app is not deleted", async () => {
      const remove = () => j.w.world.store.run("deleteProject", j.w.world.projectNo);
      expect((await faultOf(remove())).code).toBe("not_empty");
      await j.call("DeleteApp", at());
      await remove();
    });

    it("W4, A6: permissions are checked on the workflow; beyond the key's reach there is no app and no run, and no payload without its own", async () => {
      const { within } = j.w.world;
      const mine = `${within}/apps/${app.name}/echo`;
      const id = await ended("echo", 1);
      const other = await ended("fail");
      const operator = holder(["workflows.runs.list", "workflows.runs.get", "workflows.runs.start"], [mine]);
      expect(await listed({}, operator)).toEqual([id]);
      expect((await j.call("GetRun", at(id), undefined, { caller: operator })).id).toBe(id);
      expect((await faultOf(j.call("GetRun", at(other), undefined, { caller: operator }))).code).toBe("run_not_found");
      const payload = await faultOf(j.call("GetRunOutput", at(id), undefined, { caller: operator }));
      expect(payload).toMatchObject({ code: "permission_denied", details: { permission: "workflows.runs.getPayload" } });
      expect((await faultOf(j.call("StartRun", at(), { workflow: "fail" }, { caller: operator }))).code).toBe("permission_denied");
      expect((await j.call("StartRun", at(), { workflow: "echo" }, { caller: operator })).workflow).toBe("echo");
      expect((await faultOf(j.call("GetApp", at(), undefined, { caller: operator }))).details?.permission).toBe("workflows.apps.get");
      const refused = j.call("CancelRuns", at(), { runIds: [id] }, { caller: operator });
      expect(await faultOf(refused)).toMatchObject({ code: "permission_denied", details: { permission: "workflows.runs.cancel" } });
      expect(await j.call("CancelRuns", at(), { filter: {} }, { caller: operator })).toEqual({ runIds: [], more: false, nextCursor: null });
      const stranger = holder(["*"], [`${within}/apps/elsewhere/*`]);
      for (const call of [
        () => j.call("GetApp", at(), undefined, { caller: stranger }),
        () => j.call("GetRun", at(id), undefined, { caller: stranger }),
        () => j.call("ListRuns", at(), undefined, { caller: stranger }),
        () => j.call("StartRun", at(), { workflow: "echo" }, { caller: stranger }),
      ])
        expect((await faultOf(call())).code).toBe("app_not_found");
      await j.call("CreateApp", {}, { name: "elsewhere", mode: "pull" });
      const lister = holder(["workflows.apps.list"], [`${within}/apps/elsewhere`]);
      expect((await j.call("ListApps", {}, undefined, { caller: lister })).apps.map(({ name }) => name)).toEqual(["elsewhere"]);
      expect(await j.call("ListApps", {}, undefined, { caller: operator })).toEqual({ apps: [], nextCursor: null });
      const steps = holder(["workflows.runs.get"], [`${within}/apps/${app.name}/*`]);
      expect((await j.call("ListSteps", at(other), undefined, { caller: steps })).steps[0]).not.toHaveProperty("result");
      expect((await j.call("ListSteps", at(other))).steps).toMatchObject([{ id: "first", status: "completed", result: "kept" }]);
    });
  });
}
