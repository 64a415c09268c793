import { join } from "node:path";
import { expect, it } from "vitest";
import { scratch } from "../scratch.ts";
import { millrace } from "./millrace-process.ts";
import { rounds } from "./strike.ts";
import { workflowsKilled } from "./workflow-kill.ts";

it("W19, W9, W12, W14, W15, W17, WF-05: on SQLite kill -9 at random instants leaves each order one run, its payment and one result", {
  timeout: 600_000,
}, async () => {
  const folder = scratch("workflow-kill");
  const server = await millrace({ data: join(folder.path, "data") });
  await server.start();
  try {
    const { violations, orders } = await workflowsKilled(server, rounds(4), 120_000);
    expect(violations).toEqual([]);
    expect(orders).toBeGreaterThan(20);
  } finally {
    await server.kill();
    folder.remove();
  }
});
