import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crashing } from "./crashing.fixture.ts";
import { CancelledError, StepError } from "./errors.ts";
import type { Step } from "./step.ts";
import { turn } from "./turn.ts";
import { type AnyWorkflow, workflow } from "./workflow.ts";

/** Programs that a property makes up: what a function does, as data. */
type Program =
  | { kind: "run"; name: string; turns: number }
  | { kind: "flaky"; name: string; failures: number }
  | { kind: "sleep"; name: string; seconds: number }
  | { kind: "wait"; name: string; seconds: number }
  | { kind: "child"; name: string; wait: boolean }
  | { kind: "now" }
  | { kind: "sequence"; of: Program[] }
  | { kind: "all"; of: Program[] }
  | { kind: "race"; of: Program[] };

const name = fc.constantFrom("a", "b", "c", "d");
const { program } = fc.letrec<{ program: Program }>((tie) => ({
  program: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    fc.record({ kind: fc.constant("run" as const), name, turns: fc.nat(3) }),
    fc.record({ kind: fc.constant("flaky" as const), name: name.map((n) => `flaky-${n}`), failures: fc.integer({ min: 1, max: 2 }) }),
    fc.record({ kind: fc.constant("sleep" as const), name: name.map((n) => `sleep-${n}`), seconds: fc.nat(100) }),
    fc.record({ kind: fc.constant("wait" as const), name: name.map((n) => `wait-${n}`), seconds: fc.integer({ min: 1, max: 100 }) }),
    fc.record({ kind: fc.constant("child" as const), name: name.map((n) => `child-${n}`), wait: fc.boolean() }),
    fc.constant({ kind: "now" as const }),
    fc.record({ kind: fc.constant("sequence" as const), of: fc.array(tie("program"), { minLength: 1, maxLength: 4 }) }),
    fc.record({ kind: fc.constant("all" as const), of: fc.array(tie("program"), { minLength: 1, maxLength: 4 }) }),
    fc.record({ kind: fc.constant("race" as const), of: fc.array(tie("program"), { minLength: 1, maxLength: 3 }) }),
  ) as fc.Arbitrary<Program>,
}));

/** What the step functions of a program did: each call by step id, and the code's own trace of outcomes. */
interface Effects {
  calls: string[];
}

function interpret(step: Step, program: Program, effects: Effects): Promise<unknown> {
  switch (program.kind) {
    case "run":
      return step.run(program.name, async ({ stepId }) => {
        effects.calls.push(stepId);
        for (let n = 0; n < program.turns; n += 1) await turn();
        return `${stepId} of ${effects.calls.length}`;
      });
    case "flaky":
      return step.run(program.name, ({ stepId, attempt }) => {
        effects.calls.push(`${stepId} try ${attempt}`);
        if (attempt <= program.failures) throw new Error("not yet");
        return attempt;
      });
    case "sleep":
      return step.sleep(program.name, program.seconds);
    case "wait":
      return step
        .waitForMessage(program.name, { queueId: "q", key: "k", timeoutSeconds: program.seconds })
        .then((message) => message?.body);
    case "child":
      return program.wait
        ? step.startRun(program.name, "other", { from: program.name })
        : step.startRun(program.name, "other", null, { wait: false });
    case "now":
      return step.now().then((at) => at.getTime());
    case "sequence":
      return (async () => {
        const outcomes: unknown[] = [];
        for (const each of program.of) outcomes.push(await interpret(step, each, effects));
        return outcomes;
      })();
    case "all":
      return Promise.all(program.of.map((each) => interpret(step, each, effects)));
    case "race":
      return Promise.race(program.of.map((each) => interpret(step, each, effects)));
  }
}

const world = () => ({ messages: [{ queueId: "q", key: "k", body: "hello", afterMs: 30_000 }], runs: { other: () => "child's" } });

/** A workflow of one function body. */
const code = (run: (step: Step) => Promise<unknown>): AnyWorkflow => workflow("tested", ({ step }) => run(step));

