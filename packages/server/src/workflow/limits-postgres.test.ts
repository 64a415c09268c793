import { expect, it } from "vitest";
import { openEngineWorld } from "./engine-world.suite.ts";
import type { Workflow } from "./executor.suite.ts";

it("W18: workflows with limits of their own never wait for each other in a circle", async () => {
  const w = await openEngineWorld("postgres");
  try {
    const flow: Workflow = async (_input, step) => {
      await step.run("a", () => 1);
      await step.sleep("nap", 1_000);
    };
    const names = ["a", "b", "c", "d", "e", "f"];
    w.executor.concurrency = Object.fromEntries(names.map((name) => [name, 2]));
    const { row } = await w.app(Object.fromEntries(names.map((name) => [name, flow])));
    const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => w.start(row, names[n % names.length] as string)));
    for (const id of ids) expect(await w.ended(row, id)).toMatchObject({ status: "completed" });
    expect(await w.world.count("SELECT deadlocks AS n FROM pg_stat_database WHERE datname = current_database()")).toBe(0);
  } finally {
    await w.close();
  }
});
