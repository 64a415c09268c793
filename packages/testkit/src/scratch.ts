/**
 * Scratch folders of tests: each is removed when its test says so, and at the latest when the process ends. In a test run they lie in
 * the run's own folder (`MILLRACE_TEST_SCRATCH`, see `global-setup.ts`), since test processes may end without a last word.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const left = new Map<string, () => void>();
let armed = false;

/** Removes `folder` at exit, after calling `before`. Answers a function that calls this off. */
export function removeAtExit(folder: string, before: () => void = () => {}): () => void {
  if (!armed) {
    armed = true;
    process.once("exit", () => {
      for (const [path, call] of left) {
        call();
        rmSync(path, { recursive: true, force: true });
      }
    });
  }
  left.set(folder, before);
  return () => left.delete(folder);
}

/** A new empty folder, and how to remove it early. */
export function scratch(name = "test"): { path: string; remove(): void } {
  const path = mkdtempSync(join(process.env.MILLRACE_TEST_SCRATCH ?? tmpdir(), `millrace-${name}-`));
  const forget = removeAtExit(path);
  return {
    path,
    remove() {
      forget();
      rmSync(path, { recursive: true, force: true });
    },
  };
}
