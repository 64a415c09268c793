import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const guide = readFileSync(join(root, "docs/guides/sdk.md"), "utf8");
const readme = readFileSync(join(root, "packages/sdk/README.md"), "utf8");
const blocksOf = (text: string): string[] => [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);

/** The faults of programs, each a module of its own in the folder of the examples, by the line of the program. */
function faultsOf(programs: readonly string[]): string[] {
  const files = new Map(programs.map((code, index) => [join(root, "examples/sdk", `block-${index + 1}.ts`), code]));
  const { options } = ts.parseJsonConfigFileContent(
    ts.readConfigFile(join(root, "tsconfig.check.json"), ts.sys.readFile).config,
    ts.sys,
    root,
  );
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile, readFile } = host;
  host.fileExists = (name) => files.has(name) || fileExists(name);
  host.readFile = (name) => files.get(name) ?? readFile(name);
  host.getSourceFile = (name, version, ...rest) => {
    const code = files.get(name);
    return code === undefined ? getSourceFile(name, version, ...rest) : ts.createSourceFile(name, code, version);
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files.keys()].flatMap((name) => {
    const file = program.getSourceFile(name);
    return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map(({ messageText, start = 0 }) => {
      const line = (file?.getLineAndCharacterOfPosition(start).line ?? 0) + 1;
      return `${name.slice(root.length)}:${line}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
    });
  });
}

/** Every name that the package exports. */
function publicNames(): string[] {
  const source = readFileSync(join(root, "packages/sdk/src/index.ts"), "utf8");
  return [...source.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names = ""]) =>
    names
      .split(",")
      .map((name) => name.replace(/^\s*type\s/, "").trim())
      .filter((name) => name !== ""),
  );
}

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
    const names = publicNames();
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
    const methods = "send sendBatch cancel receive consume handler ensure info pause resume purge redrive schedule unschedule".split(" ");
    expect(methods.filter((method) => !code.includes(`.${method}(`))).toEqual([]);
  });

  it("A18, C15: every variable that the package reads stands in its table", () => {
    const sources = ["environment.ts", "millrace.ts"].map((name) => readFileSync(join(root, "packages/sdk/src", name), "utf8")).join("\n");
    const read = new Set([...sources.matchAll(/variable\("(\w+)"\)/g)].map(([, name]) => name));
    expect([...read].sort()).toEqual([...guide.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name).sort());
  });
});
