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

it("A13, STORE-08: a database that takes no writes is away, for reads too, until another connection leads to one that does", async () => {
  const url = await (await postgres()).fresh();
  const admin = new pg.Client(url);
  await admin.connect();
  const readOnly = (value: string) =>
    admin.query(`ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET default_transaction_read_only = ${value}`);
  const db = opened(url);
  const read = () => db.transaction((tx) => tx.query("SELECT 1 AS one"));
  await readOnly("on");
  const fault = await thrownBy(read());
  expect(fault).toMatchObject({
    code: "unavailable",
    message: "The database takes no writes. Try again shortly.",
    cause: { code: "25006" },
  });
  await admin.query("SET default_transaction_read_only = off");
  await readOnly("off");
  expect(await read()).toEqual([{ one: 1 }]);
  await db.close();
  await admin.end();
});

it("A13: a statement that somebody cancels, or a limit of the role's, is told as one to try again", async () => {
  const db = opened(await (await postgres()).fresh());
  for (const code of ["query_canceled", "lock_not_available"]) {
    const ended = `DO $do$ BEGIN RAISE EXCEPTION 'canceling statement' USING ERRCODE = '${code}'; END $do$`;
    const fault = await thrownBy(db.transaction((tx) => tx.query(ended)));
    expect(fault).toBeInstanceOf(Fault);
    expect(fault).toMatchObject({ code: "unavailable" });
    expect((fault as Fault).cause).toBeUndefined();
  }
  await db.close();
});

it("A13: what an address says in its options comes beside what nodes need of their sessions", async () => {
  const url = await (await postgres()).fresh();
  const asked = "-c search_path=pg_catalog -c idle_in_transaction_session_timeout=0";
  for (const query of [
    `?options=${encodeURIComponent(asked)}`,
    `?application_name=x&options=${asked.replaceAll(" ", "+")}&connect_timeout=5`,
  ]) {
    const db = opened(`${url}${query}`);
    const settings = await db.transaction((tx) =>
      tx.query("SELECT current_setting('search_path') AS path, current_setting('idle_in_transaction_session_timeout') AS idle"),
    );
    expect(settings).toEqual([{ path: "pg_catalog", idle: "5s" }]);
    await db.close();
  }
});
