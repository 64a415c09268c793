/** The programs in pages, and what the compiler says of them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** A file of the repository. */
export const page = (path: string): string => readFileSync(join(root, path), "utf8");

/** The TypeScript blocks of a page. */
export const blocksOf = (text: string): string[] => [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);

/** The faults of programs, each a module of its own in the folder of the examples, by the line of the program. */
export function faultsOf(programs: readonly string[]): string[] {
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

/** Every name that a module exports by name. */
export function namesOf(path: string): string[] {
  return [...page(path).matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names = ""]) =>
    names
      .split(",")
      .map((name) => name.replace(/^\s*type\s/, "").trim())
      .filter((name) => name !== ""),
  );
}

/** The variables that modules read, sorted. */
export function variablesOf(paths: readonly string[]): string[] {
  const sources = paths.map(page).join("\n");
  return [...new Set([...sources.matchAll(/variable\("(\w+)"\)/g)].map(([, name = ""]) => name))].sort();
}

/** The variables that a page's table has, sorted. */
export const tabledVariables = (text: string): string[] => [...text.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name = ""]) => name).sort();
