import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { millrace } from "./millrace-process.ts";
import { rounds } from "./strike.ts";
import { workflowsKilled } from "./workflow-kill.ts";

let database: PostgresServer;
beforeAll(async () => {
  database = await startPostgres();
});
afterAll(() => database.stop());

it("W19, W9, W12, W14, W15, W17, WF-05: on PostgreSQL kill -9 at random instants leaves each order one run, its payment and one result", {
  timeout: 600_000,
}, async () => {
  const server = await millrace({ databaseUrl: await database.fresh() });
  await server.start();
  try {
    const { violations, orders } = await workflowsKilled(server, rounds(3), 180_000);
    expect(violations).toEqual([]);
    expect(orders).toBeGreaterThan(20);
  } finally {
    await server.kill();
  }
});
