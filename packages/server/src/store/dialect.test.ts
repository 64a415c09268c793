/**
 * The SQL that PostgreSQL gets (A14), read from the source: the words and functions in it are those of the dialect that PostgreSQL,
 * CockroachDB and YugabyteDB share, apart from the exceptions that `docs/storage.md` lists.
 */
import { readdirSync, readFileSync } from "node:fs";
import ts from "typescript";
import { expect, it } from "vitest";

/** Words of statements. Beyond the standard, but common to the three: LIMIT, RETURNING, ON CONFLICT, LATERAL, MATERIALIZED, SKIP LOCKED. */
const WORDS =
  `ADD ALL ALTER AND ANY ARRAY AS BEGIN BETWEEN BY CASE COALESCE COLUMN COMMIT CONFLICT CREATE CROSS DEFAULT DELETE DESC DISTINCT DO DROP
  ELSE END EXISTS FOR FROM GROUP HAVING IF IN INDEX INSERT INTO IS JOIN KEY LATERAL LEFT LIMIT LOCKED MATERIALIZED MAX MIN NO NOT NOTHING NULL
  OF OFFSET ON OR ORDER OVER PARTITION PRIMARY RECURSIVE REFERENCES RESTART RETURNING ROLLBACK ROWS SELECT SEQUENCE SET SHARE SKIP TABLE THEN UNION UNIQUE
  UPDATE USING VALUES WHEN WHERE WITH`.split(/\s+/);
const FUNCTIONS =
  `coalesce count extract floor generate_series greatest least length cardinality max min nextval nullif octet_length row_number substr substring sum
  unnest clock_timestamp`.split(/\s+/);
const TYPES = ["bigint", "int", "text", "bytea", "bigint[]", "int[]"];
const OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||"];

/** What only PostgreSQL has, or only with a difference, each as it stands in `docs/storage.md`. */
const EXCEPTIONS: Record<string, RegExp> = {
  pg_advisory_xact_lock: /\bpg_(try_)?advisory_xact_lock(_shared)?\b/g,
  "LISTEN, pg_notify": /\bLISTEN\b|\bpg_notify\b/g,
  pg_backend_pid: /\bpg_backend_pid\b/g,
  "SET LOCAL synchronous_commit": /\bSET LOCAL synchronous_commit\b/g,
  'COLLATE "C"': /\b(?:ALTER COLUMN name TYPE text )?COLLATE "C"/g,
  to_regclass: /\bto_regclass\b/g,
  "fillfactor, autovacuum": /\bWITH \(fillfactor[^)]*\)/g,
  "pg_stat, pg_settings":
    /\b(pg_stat_\w+|pg_settings|pg_class|pg_total_relation_size|pg_relation_size|current_setting|current_schema|current_database)\b/g,
};

/** Every text of the source that is SQL or a part of it, with a `?` for what is filled in. */
function statements(): string[] {
  const texts: string[] = [];
  for (const folder of ["./", "./migrations/", "../db/"])
    for (const name of readdirSync(new URL(folder, import.meta.url))) {
      if (!name.endsWith(".ts") || /\.(test|suite)\.ts$|^sqlite/.test(name)) continue;
      const source = ts.createSourceFile(name, readFileSync(new URL(folder + name, import.meta.url), "utf8"), ts.ScriptTarget.Latest);
      const visit = (node: ts.Node): void => {
        if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) texts.push(node.text);
        else if (ts.isTemplateExpression(node))
          texts.push(node.head.text + node.templateSpans.map(({ literal }) => `?${literal.text}`).join(""));
        ts.forEachChild(node, visit);
      };
      visit(source);
    }
  return texts.filter((text) =>
    /\b(SELECT|FROM|WHERE|INSERT|UPDATE|DELETE|CREATE|ALTER|CASE|BEGIN|LISTEN|AND|SET|WITH|COLLATE|AS|NULL)\b/.test(text),
  );
}

const found = (texts: readonly string[], pattern: RegExp, part: number): string[] => [
  ...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map((match) => match[part] ?? ""))),
];

/** What of these texts lies outside the dialect, once its exceptions are taken out. */
function foreign(texts: readonly string[]): string[] {
  const left = texts.map((text) =>
    Object.values(EXCEPTIONS)
      .reduce((rest, pattern) => rest.replace(pattern, " "), text)
      .replace(/'[^']*'|"[^"]*"/g, " "),
  );
  return [
    ...found(left, /\b[A-Z]{2,}\b/g, 0).filter((word) => !WORDS.includes(word)),
    ...found(
      left.map((text) =>
        text
          .replace(/\bINDEX \w+ ON \w+ \(/g, " ; ")
          .replace(/\b(INTO|TABLE|ON|REFERENCES|RECURSIVE|WITH|AS)\s+(IF NOT EXISTS\s+)?\w+\s*\(/g, " ; "),
      ),
      /\b([a-z_]\w*)\s?\(/g,
      1,
    ).filter((name) => !FUNCTIONS.includes(name)),
    ...found(left, /::([a-z]+(?:\[\])?)/g, 1).filter((type) => !TYPES.includes(type)),
    ...found(left, /[<>=!~@#&|^*/%+-]+/g, 0).filter((operator) => !OPERATORS.includes(operator)),
  ];
}

it("A14: the SQL keeps to the dialect that CockroachDB and YugabyteDB share with PostgreSQL, apart from what the documentation lists", () => {
  const texts = statements();
  expect(texts.length).toBeGreaterThan(400);
  expect(foreign(texts)).toEqual([]);
  // The check finds what is foreign.
  expect(
    foreign([
      "SELECT DISTINCT ON (a) a FROM t WHERE b ~ 'x' AND c->>'d' ILIKE 'e'",
      "SELECT jsonb_agg(x::jsonb) FROM t FETCH FIRST 1 ROW ONLY",
    ]),
  ).toEqual(expect.arrayContaining(["ILIKE", "FETCH", "jsonb_agg", "jsonb", "~", "->>"]));
  const page = readFileSync(new URL("../../../../docs/storage.md", import.meta.url), "utf8");
  for (const [name, pattern] of Object.entries(EXCEPTIONS)) {
    expect([name, texts.some((text) => text.search(pattern) >= 0)]).toEqual([name, true]);
    for (const part of name.split(", ")) expect([part, page.includes(`\`${part}`)]).toEqual([part, true]);
  }
});
