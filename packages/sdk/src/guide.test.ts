import { describe, expect, it } from "vitest";
import { blocksOf, faultsOf, namesOf, page, tabledVariables, variablesOf } from "./guide.fixture.ts";

const guide = page("docs/guides/sdk.md");
const readme = page("packages/sdk/README.md");

describe("the guide of the SDK", () => {
  it("A18: every block of it, and of the package's own page, is a program that the package's types accept", () => {
    const blocks = [...blocksOf(guide), ...blocksOf(readme)];
    expect(blocks.length).toBeGreaterThan(20);
    expect(faultsOf(blocks)).toEqual([]);
    expect(faultsOf(['import { queue } from "@millrace/sdk";\nqueue("emails").sned(1);\n'])).toEqual([
      expect.stringContaining("block-1.ts:2: Property 'sned'"),
    ]);
  });

  it("A18: every public name and every method of a queue stands in a block of it", () => {
    const code = blocksOf(guide).join("\n");
    const names = namesOf("packages/sdk/src/index.ts");
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
    const methods = "send sendBatch cancel receive consume handler ensure info pause resume purge redrive schedule unschedule".split(" ");
    expect(methods.filter((method) => !code.includes(`.${method}(`))).toEqual([]);
  });

  it("A18, C15: every variable that the package reads stands in its table", () => {
    const read = variablesOf(["address", "environment", "millrace"].map((name) => `packages/sdk/src/${name}.ts`));
    expect(read).toEqual(tabledVariables(guide));
  });
});
