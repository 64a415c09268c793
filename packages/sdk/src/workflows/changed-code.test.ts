import { describe, expect, it } from "vitest";
import { crashing } from "./crashing.fixture.ts";
import type { Step } from "./step.ts";
import { type AnyWorkflow, workflow } from "./workflow.ts";

const ran: string[] = [];
const code = (run: (step: Step) => Promise<unknown>): AnyWorkflow => workflow("order", ({ step }) => run(step));
const work = (step: Step, name: string) => step.run(name, () => void ran.push(name));

const first = code(async (step) => {
  await work(step, "place");
  await work(step, "charge");
  await step.sleep("rest", "1d");
  await work(step, "ship");
});

/** What the code became while the run slept, and the step that is recorded and the one that is attempted instead. */
const changes: [what: string, code: AnyWorkflow, recorded: string, attempted: string][] = [
  [
    "a step was renamed",
    code(async (step) => {
      await work(step, "place");
      await work(step, "pay");
      await step.sleep("rest", "1d");
    }),
    "charge (run)",
    "pay (run)",
  ],
  [
    "two steps changed places",
    code(async (step) => {
      await work(step, "charge");
      await work(step, "place");
      await step.sleep("rest", "1d");
    }),
    "place (run)",
    "charge (run)",
  ],
  [
    "a step was removed",
    code(async (step) => {
      await work(step, "place");
      await step.sleep("rest", "1d");
    }),
    "charge (run)",
    "rest (sleep)",
  ],
  [
    "a step was put in between",
    code(async (step) => {
      await work(step, "place");
      await work(step, "check");
      await work(step, "charge");
      await step.sleep("rest", "1d");
    }),
    "charge (run)",
    "check (run)",
  ],
  [
    "the sleep was removed",
    code(async (step) => {
      await work(step, "place");
      await work(step, "charge");
      await work(step, "ship");
    }),
    "rest (sleep)",
    "ship (run)",
  ],
  [
    "the function ends early",
    code(async (step) => {
      await work(step, "place");
    }),
    "charge (run)",
    "the end of the function",
  ],
  [
    "a branch depends on something that is no step",
    code(async (step) => {
      await work(step, ran.length > 0 ? "refund" : "place");
    }),
    "place (run)",
    "refund (run)",
  ],
];

describe("code that changed under a run", () => {
  it.each(changes)(
    "W8, WF-11: %s: nothing is executed, both steps are named, and the old code goes on",
    async (_, second, recorded, attempted) => {
      ran.length = 0;
      const run = crashing();
      expect(await run.execute(first)).toMatchObject({ status: "suspended" });
      const journal = run.steps();
      expect(ran.splice(0)).toEqual(["place", "charge"]);
      ran.push("something");
      const answer = await run.execute(second);
      expect(answer).toMatchObject({ status: "blocked", reason: { code: "nondeterminism" } });
      expect(JSON.stringify(answer)).toContain(`the journal has ${recorded}`);
      expect(JSON.stringify(answer)).toContain(`came to ${attempted}`);
      expect(ran.splice(0)).toEqual(["something"]);
      expect(run.steps()).toEqual(journal);
      await run.memory.wake();
      expect(await run.finish(first)).toMatchObject({ status: "completed" });
      expect(ran).toEqual(["ship"]);
    },
  );

  it("W8, WF-11: a step of another type under a recorded id is told from it", async () => {
    const run = crashing();
    await run.execute(first);
    const answer = await run.execute(code(async (step) => step.sleep("place", 5)));
    expect(answer).toMatchObject({
      status: "blocked",
      reason: { code: "nondeterminism", message: "the journal has place (run) where the code has place (sleep)" },
    });
  });

  it("W8: a new step beside recorded ones, and behind all of them, is no fault", async () => {
    ran.length = 0;
    const run = crashing();
    await run.execute(first);
    const second = code(async (step) => {
      const greeted = work(step, "greet");
      await work(step, "place");
      await work(step, "charge");
      await step.sleep("rest", "1d");
      await work(step, "ship");
      await greeted;
      await work(step, "thank");
    });
    await run.memory.wake();
    expect(await run.finish(second)).toMatchObject({ status: "completed" });
    expect(ran.sort()).toEqual(["charge", "greet", "place", "ship", "thank"]);
  });

  it("W10: a retried run keeps what it finished, though this attempt may not come to it", async () => {
    let declined = true;
    const saga = code(async (step) => {
      await step.run("reserve", () => void ran.push("reserve"));
      try {
        await step.run(
          "charge",
          () => {
            ran.push("charge");
            if (declined) throw new Error("declined");
          },
          { retry: 0 },
        );
      } catch (error) {
        await step.run("release", () => void ran.push("release"));
        throw error;
      }
    });
    ran.length = 0;
    const before = crashing();
    expect(await before.finish(saga)).toMatchObject({ status: "failed", error: { message: "declined", code: "user" } });
    const kept = before.steps().filter(({ status }) => status === "completed");
    declined = false;
    const again = crashing({ attempt: 2 });
    again.memory.record(kept.map(({ id }) => ({ id, type: "run", status: "completed", attempt: 1 })));
    expect(await again.finish(saga)).toMatchObject({ status: "completed" });
    expect(ran).toEqual(["reserve", "charge", "release", "charge"]);
  });
});
