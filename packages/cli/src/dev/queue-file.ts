/**
 * Keeps a dev server's queues and schedules as `millrace.yaml` declares them: at the start and whenever the file changes. Applying twice
 * changes nothing; what is no longer declared is left alone. A file at fault is told of and changes nothing.
 */
import { unwatchFile, watchFile } from "node:fs";
import { readQueueFile } from "@millrace/server/config";
import type { Client } from "../client.ts";
import { applySection, changeText } from "../section.ts";

/** How often the file is looked at. */
const lookEveryMs = 500;

/** The section without the databases that it places queues on: a dev server has one. */
function onOneDatabase(section: unknown): unknown {
  const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMap(section)) return section;
  return Object.fromEntries(
    Object.entries(section).map(([name, queue]) => [name, isMap(queue) ? { ...queue, database: undefined } : queue]),
  );
}

async function apply(client: Client, path: string, note: (text: string) => void): Promise<void> {
  const file = readQueueFile(path);
  if (file.problems.length > 0) {
    for (const problem of file.problems) note(problem);
    return;
  }
  const { changes } = await applySection(client, { ...file, section: onOneDatabase(file.section) }, { check: false, prune: false });
  for (const change of changes) if (change.action !== "unchanged") note(`${path}: ${changeText(change)}`);
}

/** Applies the file if there is one, and again after every change; answers the function that ends it. */
export async function followQueueFile(client: Client, path: string, note: (text: string) => void): Promise<() => Promise<void>> {
  const applySafely = () =>
    apply(client, path, note).catch((error: unknown) => {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
      note(error instanceof Error ? error.message : String(error));
    });
  await applySafely();
  let last: Promise<void> = Promise.resolve();
  watchFile(path, { interval: lookEveryMs, persistent: false }, (now, before) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) last = last.then(applySafely);
  });
  return async () => {
    unwatchFile(path);
    await last;
  };
}
