/** What becomes of runs, on either engine: `engineSuite` is run by the tests beside it. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
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
  });
}
