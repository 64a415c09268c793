/**
 * `dev.json` in the data directory: how the commands beside a dev server find it, and where its key lives from one start to the next.
 * Readable by its owner only.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DevFile, devFileName } from "../connection.ts";

/** The key of the last start with this data directory, if there was one. */
export function rememberedKey(data: string): string | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(data, devFileName), "utf8"));
    const key = typeof value === "object" && value !== null && "apiKey" in value ? value.apiKey : undefined;
    return typeof key === "string" ? key : undefined;
  } catch {
    return undefined;
  }
}

export function writeDevFile(data: string, file: DevFile): void {
  mkdirSync(data, { recursive: true });
  const draft = join(data, `${devFileName}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(file)}\n`, { mode: 0o600 });
  chmodSync(draft, 0o600);
  renameSync(draft, join(data, devFileName));
}
