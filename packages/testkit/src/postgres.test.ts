import pg from "pg";
import { expect, it } from "vitest";
import { postgres, startPostgres } from "./index.ts";

const ask = async (url: string, sql: string): Promise<unknown[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

it("every database of the shared server is empty and its own", async () => {
  const server = await postgres();
  const [one, two] = await Promise.all([server.fresh(), server.fresh()]);
  await ask(one, "CREATE TABLE only_here (a int)");
  expect(await ask(two, "SELECT relname FROM pg_class WHERE relname = 'only_here'")).toEqual([]);
});

it("a server of one's own comes back after a crash with what was committed", async () => {
  const server = await startPostgres();
  try {
    const url = await server.fresh();
    await ask(url, "CREATE TABLE kept AS SELECT 7 AS a");
    await server.restart("immediate");
    expect(await ask(url, "SELECT a FROM kept")).toEqual([{ a: 7 }]);
  } finally {
    await server.stop();
  }
});
