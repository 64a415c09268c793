/** The database crashes while one worker takes over the runs of another that died. The server is this file's own. */
import type { Task } from "@millrace/contract/wire";
import { startPostgres } from "@millrace/testkit";
import { expect, it } from "vitest";
import { openEngineWorld } from "./engine-world.suite.ts";
import { report, type Workflow } from "./executor.suite.ts";

const RUNS = 250;
const CRASHES = 10;

it("WF-14, W9: 250 runs of a worker that died reach their end while the database crashes ten times; no recorded step runs again", async () => {
  const server = await startPostgres();
  process.env.MILLRACE_TEST_POSTGRES = server.url;
  const w = await openEngineWorld("postgres");
  try {
    const ran: number[] = [];
    const flow: Workflow = async (n: number, step) => {
      const first = await step.run("first", () => ran.push(n));
      return step.run("second", () => (first as number) * 0 + n);
    };
    const { row } = await w.app({ flow }, "pull");
    // One worker is to hold all runs at once.
    await w.apps.update(row, { maxConcurrency: RUNS });
    const poll = (max: number): Promise<Task[]> =>
      w.engine.poll(row.no, {
        announcement: { protocol: "1.2", buildId: "b", workflows: [{ name: "flow" }] },
        app: { id: row.id, queueNo: row.queueNo },
        max,
        waitMs: 0,
        gone: () => new AbortController().signal,
      });
    await poll(1);
    for (let n = 0; n < RUNS; n++) await w.start(row, "flow", n);

    // The first worker takes all of them, records the first step of every other one, and is never heard of again.
    const recorded = new Set<number>();
    for (let taken = 0; taken < RUNS; ) {
      const tasks = await poll(100);
      expect(tasks).not.toEqual([]);
      taken += tasks.length;
      const executions = tasks
        .filter((_, i) => i % 2 === 0)
        .map(({ token, input }) => {
          recorded.add(Number(input));
          return { token, steps: [{ type: "run" as const, id: "first", status: "completed" as const, attempt: 1, result: "0" }] };
        });
      for (const entry of await w.engine.executions.steps("1.2", executions)) expect(entry.ok).toBe(true);
    }
    w.world.clock.advance(30_000);

    const ended = () => w.world.count("SELECT count(*) AS n FROM run WHERE ended_at IS NOT NULL");
    const work = async (task: Task): Promise<void> => {
      const answer = await w.executor.execute(task);
      if (answer !== null) await report(`${w.url}/end`, { executions: [{ token: task.token, answer }] });
    };
    let crashes = 0;
    for (let rounds = 0; (await ended()) < RUNS; rounds++) {
      expect(rounds).toBeLessThan(100);
      const tasks = await poll(40).catch(() => []);
      const works = tasks.map(work);
      if (crashes < CRASHES) {
        crashes++;
        await server.halt("immediate");
        await server.resume();
      }
      await Promise.allSettled(works);
      // What was lost in a crash comes back when its lease ends.
      w.world.clock.advance(30_000);
    }
    expect(crashes).toBe(CRASHES);
    expect(await w.world.count("SELECT count(*) AS n FROM run WHERE status = 'completed'")).toBe(RUNS);
    expect(ran.filter((n) => recorded.has(n))).toEqual([]);
    expect(new Set([...recorded, ...ran]).size).toBe(RUNS);
    expect(await w.world.count(`SELECT count(*) AS n FROM message WHERE queue_no = ${row.queueNo}`)).toBe(0);
  } finally {
    await w.close();
    await server.stop();
  }
}, 120_000);
