/** What becomes of runs, on either engine: `engineSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import { type EngineWorld, openEngineWorld } from "./engine-world.suite.ts";
import { isGenuine, type Workflow } from "./executor.suite.ts";

export function engineSuite(kind: Engine): void {
  describe(`workflow engine on ${kind}`, () => {
    let w: EngineWorld;
    beforeAll(async () => {
      w = await openEngineWorld(kind);
    });
    afterAll(() => w.close());
    beforeEach(async () => {
      await w.world.fresh();
      w.executor.tasks.length = 0;
      w.executor.effects.length = 0;
      w.executor.buildId = "build-1";
      w.executor.protocol = "1.2";
      w.executor.concurrency = {};
    });

    it("W2, W5, W6: a run of a synced push app is executed by one signed request and completes with its output", async () => {
      const greet: Workflow = async (input: { name: string }, step) => ({ greeting: await step.run("greet", () => `Hello ${input.name}`) });
      const { row, secret } = await w.app({ greet });
      const before = w.executor.receiver.requests.length;
      const id = await w.start(row, "greet", { name: "Ada" });
      expect(await w.until(row, id, (run) => run.endedAt !== null)).toMatchObject({ status: "completed", executions: 1, steps: 1 });
      expect(await w.output(row, id)).toEqual({ greeting: "Hello Ada" });
      const request = w.executor.receiver.requests[before];
      expect(request !== undefined && isGenuine(request, secret as string)).toBe(true);
      expect(await w.steps(row, id)).toMatchObject([{ id: "greet", type: "run", status: "completed", attempt: 1, endedOrder: 1 }]);
    });

    it("W2: an app that was away when it was made is asked again until it answers, and says meanwhile why it has no workflows", async () => {
      w.executor.workflows = { hello: async () => "hello" };
      w.executor.instead({ status: 503, body: "starting" });
      w.executor.instead({ status: 503, body: "starting" });
      const url = `https://app.example.com:${w.executor.receiver.port}/workflows`;
      const made = await w.apps.create(w.world.projectNo, { name: "late", mode: "push", url, notifications: null }, null);
      const look = async () => (await w.apps.find(w.world.projectNo, made.id)) as AppRow;
      await w.engine.rest();
      expect(await look()).toMatchObject({ syncedAt: null, syncError: "HTTP 503: starting" });
      await w.pass(5_000);
      await w.engine.rest();
      expect((await look()).syncedAt).toBe(null);
      await w.pass(10_000);
      await w.engine.rest();
      const row = await look();
      expect(row).toMatchObject({ buildId: "build-1", protocol: "1.2", syncError: null });
      await w.ended(row, await w.start(row, "hello"));
    });

    it("W7, W8: steps that run side by side are recorded each once, and a replay tells of their ends in the order in which the code learned", async () => {
      const orders: string[][] = [];
      const race: Workflow = async (_input, step) => {
        const order: string[] = [];
        const note = (name: string) => () => order.push(name);
        const slow = step.sleep("slow", 5_000).then(note("slow"));
        const quick = step.run("quick", () => 1).then(note("quick"));
        await Promise.all([slow, quick]);
        await step.sleep("pause", 1_000);
        orders.push(order);
        return order;
      };
      const { row } = await w.app({ race });
      const id = await w.start(row, "race");
      await w.ended(row, id);
      expect(await w.output(row, id)).toEqual(["quick", "slow"]);
      expect(orders).toEqual([["quick", "slow"]]);
      expect(w.executor.effects).toEqual(["quick"]);
      // Which of the two is recorded first is open; which ended first is not.
      const ends = Object.fromEntries((await w.steps(row, id)).map((step) => [step.id, step.endedOrder]));
      expect(ends).toEqual({ quick: 1, slow: 2, pause: 3 });
    });

    it("W7: a step is tried again after its pause, across executions, and fails for good after its last try", async () => {
      const tries: number[] = [];
      const shaky: Workflow = async (_input, step) =>
        step.run(
          "shaky",
          (attempt) => {
            tries.push(attempt);
            if (attempt < 3) throw new TypeError("not yet");
            return "at last";
          },
          { most: 3, delayMs: 60_000 },
        );
      const hopeless: Workflow = async (_input, step) =>
        step.run("hopeless", () => Promise.reject(new RangeError("never")), { most: 2, delayMs: 1_000 });
      const { row } = await w.app({ shaky, hopeless });
      const id = await w.start(row, "shaky");
      const waiting = await w.until(row, id, ({ status }) => status === "waiting");
      expect(waiting.executions).toBe(1);
      expect(await w.steps(row, id)).toMatchObject([{ status: "retrying", attempt: 1, error: { name: "TypeError" } }]);
      await w.pass(59_000);
      await w.engine.rest();
      if (kind === "sqlite") expect(tries).toEqual([1]);
      expect(await w.ended(row, id, 10_000)).toMatchObject({ status: "completed", executions: 3 });
      expect(tries).toEqual([1, 2, 3]);
      const failed = await w.ended(row, await w.start(row, "hopeless"));
      expect(failed).toMatchObject({ status: "failed", error: { code: "user", name: "RangeError", message: "never" } });
    });

    it("W3, W7: a child's output or error is its parent's step; one that is not waited for answers its id at once", async () => {
      const child: Workflow = async (input: number) => {
        if (input < 0) throw new RangeError("negative");
        return input * 2;
      };
      const parent: Workflow = async (_input, step) => {
        const [two, four] = await Promise.all([step.child("one", "child", 1), step.child("two", "child", 2)]);
        const loose = (await step.child("loose", "child", 3, false)) as { runId: string };
        const bad = await step.child("bad", "child", -1).catch((error: Error) => error.message);
        const unknown = await step.child("unknown", "nothing", 0).catch((error: { error: { code: string } }) => error.error.code);
        return { two, four, loose: typeof loose.runId, bad, unknown };
      };
      const { row } = await w.app({ child, parent });
      const id = await w.start(row, "parent");
      await w.ended(row, id);
      expect(await w.output(row, id)).toEqual({ two: 2, four: 4, loose: "string", bad: "negative", unknown: "workflow_not_found" });
      const runs = await w.runs.list(row, {}, { before: null, limit: 50 }, () => true);
      expect(runs.runs.map(({ workflow }) => workflow).sort()).toEqual(["child", "child", "child", "child", "parent"]);
    });

    it("W18: no more executions of a workflow are under way at once than it allows, whatever ends them; what found no place waits without cost", async () => {
      let under = 0;
      let most = 0;
      const narrow: Workflow = async (n: number, step) => {
        await step.run("in", async () => {
          most = Math.max(most, ++under);
          // Long enough for others to come in, if they may.
          for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
          under--;
          if (n % 5 === 4) throw new Error("no");
        });
        await step.sleep("nap", 1_000);
      };
      const wide: Workflow = async () => "wide";
      w.executor.concurrency = { narrow: 2 };
      const { row } = await w.app({ narrow, wide });
      const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => w.start(row, "narrow", n)));
      await w.ended(row, await w.start(row, "wide"));
      for (const id of ids) await w.ended(row, id);
      expect(most).toBeLessThanOrEqual(2);
      const runs = await Promise.all(ids.map((id) => w.run(row, id)));
      expect(runs.map(({ status }) => status)).toEqual(ids.map((_, n) => (n % 5 === 4 ? "failed" : "completed")));
      expect(await w.world.count("SELECT count(*) AS n FROM run WHERE parked = 1")).toBe(0);
    });

    it("W18: a limit that is raised lets parked runs go on, and a cancelled run frees its place", async () => {
      let open: () => void = () => {};
      const hold = new Promise<void>((resolve) => {
        open = resolve;
      });
      const held: Workflow = async (_input, step) => step.run("held", () => hold.then(() => 1));
      w.executor.concurrency = { held: 1 };
      const { row } = await w.app({ held });
      const ids: string[] = [];
      for (let n = 0; n < 3; n++) ids.push(await w.start(row, "held", n));
      const running = async () => (await Promise.all(ids.map((id) => w.run(row, id)))).filter(({ status }) => status === "running").length;
      await w.seen(row, ids[0] as string, ({ status }) => status === "running");
      await w.seen(row, ids[2] as string, () => true);
      while ((await w.world.count("SELECT count(*) AS n FROM run WHERE parked = 1")) < 2)
        await new Promise((resolve) => setImmediate(resolve));
      expect(await running()).toBe(1);
      w.executor.concurrency = { held: 2 };
      await w.engine.sync(row.no);
      await w.seen(row, ids[1] as string, ({ status }) => status === "running");
      expect(await running()).toBe(2);
      await w.runs.cancel(row, await w.run(row, ids[2] as string));
      open();
      for (const id of ids.slice(0, 2)) expect(await w.ended(row, id)).toMatchObject({ status: "completed" });
      expect(await w.run(row, ids[2] as string)).toMatchObject({ status: "cancelled", executions: 0 });
    });

    it("W10: a cancelled run's waiting ends with the SDK's error, and its code may run further steps to clean up", async () => {
      const order: Workflow = async (_input, step) => {
        await step.run("place", () => 1);
        try {
          await step.sleep("wait", 86_400_000);
        } catch (error) {
          await step.run("undo", () => 2);
          throw error;
        }
      };
      const { row } = await w.app({ order });
      const id = await w.start(row, "order");
      await w.until(row, id, ({ status }) => status === "waiting");
      await w.runs.cancel(row, await w.run(row, id));
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "cancelled" });
      expect(w.executor.effects).toEqual(["place", "undo"]);
      expect(w.executor.tasks.at(-1)).toMatchObject({
        cancelled: true,
        journal: { steps: [{ id: "place" }, { id: "wait", status: "cancelled" }] },
      });
      // Nothing is left that would wake it.
      expect(await w.world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${row.queueNo}`)).toBe(0);
    });

    it("W10: an execution that was not told of a cancellation ends its run as it answers", async () => {
      const quick: Workflow = async (_input, step) =>
        step.run("only", async () => {
          await w.runs.cancel(row, await w.run(row, String(w.executor.tasks.at(-1)?.run.id)));
          return 1;
        });
      const { row } = await w.app({ quick });
      const id = await w.start(row, "quick");
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed" });
    });

    it("W10: a retry of a failed run keeps its finished steps and runs the failed ones again", async () => {
      let broken = true;
      const flow: Workflow = async (_input, step) => {
        await step.run("first", () => 1);
        await step.sleep("pause", 1_000);
        await step.run("second", () => {
          if (broken) throw new Error("broken");
          return 2;
        });
        return step.run("third", () => 3);
      };
      const { row } = await w.app({ flow });
      const id = await w.start(row, "flow");
      expect(await w.ended(row, id)).toMatchObject({ status: "failed", attempt: 1 });
      broken = false;
      await w.runs.retry(row, await w.run(row, id));
      expect(await w.ended(row, id)).toMatchObject({ status: "completed", attempt: 2 });
      expect(w.executor.effects).toEqual(["first", "second", "second", "third"]);
      expect((await w.steps(row, id)).map((step) => step.id)).toEqual(["first", "pause", "second", "third"]);
    });

    it("WF-11, W8: a journal that does not fit the code blocks the run, naming both, until another build syncs; nothing runs meanwhile", async () => {
      const v1: Workflow = async (_input, step) => {
        await step.run("charge", () => 1);
        await step.sleep("pause", 60_000);
        return step.run("ship", () => 2);
      };
      const retyped: Workflow = async (_input, step) => {
        await step.sleep("charge", 1);
        return "wrong";
      };
      const { row } = await w.app({ flow: v1 });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      w.executor.workflows = { flow: retyped };
      w.executor.buildId = "build-2";
      await w.engine.sync(row.no);
      await w.pass(60_000);
      const blocked = await w.until(row, id, ({ reason }) => reason !== null);
      expect(blocked).toMatchObject({ status: "waiting", reason: { code: "nondeterminism" } });
      expect(blocked.reason?.message).toMatch(/"charge".*run.*sleep/);
      const { executions } = blocked;
      await w.pass(3_600_000);
      await w.engine.rest();
      expect((await w.run(row, id)).executions).toBe(executions);
      expect(w.executor.effects).toEqual(["charge"]);
      // Back to the code that recorded it.
      w.executor.workflows = { flow: v1 };
      w.executor.buildId = "build-1";
      await w.engine.sync(row.no);
      expect(await w.ended(row, id)).toMatchObject({ status: "completed" });
      expect(w.executor.effects).toEqual(["charge", "ship"]);
    });

    it("W8, W10: a blocked run that is cancelled waits for code that fits, and ends at once when it is cancelled again", async () => {
      const flow: Workflow = async (_input, step) => {
        await step.sleep("pause", 3_600_000).catch(() => step.run("clean up", () => true));
        return "done";
      };
      const { row } = await w.app({ flow });
      const cancel = async (id: string) => w.runs.cancel(row, await w.run(row, id));
      const blocked = (id: string) => w.until(row, id, ({ reason }) => reason !== null);
      const [given, abandoned, many] = [await w.start(row, "flow"), await w.start(row, "flow"), await w.start(row, "flow")];
      for (const id of [given, abandoned, many]) await w.until(row, id, ({ status }) => status === "waiting");
      w.executor.workflows = { other: flow };
      for (const id of [given, abandoned, many]) await cancel(id);
      for (const id of [given, abandoned, many]) expect(await blocked(id)).toMatchObject({ status: "waiting" });
      expect(await cancel(abandoned)).toMatchObject({ status: "cancelled", error: { code: "workflow_not_found" }, reason: null });
      const may = { reaches: () => true, demand: () => {} };
      expect(await w.runs.steer(row, "cancel", { runIds: [many, abandoned] }, may)).toEqual({ runIds: [many], next: null });
      w.executor.workflows = { flow };
      await w.engine.sync(row.no);
      expect(await w.ended(row, given)).toMatchObject({ status: "cancelled", error: null });
      expect(w.executor.effects).toEqual(["clean up"]);
    });

    const pausing: Workflow = async (_input, step) => {
      await step.sleep("pause", 1_000);
      return "done";
    };

    it("W2, CTRL-09: where an old part of a deployment lacked the workflow, the run is executed again by itself, more and more seldom", async () => {
      const { row } = await w.app({ flow: pausing });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      w.executor.workflows = {};
      await w.pass(1_000);
      const blocked = await w.until(row, id, ({ reason }) => reason !== null);
      expect(blocked).toMatchObject({ status: "waiting", reason: { code: "workflow_not_found" }, executions: 2 });
      await w.pass(5_000);
      expect(await w.until(row, id, ({ executions, reason }) => executions === 3 && reason !== null)).toMatchObject({ status: "waiting" });
      await w.pass(86_400_000);
      await w.until(row, id, ({ executions, reason }) => executions === 4 && reason !== null);
      await w.pass(60_000);
      expect((await w.until(row, id, () => true)).executions).toBe(4);
      // The same build, and nobody syncs.
      w.executor.workflows = { flow: pausing };
      expect(await w.ended(row, id, 10_000)).toMatchObject({ status: "completed", reason: null });
    });

    it("W8: a run whose workflow the deployment lacks waits for a build that has it, and an answer's build id makes the server ask", async () => {
      const { row } = await w.app({ flow: pausing });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      w.executor.workflows = {};
      await w.pass(1_000);
      expect(await w.until(row, id, ({ reason }) => reason !== null)).toMatchObject({ reason: { code: "workflow_not_found" } });
      w.executor.workflows = { flow: pausing, other: async () => "other" };
      w.executor.buildId = "build-2";
      await w.world.store.run("announce", row.no, {
        protocol: "1.2",
        buildId: "build-1",
        workflows: [{ name: "other", timeoutMs: null, concurrency: null }],
        all: false,
      });
      // Another run's answer tells of the new build.
      await w.engine.refresh(row.no);
      await w.ended(row, await w.start(row, "other"));
      expect(await w.ended(row, id)).toMatchObject({ status: "completed" });
    });

    it("W6: below protocol 1.2 a wait for a message is a clear error in that step; an unknown major is refused", async () => {
      const waits: Workflow = async (_input, step) => {
        const failed = await step
          .wait("paid", "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8", "order:1", 60_000)
          .catch((error: { error: object }) => error.error);
        return failed;
      };
      w.executor.protocol = "1.1";
      const { row } = await w.app({ waits });
      const id = await w.start(row, "waits");
      await w.until(row, id, ({ endedAt }) => endedAt !== null);
      expect(await w.output(row, id)).toMatchObject({ code: "protocol_unsupported", message: expect.stringContaining("1.1") });
      w.executor.protocol = "2.0";
      expect(await w.engine.sync(row.no)).toMatchObject({ ok: false, error: expect.stringContaining("protocol_unsupported") });
    });
  });
}
