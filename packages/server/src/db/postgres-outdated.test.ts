import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { openPostgres } from "./postgres.ts";

it("A11, A13: a statement that was prepared before another node changed its table's schema is prepared anew, unseen", async () => {
  const url = await (await postgres()).fresh();
  const other = new pg.Client(url);
  await other.connect();
  await other.query("CREATE TABLE kept (no integer PRIMARY KEY, name text NOT NULL); INSERT INTO kept VALUES (1, 'a')");
  const db = openPostgres({ url, statements: {}, offset: () => 0 });
  const read = () => db.transaction((tx) => tx.query("SELECT no, name FROM kept WHERE no = :no", { no: 1 }));
  expect(await read()).toEqual([{ no: 1, name: "a" }]);
  await other.query('ALTER TABLE kept ALTER COLUMN name TYPE text COLLATE "C"');
  expect(await read()).toEqual([{ no: 1, name: "a" }]);
  await db.close();
  await other.end();
});

it("A11: however many connections prepared it, nobody hears of it", async () => {
  const url = await (await postgres()).fresh();
  const other = new pg.Client(url);
  await other.connect();
  await other.query("CREATE TABLE kept (no integer PRIMARY KEY); INSERT INTO kept VALUES (1)");
  const many = 12;
  const db = openPostgres({ url, statements: {}, offset: () => 0, coldConnections: many });
  let here = 0;
  let gather = () => {};
  const gathered = new Promise<void>((resolve) => {
    gather = resolve;
  });
  const read = () =>
    db.transaction(async (tx) => {
      const rows = await tx.query("SELECT * FROM kept WHERE no = :no", { no: 1 });
      if (++here === many) gather();
      await gathered;
      return rows;
    });
  await Promise.all(Array.from({ length: many }, read));
  await other.query("ALTER TABLE kept ADD COLUMN name text");
  expect(await read()).toEqual([{ no: 1, name: null }]);
  await db.close();
  await other.end();
});
