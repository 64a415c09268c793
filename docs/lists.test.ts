import { readFileSync } from "node:fs";
import { errorStatus, operations } from "@millrace/contract";
import { describe, expect, it } from "vitest";

/** The cells of the table after a marker, row by row, without its head. */
function rowsAfter(file: string, marker: string): string[][] {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  const table = text.slice(text.indexOf(`<!-- ${marker}`)).match(/(?:^\|.*\|$\n?)+/m)?.[0] ?? "";
  return table
    .trim()
    .split("\n")
    .slice(2)
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

describe("the lists in the documentation", () => {
  it("A2: docs/errors.md lists every code of the closed list, in its order, with its status and when it comes", () => {
    const rows = rowsAfter("errors.md", "codes");
    expect(rows.map(([code, status]) => [code, Number(status)])).toEqual(
      Object.entries(errorStatus).map(([code, status]) => [`\`${code}\``, status]),
    );
    for (const [code, , when] of rows) expect(when, code).not.toBe("");
  });

  it("A6: docs/permissions.md lists every permission with the operations that it guards", () => {
    const guarded = new Map<string, string[]>();
    for (const [name, { permission }] of Object.entries(operations)) {
      if (permission !== null) guarded.set(`\`${permission}\``, [...(guarded.get(`\`${permission}\``) ?? []), name]);
    }
    const rows = rowsAfter("permissions.md", "permissions");
    expect(rows.map(([permission, , names]) => [permission, names])).toEqual(
      [...guarded].map(([permission, names]) => [permission, names.join(", ")]),
    );
  });
});