describe("the replay of a run", () => {
  it("W9, W7: killed behind any record, the run comes to the outcome that its journal began, and no finished step runs again", async () => {
    await fc.assert(
      fc.asyncProperty(
        program,
        fc.array(fc.record({ at: fc.integer({ min: 1, max: 6 }), before: fc.boolean() }), { maxLength: 8 }),
        async (made, deaths) => {
          const run = crashing(world());
          const effects: Effects = { calls: [] };
          const tested = code((step) => interpret(step, made, effects));
          for (const death of deaths) {
            const finished = new Set(run.steps().flatMap(({ id, status }) => (status === "completed" ? [id] : [])));
            const before = effects.calls.length;
            const answer = await run.execute(tested, death);
            expect(effects.calls.slice(before).filter((id) => finished.has(id))).toEqual([]);
            if (answer?.status === "blocked") throw new Error(answer.reason.message);
            if (answer?.status === "suspended") await run.memory.wake();
          }
          const answer = await run.finish(tested);
          expect(answer.status).toBe("completed");
          const calls = effects.calls.length;
          // A replay of the whole journal is silent and comes to the same, however steps overlapped.
          expect(await run.execute(tested)).toEqual(answer);
          expect(effects.calls.length).toBe(calls);
        },
      ),
      { numRuns: 300 },
    );
  });

  it("W9: a function dies behind every one of its records in turn and still does each step's work once", async () => {
    const done: string[] = [];
    const saga = code(async (step) => {
      const first = await step.run("reserve", () => void done.push("reserve"));
      const both = await Promise.all([1, 2, 3].map((n) => step.run("pack", () => done.push(`pack ${n}`) && n)));
      await step.sleep("rest", "1h");
      return [first ?? null, ...both, await step.run("ship", () => void done.push("ship"))];
    });
    const run = crashing();
    for (let deaths = 0; deaths < 50; deaths += 1) {
      const answer = await run.execute(saga, { at: 1 });
      if (answer?.status === "suspended") await run.memory.wake();
      if (answer?.status === "completed") break;
    }
    expect(run.steps().map(({ id }) => id)).toEqual(["reserve", "pack", "pack#2", "pack#3", "rest", "ship"]);
    // Steps side by side that were under way at a death are begun again; what was recorded is not.
    expect(done.filter((each) => each === "reserve" || each === "ship")).toEqual(["reserve", "ship"]);
  });

  it("W7: what ends first on a race ends first on its replay, though the other has ended since", async () => {
    const tested = code(async (step) => {
      const slow = step.run("slow", async () => {
        for (let n = 0; n < 20; n += 1) await turn();
        return "slow";
      });
      const nap = step.sleep("nap", 5).then(() => "nap");
      const winner = await Promise.race([slow, nap]);
      await step.run(`after ${winner}`, () => 1);
      await nap;
      return winner;
    });
    const run = crashing();
    expect(await run.finish(tested)).toMatchObject({ status: "completed", output: '"slow"' });
    expect(run.steps().map(({ id }) => id)).toContain("after slow");
    expect(await run.execute(tested)).toMatchObject({ status: "completed", output: '"slow"' });
  });

  it("W7: repeats of a name are told apart in the order in which the code came to them, side by side too", async () => {
    const tested = code(async (step) =>
      Promise.all(
        [3, 1, 2].map(async (turns) => {
          const fetched = await step.run("fetch", async () => {
            for (let n = 0; n < turns * 5; n += 1) await turn();
            return turns;
          });
          return step.run("store", ({ stepId }) => `${fetched} in ${stepId}`);
        }),
      ),
    );
    const run = crashing();
    const answer = await run.finish(tested);
    expect(answer).toMatchObject({ output: JSON.stringify(["3 in store#3", "1 in store", "2 in store#2"]) });
    expect(await run.execute(tested)).toEqual(answer);
  });

  it("W6: the code behind a step runs only once the step is recorded", async () => {
    const seen: number[] = [];
    const run = crashing();
    const tested = code(async (step) => {
      await step.run("a", () => 1);
      seen.push(run.steps().length);
      await step.run("b", () => 2);
      seen.push(run.steps().length);
    });
    await run.execute(tested, { at: 1, before: true });
    expect(seen).toEqual([]);
    await run.finish(tested);
    expect(seen).toEqual([1, 2]);
  });

  it("W10: a cancelled run's waits end with CancelledError, its cleanup runs steps, and a replay does the same", async () => {
    const tested = code(async (step) => {
      try {
        await step.waitForMessage("paid", { queueId: "q", key: "k", timeoutSeconds: 3600 });
      } catch (error) {
        await step.run("release", () => "released");
        const second = await step.sleep("rest", 1).catch((thrown: unknown) => thrown);
        await step.run("tell", () => [error instanceof CancelledError, second instanceof CancelledError]);
        throw error;
      }
    });
    const run = crashing({ cancelAfterMs: 60_000 });
    for (let deaths = 0; deaths < 10; deaths += 1) {
      const answer = await run.execute(tested, { at: 1 });
      if (answer?.status === "suspended") await run.memory.wake();
    }
    expect(await run.finish(tested)).toMatchObject({ status: "cancelled" });
    expect(run.steps().map(({ id, status }) => `${id} ${status}`)).toEqual([
      "paid cancelled",
      "release completed",
      "rest cancelled",
      "tell completed",
    ]);
    expect(run.steps().at(-1)?.result).toBe("[true,true]");
  });

  it("W7, W10: another run's cancellation is an error of the step that waits for it, and no cancellation of this run", async () => {
    const ended = () => {
      throw new StepError("their step", { code: "cancelled", name: "RunEnded", message: "run r-2 ended cancelled" });
    };
    const heard: unknown[] = [];
    const tested = code(async (step) => {
      await step.startRun("report", "report", null).catch((error: unknown) => heard.push(error));
      await step.sleep("rest", "1h").catch((error: unknown) => heard.push(error));
    });
    const run = crashing({ runs: { report: ended }, cancelAfterMs: 60_000 });
    expect(await run.finish(tested)).toMatchObject({ status: "completed" });
    const [theirs, ours] = heard.slice(-2);
    expect(theirs).toBeInstanceOf(StepError);
    expect(theirs).toMatchObject({ stepId: "report", code: "cancelled" });
    expect(ours).toBeInstanceOf(CancelledError);
  });

  it("W10: a run that is cancelled between two steps hears of it at the next one, once", async () => {
    const ran: string[] = [];
    const tested = code(async (step) => {
      await step.run("first", () => run.memory.wake());
      await step
        .run("second", () => ran.push("second"))
        .catch((error: unknown) => {
          if (!(error instanceof CancelledError)) throw error;
          ran.push("heard");
        });
      await step.run("cleanup", () => void ran.push("cleanup"));
    });
    const run = crashing({ cancelAfterMs: 0 });
    await run.execute(tested, { at: 1 });
    expect(await run.finish(tested)).toMatchObject({ status: "completed" });
    expect(ran).toEqual(["heard", "cleanup"]);
    ran.length = 0;
    await run.execute(tested);
    expect(ran).toEqual(["heard"]);
  });
});
