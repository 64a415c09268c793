/** Workers that pull, and the calls of executions at their bounds: `pullSuite` is run by the tests beside it. */
import { protocolLimits, type StepRecord, type Task } from "@millrace/contract/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
import type { AppRow } from "../store/app.ts";
import { type EngineWorld, openEngineWorld } from "./engine-world.suite.ts";
import { report, type Workflow } from "./executor.suite.ts";

export function pullSuite(kind: Engine): void {
  describe(`pull workers on ${kind}`, () => {
    let w: EngineWorld;
    beforeAll(async () => {
      w = await openEngineWorld(kind);
    });
    afterAll(() => w.close());
    beforeEach(async () => {
      await w.world.fresh();
      w.executor.effects.length = 0;
    });

    const poll = (
      app: AppRow,
      options: { workflows?: string[]; buildId?: string; max?: number; waitMs?: number; protocol?: string } = {},
    ): Promise<Task[]> => {
      const { workflows = Object.keys(w.executor.workflows), buildId = "b1", max = 10, waitMs = 0, protocol = "1.2" } = options;
      return w.engine.poll(app.no, {
        announcement: { protocol, buildId, workflows: workflows.map((name) => ({ name })) },
        app: { id: app.id, queueNo: app.queueNo },
        max,
        waitMs,
        gone: () => new AbortController().signal,
      });
    };
    const end = (token: string, answer: object) => report(`${w.url}/end`, { buildId: "b1", executions: [{ token, answer }] });
    const work = async (task: Task): Promise<void> => {
      const answer = await w.executor.execute(task);
      if (answer !== null) expect((await end(task.token, answer)).json).toMatchObject({ executions: [{ ok: true }] });
    };
    /** A pull app whose one workflow is not executed but reported on by hand, and a task of it. */
    const byHand = async (): Promise<{ row: AppRow; id: string; task: Task }> => {
      const { row } = await w.app({ hand: async () => undefined }, "pull");
      await poll(row);
      const id = await w.start(row, "hand", { n: 1 });
      const [task] = await poll(row, { waitMs: 5_000 });
      return { row, id, task: task as Task };
    };
    const steps = (task: Task, ...records: StepRecord[]) =>
      report(`${w.url}/steps`, { executions: [{ token: task.token, steps: records }] });

    it("W2, W6: a worker announces its workflows by polling, takes a run, records its steps and reports its end", async () => {
      const flow: Workflow = async (input: number, step) => {
        const a = await step.run("a", () => input + 1);
        await step.sleep("nap", 10_000);
        return step.run("b", () => a * 2);
      };
      const { row } = await w.app({ flow }, "pull");
      expect(await w.runs.start(row, { workflow: "flow" }, null).catch((error: { code: string }) => error.code)).toBe("workflow_not_found");
      expect(await poll(row)).toEqual([]);
      const waiting = poll(row, { waitMs: 20_000 });
      const id = await w.start(row, "flow", 20);
      const [task] = await waiting;
      await work(task as Task);
      expect(await w.run(row, id)).toMatchObject({ status: "waiting", executions: 1 });
      expect(await poll(row)).toEqual([]);
      w.world.clock.advance(10_000);
      const [again] = await poll(row, { waitMs: 1_000 });
      await work(again as Task);
      expect(await w.run(row, id)).toMatchObject({ status: "completed", executions: 2 });
      expect(await w.output(row, id)).toBe(42);
    });

    it("W9: a worker that stops its heartbeats loses its task when the lease ends; one that beats keeps it as long as it likes", async () => {
      const { row, id, task } = await byHand();
      for (let i = 0; i < 6; i++) {
        w.world.clock.advance(20_000);
        expect((await report(`${w.url}/heartbeat`, { tokens: [task.token] })).json).toMatchObject({
          executions: [{ ok: true, cancelled: false, leaseMs: 30_000 }],
        });
        expect(await poll(row)).toEqual([]);
      }
      w.world.clock.advance(30_000);
      const [other] = await poll(row, { waitMs: 1_000 });
      expect(other).toMatchObject({ run: { id } });
      expect((await report(`${w.url}/heartbeat`, { tokens: [task.token, "made.up"] })).json).toMatchObject({
        executions: [
          { ok: false, error: { code: "stale_execution" } },
          { ok: false, error: { code: "unauthorized" } },
        ],
      });
      expect((await end(task.token, { status: "completed", output: '"late"' })).json).toMatchObject({
        executions: [{ ok: false, error: { code: "stale_execution" } }],
      });
      expect((await end((other as Task).token, { status: "completed", output: '"in time"' })).json).toMatchObject({
        executions: [{ ok: true }],
      });
      expect(await w.output(row, id)).toBe("in time");
    });

    it("W10: heartbeats and records tell of a cancellation, and what begins to wait after it ends at once", async () => {
      const { row, id, task } = await byHand();
      await w.runs.cancel(row, await w.run(row, id));
      expect((await report(`${w.url}/heartbeat`, { tokens: [task.token] })).json).toMatchObject({
        executions: [{ ok: true, cancelled: true }],
      });
      expect((await steps(task, { type: "sleep", id: "nap", status: "pending", forMs: 60_000 })).json).toMatchObject({
        executions: [{ ok: true, cancelled: true, steps: [{ id: "nap", status: "cancelled", order: 1 }] }],
      });
      await end(task.token, { status: "cancelled" });
      expect(await w.run(row, id)).toMatchObject({ status: "cancelled" });
    });

    it("W11, W14: an execution that asks learns of a message, of a child's end and of a timer that is over while another step is under way", async () => {
      const { row, id, task } = await byHand();
      const queue = await w.world.call("CreateQueue", {}, { name: `signals-${row.no}` });
      const look = async (extend?: boolean) => {
        const { json } = await report(`${w.url}/heartbeat`, { tokens: [task.token], ...(extend === undefined ? {} : { extend }) });
        return (json.executions as unknown as { ended: string[]; cancelled: boolean; ok: boolean }[])[0];
      };
      const nap: StepRecord = { type: "sleep", id: "nap", status: "pending", forMs: 10_000 };
      const wait: StepRecord = { type: "wait", id: "paid", status: "pending", queueId: queue.id, key: "k", timeoutMs: 20_000 };
      const child: StepRecord = { type: "child", id: "child", status: "pending", workflow: "hand", input: "{}", wait: true };
      await steps(task, nap, wait, child);
      expect(await look()).toMatchObject({ ok: true, ended: [], cancelled: false });
      const [of] = (await poll(row, { waitMs: 1_000 })) as [Task];
      await end(of.token, { status: "completed", output: "7" });
      expect(await look()).toMatchObject({ ended: ["child"] });
      expect((await steps(task, child)).json).toMatchObject({
        executions: [{ steps: [{ id: "child", status: "completed", result: "7", order: 1 }] }],
      });
      expect(await look()).toMatchObject({ ended: [] });
      // Who only looks keeps no lease; who asks for a timer whose time is over is told that it is.
      w.world.clock.advance(20_000);
      expect(await look(false)).toMatchObject({ ok: true });
      expect((await steps(task, wait, nap)).json).toMatchObject({
        executions: [
          {
            steps: [
              { id: "nap", status: "completed", order: 2 },
              { id: "paid", status: "completed", result: "null", order: 3 },
            ],
          },
        ],
      });
      expect(await w.world.count("SELECT count(*) AS n FROM wait")).toBe(0);
      w.world.clock.advance(10_000);
      const [again] = (await poll(row, { waitMs: 1_000 })) as [Task];
      expect(again).toMatchObject({ run: { id } });
      expect(await look()).toMatchObject({ ok: false, error: { code: "stale_execution" } });
    });

    it("W6: a task goes back for a worker that has its workflow, and one that is given back comes again at once", async () => {
      const { row } = await w.app({ a: async () => "a", b: async () => "b" }, "pull");
      await poll(row);
      const id = await w.start(row, "b");
      expect(await poll(row, { workflows: ["a"], buildId: "b2" })).toEqual([]);
      w.world.clock.advance(1_000);
      const [task] = await poll(row, { workflows: ["b"], waitMs: 1_000 });
      await end((task as Task).token, { status: "suspended", again: true });
      const [again] = await poll(row, { waitMs: 1_000 });
      expect(again).toMatchObject({ run: { id, attempt: 1 } });
      await work(again as Task);
      expect(await w.run(row, id)).toMatchObject({ status: "completed" });
    });

    it("CTRL-09, W2: a worker without a workflow leaves its runs as they stand, however often it polls, and finds its own behind them", async () => {
      const { row } = await w.app({ a: async () => "a", b: async () => "b" }, "pull");
      await poll(row);
      const others = await Promise.all(Array.from({ length: 30 }, () => w.start(row, "b")));
      const own = await w.start(row, "a");
      const tasks = await poll(row, { workflows: ["a"], buildId: "b2", waitMs: 1_000 });
      expect(tasks.map(({ run }) => run.id)).toEqual([own]);
      for (const id of others) expect(await w.run(row, id)).toMatchObject({ status: "queued", executions: 0, startedAt: null });
      w.world.clock.advance(1_000);
      const left = new Set(others);
      while (left.size > 0) {
        const some = await poll(row, { waitMs: 1_000 });
        expect(some).not.toEqual([]);
        for (const task of some) {
          await work(task);
          left.delete(task.run.id);
        }
      }
      for (const id of others) expect(await w.run(row, id)).toMatchObject({ status: "completed", executions: 1 });
    });

    it("W1: an app's maxConcurrency holds for all its workers together; an end lets the next one in, a lost task keeps its place", async () => {
      const { row } = await w.app({ a: async () => "a" }, "pull");
      await poll(row);
      await w.apps.update(row, { maxConcurrency: 3 });
      const ids = await Promise.all(Array.from({ length: 10 }, () => w.start(row, "a")));
      const taken = (await Promise.all(Array.from({ length: 5 }, () => poll(row, { max: 2 })))).flat();
      expect(taken).toHaveLength(3);
      expect(await poll(row)).toEqual([]);
      const waiting = poll(row, { waitMs: 20_000 });
      await work(taken[0] as Task);
      const next = await waiting;
      expect(next).toHaveLength(1);
      // The three tasks' workers are gone: what they held is handed out again, in their places.
      w.world.clock.advance(30_000);
      const open = new Set(ids);
      open.delete((taken[0] as Task).run.id);
      const again = await poll(row, { waitMs: 1_000 });
      expect(again.map(({ run }) => run.id).sort()).toEqual([...taken.slice(1), ...next].map(({ run }) => run.id).sort());
      let batch = again;
      while (open.size > 0) {
        expect(batch).not.toEqual([]);
        expect(batch.length).toBeLessThanOrEqual(3);
        for (const task of batch) {
          await work(task);
          open.delete(task.run.id);
        }
        if (open.size > 0) batch = await poll(row, { waitMs: 1_000 });
      }
      for (const id of ids) expect(await w.run(row, id)).toMatchObject({ status: "completed" });
    });

    it("W8, WF-11: workers of two builds that take turns wake a blocked run every ten seconds, not with every poll", async () => {
      const { row, id, task } = await byHand();
      await poll(row, { buildId: "b2" });
      await end(task.token, { status: "blocked", reason: { code: "nondeterminism", message: "the journal has a (run)" } });
      for (let turn = 0; turn < 4; turn++) expect(await poll(row, { buildId: turn % 2 === 0 ? "b1" : "b2" })).toEqual([]);
      w.world.clock.advance(10_000);
      const [again] = await poll(row, { buildId: "b1", waitMs: 1_000 });
      expect(again).toMatchObject({ run: { id } });
    });

    it("W6: a record that is told twice changes nothing, and a finished step never changes", async () => {
      const { row, id, task } = await byHand();
      const sleep: StepRecord = { type: "sleep", id: "nap", status: "pending", forMs: 60_000 };
      const first = await steps(task, sleep);
      w.world.clock.advance(5_000);
      expect((await steps(task, sleep)).json).toEqual(first.json);
      await steps(task, { type: "run", id: "s", status: "retrying", attempt: 1, error: { name: "E", message: "1" }, delayMs: 0 });
      await steps(task, { type: "run", id: "s", status: "completed", attempt: 2, result: "2" });
      await steps(task, { type: "run", id: "s", status: "completed", attempt: 3, result: "3" });
      await steps(task, { type: "run", id: "s", status: "retrying", attempt: 4, error: { name: "E", message: "4" }, delayMs: 0 });
      const [nap, s] = await w.steps(row, id);
      expect([nap?.status, s?.status, s?.attempt, new TextDecoder().decode(s?.result as Uint8Array)]).toEqual([
        "pending",
        "completed",
        2,
        "2",
      ]);
      const other = await steps(task, { type: "run", id: "nap", status: "completed", attempt: 1 });
      expect(other.json).toMatchObject({
        executions: [{ ok: false, error: { code: "nondeterminism", message: expect.stringContaining('"nap"') } }],
      });
    });

    it("W6: in one call of many executions one tells its step again, one is stale and one was cancelled; every step is recorded once, in order", async () => {
      const { row, id, task } = await byHand();
      const ids = [id, await w.start(row, "hand"), await w.start(row, "hand"), await w.start(row, "hand")];
      const tasks = [task];
      while (tasks.length < ids.length) tasks.push(...(await poll(row, { waitMs: 5_000 })));
      const of = (runId: string | undefined): Task => tasks.find(({ run }) => run.id === runId) as Task;
      const done = (...names: string[]): StepRecord[] =>
        names.map((name) => ({ type: "run", id: name, status: "completed", attempt: 1, result: `"${name}"` }));
      const call = (records: [id: string | undefined, steps: StepRecord[]][]) =>
        report(`${w.url}/steps`, { executions: records.map(([runId, some]) => ({ token: of(runId).token, steps: some })) });
      const [again, fresh, cancelled, over] = ids;
      await call([[again, done("a")]]);
      await w.runs.cancel(row, await w.run(row, cancelled as string));
      await end(of(over).token, { status: "completed", output: "1" });
      const records: [string | undefined, StepRecord[]][] = [
        [again, done("a", "b")],
        [fresh, [...done("a"), { type: "value", id: "v", status: "completed", result: "1" }]],
        [cancelled, done("a")],
        [over, done("a")],
      ];
      const told = [
        { ok: true, cancelled: false, steps: [] },
        { ok: true, cancelled: false, steps: [] },
        { ok: true, cancelled: true, steps: [] },
        { ok: false, error: { code: "stale_execution" } },
      ];
      expect((await call(records)).json).toMatchObject({ executions: told });
      expect((await call(records)).json).toMatchObject({ executions: told });
      await call([[fresh, done("c", "d")]]);
      const journal = async (runId: string | undefined) =>
        (await w.steps(row, runId as string)).map((step) => [step.id, step.position, step.endedOrder, step.status]);
      expect(await journal(again)).toEqual([
        ["a", 0, 1, "completed"],
        ["b", 1, 2, "completed"],
      ]);
      expect(await journal(fresh)).toEqual([
        ["a", 0, 1, "completed"],
        ["v", 1, 2, "completed"],
        ["c", 2, 3, "completed"],
        ["d", 3, 4, "completed"],
      ]);
      expect(await journal(cancelled)).toEqual([["a", 0, 1, "completed"]]);
      expect(await journal(over)).toEqual([]);
      expect(await w.run(row, fresh as string)).toMatchObject({ steps: 4, journalBytes: 3 + 1 + 3 + 3 });
    });

    it("WF-13, W3: a result of 262,144 bytes is kept whole, one byte more fails its step alone, in multi-byte text too", async () => {
      const { row, id, task } = await byHand();
      const text = (bytes: number): string => `"${"é".repeat((bytes - 2) >> 1)}${bytes % 2 === 1 ? "a" : ""}"`;
      const record = (name: string, bytes: number): StepRecord => ({
        type: "run",
        id: name,
        status: "completed",
        attempt: 1,
        result: text(bytes),
      });
      await steps(task, record("below", protocolLimits.payloadBytes - 1), record("exact", protocolLimits.payloadBytes));
      const over = await steps(task, record("over", protocolLimits.payloadBytes + 1));
      expect(over.json).toMatchObject({
        executions: [
          {
            ok: true,
            steps: [{ id: "over", status: "failed", error: { code: "limit_exceeded", message: expect.stringContaining("262145") } }],
          },
        ],
      });
      const [below, exact, failed] = await w.steps(row, id);
      expect([below?.result?.length, exact?.result?.length, failed?.result]).toEqual([262_143, 262_144, null]);
      expect(new TextDecoder().decode(exact?.result as Uint8Array)).toBe(text(262_144));
      expect((await steps(task, { type: "run", id: "broken", status: "completed", attempt: 1, result: "{not json" })).status).toBe(400);
    });

    it("W3: an output of 4 MiB is kept, a larger one fails the run; 10,000 steps are the most, and one more fails the run with limit_exceeded", async () => {
      const { row, id, task } = await byHand();
      const output = JSON.stringify("x".repeat(protocolLimits.outputBytes - 2));
      await end(task.token, { status: "completed", output });
      expect(await w.run(row, id)).toMatchObject({ status: "completed" });
      expect(await w.world.store.run("getPayload", (await w.run(row, id)).no, "output")).toHaveLength(protocolLimits.outputBytes);
      const larger = await w.start(row, "hand");
      const [over] = (await poll(row, { waitMs: 1_000 })) as [Task];
      await end(over.token, { status: "completed", output: `${output.slice(0, -1)}y"` });
      expect(await w.run(row, larger)).toMatchObject({ status: "failed", error: { code: "limit_exceeded" } });

      const second = await w.start(row, "hand");
      const [many] = (await poll(row, { waitMs: 1_000 })) as [Task];
      const values = (from: number, n: number): StepRecord[] =>
        Array.from({ length: n }, (_, i) => ({ type: "value", id: `v${from + i}`, status: "completed", result: String(i) }));
      for (let from = 0; from < protocolLimits.steps; from += 1_000) await steps(many, ...values(from, 1_000));
      expect(await w.run(row, second)).toMatchObject({ status: "running", steps: 10_000 });
      expect((await steps(many, ...values(10_000, 1))).json).toMatchObject({
        executions: [{ ok: false, error: { code: "limit_exceeded" } }],
      });
      expect(await w.run(row, second)).toMatchObject({ status: "failed", error: { code: "limit_exceeded" }, steps: 10_000 });
    }, 60_000);

    it("W6: a journal over 4 MiB comes in pages, whole and in order, to whoever executes the run and to nobody else", async () => {
      const { row, id, task } = await byHand();
      const result = JSON.stringify("x".repeat(250_000));
      for (let i = 0; i < 40; i += 10)
        await steps(
          task,
          ...Array.from({ length: 10 }, (_, k): StepRecord => ({ type: "run", id: `s${i + k}`, status: "completed", attempt: 1, result })),
        );
      await end(task.token, { status: "suspended", again: true });
      const [next] = (await poll(row, { waitMs: 1_000 })) as [Task];
      const ids = next.journal.steps.map((step) => step.id);
      let pages = 1;
      for (let after = next.journal.next; after !== null; pages++) {
        const { json } = await report(`${w.url}/journal`, { token: next.token, after });
        const page = json as unknown as Task["journal"];
        ids.push(...page.steps.map((step) => step.id));
        after = page.next;
      }
      expect(pages).toBe(3);
      expect(ids).toEqual(Array.from({ length: 40 }, (_, i) => `s${i}`));
      expect((await report(`${w.url}/journal`, { token: task.token, after: "3" })).status).toBe(409);
      expect((await report(`${w.url}/journal`, { token: "made.up", after: "3" })).status).toBe(401);
      expect(await w.run(row, id)).toMatchObject({ status: "running" });
    }, 30_000);

    it("A2, W6: whatever is sent to the calls of executions is refused by a problem or by its entry, and changes nothing", async () => {
      const { row, id, task } = await byHand();
      const { token } = task;
      const end = { token, answer: { status: "completed" } };
      const step = { id: "s", type: "run", status: "completed", attempt: 1 };
      const bodies: [string, unknown][] = [
        ["steps", undefined],
        ["steps", []],
        ["steps", { executions: [] }],
        ["steps", { executions: [{ token, steps: [] }] }],
        ["steps", { executions: [{ token, steps: [{ ...step, id: "\u0000" }] }] }],
        ["steps", { executions: [{ token, steps: [{ ...step, id: "\ud800" }] }] }],
        ["steps", { executions: [{ token, steps: [{ ...step, attempt: 1e9 }] }] }],
        ["steps", { executions: Array(101).fill({ token, steps: [step] }) }],
        ["heartbeat", { tokens: [1] }],
        ["journal", { token, after: "-1" }],
        ["end", { executions: [{ token, answer: { status: "completed", output: "{" } }] }],
        ["end", { executions: Array(101).fill(end) }],
      ];
      for (const [call, body] of bodies) {
        const answer = await fetch(`${w.url}/${call}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: body === undefined ? "{" : JSON.stringify(Array.isArray(body) ? body : { protocol: "1.2", ...(body as object) }),
        });
        const { error } = (await answer.json()) as { error: { code: string } };
        expect([call, answer.status, error.code]).toEqual([call, 400, expect.stringMatching(/^invalid_/)]);
      }
      const forged = {
        executions: [
          { token: `${token}x`, answer: { status: "completed" } },
          { token: "a.b.c", answer: { status: "completed" } },
        ],
      };
      expect((await report(`${w.url}/end`, forged)).json).toMatchObject({
        executions: [
          { ok: false, error: { code: "unauthorized" } },
          { ok: false, error: { code: "unauthorized" } },
        ],
      });
      expect(await w.run(row, id)).toMatchObject({ status: "running", steps: 0 });
    });

    it("W6: an execution that suspends on nothing fails its run instead of sleeping for ever, and an unknown major is refused", async () => {
      const { row, id, task } = await byHand();
      await end(task.token, { status: "suspended" });
      expect(await w.run(row, id)).toMatchObject({ status: "failed", error: { code: "protocol_violation" } });
      expect(await poll(row, { protocol: "2.0" }).catch((error: { code: string }) => error.code)).toBe("protocol_unsupported");
      const refused = await fetch(`${w.url}/end`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ protocol: "2.0", executions: [{ token: task.token, answer: { status: "completed" } }] }),
      });
      expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([409, "protocol_unsupported"]);
    });
  });
}
