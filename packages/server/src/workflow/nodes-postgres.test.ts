import { expect, it } from "vitest";
import { openEngineWorld } from "./engine-world.suite.ts";
import type { Workflow } from "./executor.suite.ts";

it("W5, A13: two nodes that both think a lane theirs never execute a run twice at once, and no step runs twice", async () => {
  const w = await openEngineWorld("postgres");
  try {
    const open = new Map<number, number>();
    const together: number[] = [];
    const ran: string[] = [];
    const flow: Workflow = async (n: number, step) => {
      const now = (open.get(n) ?? 0) + 1;
      open.set(n, now);
      if (now > 1) together.push(n);
      const left = (): unknown => open.set(n, (open.get(n) ?? 1) - 1);
      for (let i = 0; i < 4; i++) {
        await step.run(`step ${i}`, () => ran.push(`${n} ${i}`));
        // The execution is over once it suspends: what comes after belongs to the next one.
        left();
        await step.sleep(`nap ${i}`, 10);
        open.set(n, (open.get(n) ?? 0) + 1);
      }
      left();
      return n;
    };
    const { row } = await w.app({ flow });
    await w.node();
    const ids = await Promise.all(Array.from({ length: 25 }, (_, n) => w.start(row, "flow", n)));
    // In small steps: time must not outrun the leases of what the other node executes.
    for (const id of ids) expect(await w.ended(row, id, 10)).toMatchObject({ status: "completed" });
    expect(together).toEqual([]);
    expect(ran).toHaveLength(100);
    expect(new Set(ran).size).toBe(100);
  } finally {
    await w.close();
  }
});
