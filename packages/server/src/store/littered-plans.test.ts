/** The plans of PostgreSQL where statistics say that a big table holds nothing: every index looks as good as the primary key then. */
import { postgres } from "@millrace/testkit";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Statement } from "../db/db.ts";
import { openPostgres, type PostgresDb } from "../db/postgres.ts";
import { migrate } from "./migrate.ts";
import { statements } from "./statements.ts";

let db: PostgresDb;
let client: pg.Client;
beforeAll(async () => {
  const url = await (await postgres()).fresh();
  db = openPostgres({ url, statements, offset: () => 0 });
  await migrate(db);
  client = new pg.Client({
    connectionString: url,
    options: "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off",
  });
  await client.connect();
  // As after a burst, beside a transaction that somebody left open: all of it is dead, and none of it can be vacuumed.
  await client.query(`ALTER TABLE message SET (autovacuum_enabled = off);
    INSERT INTO message (seq, origin, queue_no, line_at, due_at, sent_at, expires_at, body, receives, attempts)
      SELECT i, i, 1, i, i, i, i, 'x', 0, 0 FROM generate_series(1, 5000) AS s(i);
    DELETE FROM message; ANALYZE message`);
});
afterAll(async () => {
  await client.end();
  await db.close();
});

/** The text of `EXPLAIN` for one call with a row of nulls. */
async function planOf(text: string): Promise<string> {
  const last = Math.max(...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)));
  await client.query(`PREPARE one AS ${text}`);
  const { rows } = await client.query<Record<string, string>>(`EXPLAIN EXECUTE one (${new Array(last).fill("NULL").join(", ")})`);
  await client.query("DEALLOCATE one");
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

it("STORE-05, STORE-09: what names messages by number finds them by their numbers, whatever the statistics say", async () => {
  const keyed = (Object.entries(statements) as [string, Statement][]).filter(([, { kind, ...rest }]) => {
    if (kind === "write") return !("table" in rest);
    return kind === "take" || (kind === "text" && "text" in rest && rest.text.includes("seq = ANY"));
  });
  expect(keyed.length).toBeGreaterThan(15);
  for (const [name] of keyed) {
    const plan = await planOf(db.textOf(name));
    const changed = plan.split("\n").filter((line) => /Index Scan using \S+ on message( m)? /.test(line));
    expect(changed.at(-1), `${name}: ${plan}`).toContain("message_pkey");
  }
});

it("STORE-09: what the numbers found is joined with hundreds of rows by hash, never each with each", async () => {
  const many = ["claim.heads", "claim.lease", "settle.ack", "settle.retry", "settle.extend", "group.join", "group.promote", "group.stand"];
  for (const name of many) expect(await planOf(db.textOf(name)), name).toMatch(/Hash Join|Merge Join/);
});
