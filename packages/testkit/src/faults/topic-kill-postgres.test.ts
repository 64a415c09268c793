import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { millrace } from "./millrace-process.ts";
import { rounds } from "./strike.ts";
import { topicsKilled } from "./topic-kill.ts";

let database: PostgresServer;
beforeAll(async () => {
  database = await startPostgres();
});
afterAll(() => database.stop());

it("T3, T9: on PostgreSQL kill -9 at random instants leaves exactly one record for each match, and its message with it", {
  timeout: 600_000,
}, async () => {
  const server = await millrace({ databaseUrl: await database.fresh() });
  await server.start();
  try {
    const { violations, answered } = await topicsKilled(server, rounds(3), 120_000);
    expect(violations).toEqual([]);
    expect(answered).toBeGreaterThan(30);
  } finally {
    await server.kill();
  }
});
