/**
 * `dev.json` in the data directory: how the commands beside a dev server find it, and where its key and its clock's offset live from one
 * start to the next. Readable by its owner only.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DevFile, devFileName } from "../connection.ts";

/** What a dev server remembers from one start to the next. */
export interface Remembered {
  apiKey?: string;
  /** By how much its virtual clock had been moved forward, in milliseconds: what is stored is of that time. */
  clockOffsetMs: number;
}

/** What the last start with this data directory left; nothing but a clock at rest when there was none. */
export function remembered(data: string): Remembered {
  try {
    const value = JSON.parse(readFileSync(join(data, devFileName), "utf8")) as Partial<Record<keyof Remembered, unknown>> | null;
    const { apiKey, clockOffsetMs } = value ?? {};
    const moved = typeof clockOffsetMs === "number" && clockOffsetMs > 0 ? clockOffsetMs : 0;
    return typeof apiKey === "string" ? { apiKey, clockOffsetMs: moved } : { clockOffsetMs: moved };
  } catch {
    return { clockOffsetMs: 0 };
  }
}

/** Writes the file in one piece, so that whoever reads it meanwhile reads a whole one. */
export function writeDevFile(data: string, file: DevFile & Remembered): void {
  mkdirSync(data, { recursive: true });
  const draft = join(data, `${devFileName}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(file)}\n`, { mode: 0o600 });
  chmodSync(draft, 0o600);
  renameSync(draft, join(data, devFileName));
}
