/**
 * What survives (W9, W11): executors that break at every event, servers that start anew in every state, timers, and races between what
 * ends a wait. `recoverySuite` is run by the tests beside it.
 */
import { setImmediate as macrotask } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import { type EngineWorld, openEngineWorld } from "./engine-world.suite.ts";
import type { Workflow } from "./executor.suite.ts";

const DAY_MS = 86_400_000;

export function recoverySuite(kind: Engine): void {
  describe(`recovery of workflows on ${kind}`, () => {
    let w: EngineWorld;
    beforeAll(async () => {
      w = await openEngineWorld(kind);
    });
    afterAll(() => w.close());
    beforeEach(async () => {
      await w.world.fresh();
      w.executor.tasks.length = 0;
      w.executor.effects.length = 0;
      w.executor.breakAt(Number.POSITIVE_INFINITY);
    });

    /** Makes a queue that runs wait on. */
    const queue = async (): Promise<{ id: string; no: number }> => {
      await w.world.call("CreateQueue", {}, { name: "signals" });
      const { id } = await w.world.call("GetQueue", { queueId: "signals" }, undefined);
      const row = await w.world.room.findQueue(w.world.projectNo, "signals");
      return { id, no: row?.no as number };
    };
    /** Gives a message with this key to whoever waits for it; answers what became of it. */
    const signal = async (app: AppRow, on: { id: string; no: number }, key: string, body = "{}"): Promise<string> => {
      await w.world.call("SendMessages", { queueId: on.id }, { messages: [{ body }] });
      const { batches } = await w.world.store.claim({ queueNo: on.no, batchSize: 1, batches: 1, leaseMs: 30_000 });
      const [message] = batches[0] ?? [];
      if (message === undefined) throw new Error("there is no message");
      const given = new TextEncoder().encode(JSON.stringify({ messageId: message.messageId, body }));
      const row = { queueNo: on.no, seq: message.seq, receipt: message.receipt, projectNo: w.world.projectNo, appId: app.id, key };
      const [outcome] = await w.world.store.run("resumeRuns", [{ ...row, message: given, keepMs: 0, leaseMs: 30_000 }]);
      return String(outcome);
    };

    it("W6, W9: however often and wherever the executor breaks, the result is the same and no step runs again once it is recorded", async () => {
      const flow: Workflow = async (input: number, step) => {
        const a = await step.run("a", () => input + 1);
        const [b, c] = await Promise.all([step.run("b", () => a * 2), step.run("c", () => a * 3)]);
        await step.sleep("nap", 2_000);
        const d = await step.run(
          "d",
          (attempt) => {
            if (attempt < 2) throw new Error("once more");
            return b + c;
          },
          { most: 3, delayMs: 1_000 },
        );
        const e = (await step.child("e", "double", d)) as number;
        return step.run("f", () => e - a);
      };
      const double: Workflow = async (input: number, step) => step.run("double", () => input * 2);
      const { row } = await w.app({ flow, double });
      await w.ended(row, await w.start(row, "flow", 4));
      const whole = w.executor.events;
      expect(whole).toBeGreaterThan(12);
      for (let at = 1; at <= whole; at++) {
        w.executor.effects.length = 0;
        const id = await w.start(row, "flow", 4);
        w.executor.breakAt(at);
        const run = await w.ended(row, id);
        w.executor.breakAt(Number.POSITIVE_INFINITY);
        expect([at, run.status, await w.output(row, id)]).toEqual([at, "completed", 45]);
        // A step may have run once more than it has records: what broke before its record is the one that comes again.
        const begun = (step: string) => w.executor.effects.filter((one) => one === step).length;
        const extra = ["a", "b", "c", "double", "f"].map((step) => begun(step) - 1);
        extra.push(begun("d") - 2);
        expect(extra.every((n) => n >= 0)).toBe(true);
        expect(extra.reduce((sum, n) => sum + n, 0)).toBeLessThanOrEqual(2);
        expect((await w.steps(row, id)).map(({ status }) => status)).toEqual(Array(7).fill("completed"));
      }
    }, 60_000);

    it("W9: an answer that is none, a refusal and a broken connection are lost executions: the run is executed again after 1, 2, 4 seconds", async () => {
      const flow: Workflow = async (_input, step) => step.run("only", () => "done");
      const { row } = await w.app({ flow });
      for (const answer of [{ status: 500, body: "out of order" }, { body: "hello" }, { drop: "request" as const }])
        w.executor.instead(answer);
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ executions }) => executions === 1);
      for (const [i, ms] of [1_000, 2_000, 4_000].entries()) {
        if (kind === "sqlite") {
          await w.pass(ms - 1);
          await w.engine.rest();
          expect((await w.run(row, id)).executions).toBe(i + 1);
          await w.pass(1);
        } else await w.pass(ms);
        await w.until(row, id, ({ executions }) => executions === i + 2);
      }
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed", executions: 4 });
      expect(w.executor.effects).toEqual(["only"]);
    });

    it("WF-03, W11: a wait's deadline is fixed when it is first recorded: restarts don't move it, and after downtime it fires at once, one time", async () => {
      // PostgreSQL's own clock runs on beside the frozen one: there a second lasts a hundred.
      const second = kind === "sqlite" ? 1_000 : 100_000;
      const on = await queue();
      const flow: Workflow = async (_input, step) => {
        await step.run("before", () => 1);
        return (await step.wait("paid", on.id, "order:1", 60 * second)) === null ? "timed out" : "paid";
      };
      const { row } = await w.app({ flow });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      const deadline = (await w.steps(row, id))[1]?.dueAt;
      for (const seconds of [20, 20, 19]) {
        await w.pass(seconds * second);
        await w.restart();
        await w.engine.rest();
        expect(await w.run(row, id)).toMatchObject({ status: "waiting", executions: 1 });
        expect((await w.steps(row, id))[1]?.dueAt).toBe(deadline);
      }
      // Down past the deadline.
      await w.engine.stop(0);
      w.world.clock.advance(3_600_000);
      await w.restart();
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed", executions: 2 });
      expect(await w.output(row, id)).toBe("timed out");
      await w.pass(3_600_000);
      await w.engine.rest();
      expect((await w.run(row, id)).executions).toBe(2);
    });

    it("WF-04, W11: a sleep beyond 24.8 days fires once at its end, to the second, and costs nothing before", async () => {
      const flow: Workflow = async (_input, step) => {
        await step.sleep("month", 29 * DAY_MS);
        return "awake";
      };
      const { row } = await w.app({ flow });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      for (let day = 0; day < 28; day++) await w.pass(DAY_MS);
      await w.pass(DAY_MS - (kind === "sqlite" ? 1 : 60_000));
      await w.engine.rest();
      expect(await w.run(row, id)).toMatchObject({ status: "waiting", executions: 1 });
      await w.pass(kind === "sqlite" ? 1 : 60_000);
      expect(await w.until(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed", executions: 2 });
    });

    it("W14, WF-07: a message and a wait's timeout race: exactly one wins, and the run goes on at once", async () => {
      const on = await queue();
      const flow: Workflow = async (_input, step) => {
        const paid = await step.wait("paid", on.id, "order:1", 60_000);
        return paid === null ? "timed out" : paid.body;
      };
      const { row } = await w.app({ flow });
      const seen = new Set<unknown>();
      for (let round = 0; round < 6; round++) {
        const id = await w.start(row, "flow");
        await w.until(row, id, ({ status }) => status === "waiting");
        if (round % 2 === 0) {
          // The deadline has passed by the store's clock when the message comes, but its wake-up may not have been taken yet.
          w.world.clock.advance(60_000);
          const outcome = await signal(row, on, "order:1", "paid");
          await w.until(row, id, ({ endedAt }) => endedAt !== null);
          expect(await w.output(row, id)).toBe(outcome === "resumed" ? "paid" : "timed out");
        } else {
          expect(await signal(row, on, "order:1", "paid")).toBe("resumed");
          await w.until(row, id, ({ endedAt }) => endedAt !== null);
          expect(await w.output(row, id)).toBe("paid");
        }
        seen.add(await w.output(row, id));
        expect(await w.steps(row, id)).toHaveLength(1);
      }
      expect(await w.world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${row.queueNo}`)).toBe(0);
    });

    it("W9: a server that stops in any state of a run goes on from there: queued, executing, waiting, to be tried again", async () => {
      const on = await queue();
      let entered: () => void = () => {};
      let hold: Promise<void> = Promise.resolve();
      const flow: Workflow = async (_input, step) => {
        await step.run("first", () => 1);
        await step.run("held", async () => {
          entered();
          await hold;
          return 2;
        });
        await step.wait("paid", on.id, "order:1", 60_000);
        await step.run(
          "shaky",
          (attempt) => {
            if (attempt === 1) throw new Error("once");
            return 3;
          },
          { most: 2, delayMs: 5_000 },
        );
        return "done";
      };
      const { row } = await w.app({ flow });
      // Queued: nobody takes it before the restart.
      await w.engine.stop(0);
      const id = await w.start(row, "flow");
      let open: () => void = () => {};
      hold = new Promise((resolve) => {
        open = resolve;
      });
      const inside = new Promise<void>((resolve) => {
        entered = resolve;
      });
      await w.restart();
      await inside;
      // Executing: the server goes away under the executor, whose records come to nothing; the lease ends.
      expect(await w.run(row, id)).toMatchObject({ status: "running", executions: 1 });
      await w.restart();
      open();
      await w.executor.receiver.idle();
      await w.pass(30_000);
      await w.until(row, id, ({ status, executions }) => status === "waiting" && executions === 2);
      expect(w.executor.effects.filter((step) => step === "first")).toHaveLength(1);
      // Waiting.
      await w.restart();
      expect(await signal(row, on, "order:1")).toBe("resumed");
      await w.until(row, id, ({ status, executions }) => status === "waiting" && executions === 3);
      // To be tried again.
      await w.restart();
      expect(await w.ended(row, id)).toMatchObject({ status: "completed" });
      expect(w.executor.effects.filter((step) => step === "shaky")).toHaveLength(2);
    });

    it("W5, W9: what an execution still sends after its run was handed out again is refused as stale, and changes nothing", async () => {
      let entered: () => void = () => {};
      let open: () => void = () => {};
      const hold = new Promise<void>((resolve) => {
        open = resolve;
      });
      const inside = new Promise<void>((resolve) => {
        entered = resolve;
      });
      let values = 0;
      const flow: Workflow = async (_input, step) =>
        step.run("slow", async () => {
          values++;
          if (values === 1) {
            entered();
            await hold;
            return "from the first";
          }
          return "from the second";
        });
      const { row } = await w.app({ flow });
      const id = await w.start(row, "flow");
      await inside;
      const [first] = w.executor.tasks;
      // While its server holds the request open, nobody else is given the run.
      const lease = () => w.world.count(`SELECT max(due_at) AS n FROM message WHERE queue_no = ${row.queueNo}`);
      for (let i = 0; i < 8; i++) {
        const before = await lease();
        w.world.clock.advance(10_000);
        while ((await lease()) <= before) await macrotask();
        expect(await w.run(row, id)).toMatchObject({ status: "running", executions: 1 });
      }
      await w.restart();
      w.world.clock.advance(30_000);
      expect(await w.seen(row, id, ({ endedAt }) => endedAt !== null)).toMatchObject({ status: "completed" });
      open();
      await w.executor.receiver.idle();
      const refused = await w.engine.executions.steps("1.2", [
        { token: String(first?.token), steps: [{ type: "run", id: "slow", status: "completed", attempt: 1, result: '"late"' }] },
      ]);
      expect(refused).toMatchObject([{ ok: false, error: { code: "stale_execution" } }]);
      expect(await w.output(row, id)).toBe("from the second");
      expect(await w.steps(row, id)).toHaveLength(1);
    });

    it("W3, W11: a run that takes longer than its time ends timedOut, whatever state it is in, and its executor is told it is stale", async () => {
      const flow: Workflow = async (_input, step) => step.sleep("long", 300 * DAY_MS);
      const { row } = await w.app({ flow });
      const id = await w.start(row, "flow");
      await w.until(row, id, ({ status }) => status === "waiting");
      await w.pass(30 * DAY_MS);
      await w.world.store.run("timeOutRuns");
      expect(await w.run(row, id)).toMatchObject({ status: "timedOut", error: { code: "timeout" } });
      expect(await w.world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${row.queueNo}`)).toBe(0);
    });
  });
}
