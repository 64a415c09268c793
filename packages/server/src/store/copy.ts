/**
 * Copies the open database, a few megabytes at a time between other work, so that nobody waits long. What changes meanwhile is copied
 * once more by SQLite itself, since it is changed through the same connection.
 */
import { closeSync, openSync } from "node:fs";
import type Database from "better-sqlite3";

/** Pages of one step: 4 MiB. */
const PAGES = 256;

/** Copies to a new file, readable by its owner alone; rejects when there is one. `stopped` ends it early, with an error. */
export async function copyTo(raw: Database.Database, path: string, stopped: () => boolean): Promise<void> {
  closeSync(openSync(path, "wx", 0o600));
  await raw.backup(path, {
    progress: () => {
      if (stopped()) throw new Error("the server stops: the copy is not whole");
      return PAGES;
    },
  });
}
