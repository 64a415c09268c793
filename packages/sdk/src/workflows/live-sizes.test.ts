import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LiveWorkflows, liveWorkflows } from "./live.fixture.ts";
import { workflow } from "./workflow.ts";

let world: LiveWorkflows;
beforeAll(async () => {
  world = await liveWorkflows();
});
afterAll(() => world.close());

const limit = 262_144;
/** A text of three-byte letters whose JSON has exactly `bytes`. */
const filled = (bytes: number): string => `${"€".repeat(Math.floor((bytes - 2) / 3))}${"a".repeat((bytes - 2) % 3)}`;

describe("sizes against a server", () => {
  it("WF-13, W3: results up to the limit are kept whole by the server, one byte more fails the step with limit_exceeded", async () => {
    const tested = workflow<{ bytes: number }>("sized", async ({ input, step }) => {
      const text = await step.run("make", () => filled(input.bytes)).catch((error: { code: string }) => error.code);
      // Into another execution, so that what comes back was read from the journal.
      await step.sleep("nap", "1s");
      return text === filled(input.bytes) ? "whole" : text.slice(0, 100);
    });
    await world.push("sizes", [tested]);
    for (const [bytes, told] of [
      [limit - 1, "whole"],
      [limit, "whole"],
      [limit + 1, "limit_exceeded"],
    ] as const) {
      const id = await world.start("sizes", "sized", { bytes });
      await world.run("sizes", id, ({ status }) => status === "waiting");
      world.server.advance(1000);
      expect(await world.ended("sizes", id)).toMatchObject({ status: "completed", output: told });
    }
  });

  it("W3, W6: an output of more than a response may have arrives whole", async () => {
    await world.push("outputs", [workflow("long", () => filled(3 * 1024 * 1024))]);
    const id = await world.start("outputs", "long");
    expect((await world.ended("outputs", id)).output).toBe(filled(3 * 1024 * 1024));
  });

  it("W7: hundreds of steps side by side, sleeps and children among them, are each carried out once", async () => {
    const calls = new Map<string, number>();
    const child = workflow<number, number>("child", ({ input }) => input * 2);
    const wide = workflow("wide", async ({ step }) => {
      const numbers = Array.from({ length: 150 }, (_, n) => n);
      const ran = await Promise.all(
        numbers.map((n) =>
          step.run("part", ({ stepId }) => {
            calls.set(stepId, (calls.get(stepId) ?? 0) + 1);
            return n;
          }),
        ),
      );
      await Promise.all(numbers.map(() => step.sleep("nap", "1s")));
      const doubled = await Promise.all(numbers.slice(0, 20).map((n) => step.startRun("child", child, n)));
      return [ran.length, doubled.reduce((sum, each) => sum + each, 0)];
    });
    await world.push("wide", [wide, child]);
    const id = await world.start("wide", "wide");
    await world.run("wide", id, ({ status }) => status === "waiting");
    world.server.advance(1000);
    expect(await world.ended("wide", id)).toMatchObject({ status: "completed", output: [150, 380] });
    expect(calls.size).toBe(150);
    expect([...calls.values()].every((count) => count === 1)).toBe(true);
  });

  it("W10: a run that is retried keeps the steps that completed and carries out the others again", async () => {
    const ran: string[] = [];
    let declined = true;
    const tested = workflow("order", async ({ step, run }) => {
      await step.run("reserve", () => void ran.push("reserve"));
      await step.run(
        "charge",
        () => {
          ran.push("charge");
          if (declined) throw new Error("declined");
        },
        { retry: 0 },
      );
      return run.attempt;
    });
    await world.push("retried", [tested]);
    const id = await world.start("retried", "order");
    expect(await world.ended("retried", id)).toMatchObject({ status: "failed", error: { code: "user", message: "declined" } });
    declined = false;
    await world.api("POST", `/apps/retried/runs/${id}/retry`);
    expect(await world.ended("retried", id)).toMatchObject({ status: "completed", attempt: 2, output: 2 });
    expect(ran).toEqual(["reserve", "charge", "charge"]);
  });
});
