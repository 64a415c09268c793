import { Fault } from "@millrace/contract";
import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { openPostgres } from "./postgres.ts";

const opened = (url: string) => openPostgres({ url, statements: {}, offset: () => 0 });
const thrownBy = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => null,
    (error: unknown) => error,
  );

it("A13: a database that refuses whom it let in before is away; one that never did tells why", async () => {
  const server = await postgres();
  const url = await server.fresh();
  const name = new URL(url).pathname.slice(1);
  const admin = new pg.Client(await server.fresh());
  await admin.connect();
  const db = opened(url);
  await db.transaction((tx) => tx.query("SELECT 1 AS one"));
  await admin.query(`DROP DATABASE "${name}" WITH (FORCE)`);
  const away = await thrownBy(db.transaction((tx) => tx.query("SELECT 1 AS one")));
  expect(away).toMatchObject({ code: "unavailable", cause: expect.anything() });
  const later = await thrownBy(db.transaction((tx) => tx.query("SELECT 1 AS one")));
  expect(later).toMatchObject({ code: "unavailable", cause: { code: "3D000" } });
  await db.close();
  const never = opened(url);
  expect(await thrownBy(never.transaction((tx) => tx.query("SELECT 1 AS one")))).toMatchObject({ code: "3D000" });
  await never.close();
  await admin.end();
});

it("A13: a full disk is told as such and loses no connection", async () => {
  const db = opened(await (await postgres()).fresh());
  const full = "DO $do$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $do$";
  const fault = await thrownBy(db.transaction((tx) => tx.query(full)));
  expect(fault).toBeInstanceOf(Fault);
  expect(fault).toMatchObject({ code: "unavailable", message: "The database's disk is full." });
  expect(await db.transaction((tx) => tx.query("SELECT 1 AS one"))).toEqual([{ one: 1 }]);
  await db.close();
});
