import { postgres } from "@millrace/testkit";
import pg from "pg";
import { expect, it } from "vitest";
import { binaryArray } from "./postgres-array.ts";

it("STORE-09: arrays of numbers and texts reach PostgreSQL as they are, with nulls, signs and every character", async () => {
  const client = new pg.Client({ connectionString: await (await postgres()).fresh() });
  await client.connect();
  const numbers = [0, 1, -1, null, 2 ** 31, -(2 ** 31) - 1, 2 ** 32, 2 ** 52 + 1, -(2 ** 52) - 1, 8_640_000_000_000_000];
  const ints = [0, -1, null, 2 ** 31 - 1, -(2 ** 31)];
  const texts = ["", "a", null, 'q"\\{},NULL', "é€😀".repeat(500), "\n\t\u0001"];
  try {
    const { rows } = await client.query<{ n: string | null; i: number | null; t: string | null }>(
      "SELECT r.n, r.i, r.t FROM unnest($1::bigint[], $2::int[], $3::text[]) AS r(n, i, t)",
      [binaryArray("bigint", numbers), binaryArray("int", ints), binaryArray("text", texts)],
    );
    expect(rows.map(({ n }) => (n === null ? null : Number(n)))).toEqual(numbers);
    expect(rows.slice(0, ints.length).map(({ i }) => i)).toEqual(ints);
    expect(rows.slice(0, texts.length).map(({ t }) => t)).toEqual(texts);
  } finally {
    await client.end();
  }
});
