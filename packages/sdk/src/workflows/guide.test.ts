import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { blocksOf, faultsOf, namesOf, page, tabledVariables, variablesOf } from "../guide.fixture.ts";

const guide = page("docs/guides/workflows.md");

describe("the guide of workflows", () => {
  it("A18, W18: every block of it is a program that the package's types accept, and every public name stands in one", () => {
    const blocks = blocksOf(guide);
    expect(faultsOf(blocks)).toEqual([]);
    const code = blocks.join("\n");
    const names = namesOf("packages/sdk/src/workflows/index.ts");
    expect(names.length).toBeGreaterThan(30);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
  });

  it("A18, W18: every variable that workflows read stands in its table", () => {
    const own = readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".ts") && !name.includes(".test."));
    const read = variablesOf(["packages/sdk/src/address.ts", ...own.map((name) => `packages/sdk/src/workflows/${name}`)]);
    expect(tabledVariables(guide)).toEqual(read);
  });
});
