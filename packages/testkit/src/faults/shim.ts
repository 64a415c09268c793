/** Compiles the C sources in `faults/` into libraries that can be preloaded into a child process. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { scratch } from "../scratch.ts";

const made = new Map<string, string>();

/** The path of the library made from `faults/<name>.c`, compiled once per process. Throws without a C compiler. */
export function shim(name: "power-cut" | "full-disk"): string {
  const known = made.get(name);
  if (known !== undefined) return known;
  const source = fileURLToPath(new URL(`../../faults/${name}.c`, import.meta.url));
  const library = join(scratch("shim").path, `${name}.so`);
  execFileSync("cc", ["-shared", "-fPIC", "-O2", "-o", library, source, "-ldl", "-lpthread"], { stdio: "inherit" });
  made.set(name, library);
  return library;
}
