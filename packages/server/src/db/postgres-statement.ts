/**
 * Hot statements on PostgreSQL: one named statement for all parameter rows, which travel as one array per column. Bodies travel as
 * one byte string that the server cuts, so that none is copied twice. Keyed writes name their keys once more as an array, so
 * that the plan goes by the key whatever the statistics say.
 */
import type { Statement, Value } from "./db.ts";
import { replaceNamed } from "./named.ts";
import { binaryArray } from "./postgres-array.ts";

export interface PostgresStatement {
  text: string;
  values(rows: readonly (readonly Value[])[], now: number): unknown[];
}

/** The text and the values of one statement. */
export function preparePostgres(statement: Statement): PostgresStatement {
  const given = Object.entries(statement.params);
  const bodyAt = given.findIndex(([, type]) => type === "bytea");
  const columns = given.filter(([, type]) => type !== "bytea");
  if (bodyAt >= 0) columns.push(["off", "int"], ["len", "int"]);
  const names = columns.map(([name]) => `"${name}"`).join(", ");
  const rows = `unnest(${columns.map(([, type], i) => `$${i + 1}::${type}[]`).join(", ")}) AS r(${names})`;
  let usesNow = false;
  const nowParam = `$${columns.length + 1}::bigint`;
  const bodyParam = `$${columns.length + 2}::bytea`;
  const fill = (sql: string) =>
    replaceNamed(
      sql
        .replace("{skipLocked}", "FOR NO KEY UPDATE OF m SKIP LOCKED")
        .replace("{lock}", "FOR NO KEY UPDATE")
        .replace("{greatest}", "greatest")
        .replace("{rows}", rows),
      (mark, name) => {
        if (/^\d/.test(name)) return mark + name;
        if (mark === "$") {
          usesNow = true;
          return nowParam;
        }
        return statement.params[name] === "bytea" ? `substring(${bodyParam} FROM r."off" FOR r."len")` : `r."${name}"`;
      },
    );
  const text = fill(textOf(statement, rows, columns));
  return {
    text,
    values(list, now) {
      const arrays: Value[][] = columns.map(() => new Array<Value>(list.length));
      const width = bodyAt >= 0 ? columns.length - 2 : columns.length;
      for (let j = 0; j < list.length; j++) {
        const row = list[j] as readonly Value[];
        // The body is the last parameter of the statements that have one.
        for (let i = 0; i < width; i++) (arrays[i] as Value[])[j] = row[i] as Value;
      }
      const encoded = () => columns.map(([, type], i) => binaryArray(type as "bigint" | "int" | "text", arrays[i] as Value[]));
      if (bodyAt < 0) return usesNow ? [...encoded(), now] : encoded();
      const bodies: Uint8Array[] = [];
      let from = 1;
      for (let j = 0; j < list.length; j++) {
        const body = (list[j] as readonly Value[])[bodyAt] as Uint8Array;
        (arrays[width] as Value[])[j] = from;
        (arrays[width + 1] as Value[])[j] = body.length;
        from += body.length;
        bodies.push(body);
      }
      return [...encoded(), now, Buffer.concat(bodies, from - 1)];
    },
  };
}

/**
 * PostgreSQL takes an array for ten rows. Who is joined with what his keys found must look like more: else each is compared with each, which for
 * five hundred is a quarter of a million comparisons. `many` are the rows as a list that it takes for a thousand, `ONCE` is one row that it takes
 * for as many.
 */
const ONCE = "generate_series(1, least(1, cardinality($1))) AS once";
function many(columns: readonly (readonly [string, string])[]): string {
  const lists = columns.map(([, type], i) => `unnest($${i + 1}::${type}[])`);
  const names = columns.map(([name]) => `"${name}"`);
  return `ROWS FROM (${lists.join(", ")}, generate_series(1, cardinality($1))) AS r(${names.join(", ")}, "nth")`;
}

function textOf(statement: Statement, rows: string, columns: readonly (readonly [string, string])[]): string {
  switch (statement.kind) {
    case "text":
      return statement.text;
    case "select":
      return `SELECT x.* FROM ${rows} CROSS JOIN LATERAL (${statement.select}) AS x`;
    case "insert": {
      const answer = Object.keys(statement.answer ?? {}).join(", ");
      const returning = answer === "" ? "" : `RETURNING ${answer}`;
      return `INSERT INTO ${statement.into} SELECT ${statement.values} FROM ${rows} ${statement.conflict ?? ""} ${returning}`;
    }
    case "write": {
      const join = statement.head.startsWith("DELETE") ? "USING" : "FROM";
      const key =
        statement.table === undefined
          ? "message.seq"
          : statement.table === "dedup" || statement.table === "quota"
            ? null
            : `${statement.table}.no`;
      const at = columns.findIndex(([name]) => key?.endsWith(`.${name}`));
      const keyed = key === null ? "" : `AND ${key} = ANY($${at + 1}::bigint[])`;
      const returning = statement.returning === undefined ? "" : `RETURNING ${statement.returning}`;
      return `${statement.head} ${join} ${key === null ? rows : many(columns)} WHERE ${statement.where} ${keyed} ${returning}`;
    }
    case "take": {
      const carried = statement.carry.map((name) => `, r."${name}"`).join("");
      const also = statement.also === undefined ? "" : `, ${statement.also.replace(/(\w+)/g, "message.$1")}`;
      return `WITH due AS MATERIALIZED (SELECT x.*${carried} FROM ${rows}
          CROSS JOIN LATERAL (${statement.pick.replace("{also}", "")}) AS x CROSS JOIN ${ONCE})
        UPDATE message SET ${statement.set} FROM due WHERE message.seq = due.seq AND message.seq = ANY(ARRAY(SELECT due.seq FROM due))
        RETURNING due.*${also}`;
    }
  }
}
