/**
 * `GET /backup` (A12): the whole SQLite database as one file, copied while the server works. It holds what every project stored, so only a
 * key of the whole installation that may do `installation.backup` gets it. The copy lies in the data directory until it is sent.
 */
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@millrace/contract";
import type { FastifyInstance } from "fastify";
import type { Authenticator } from "../identity/authenticate.ts";
import { authorize } from "../identity/rules.ts";

const PERMISSION = "installation.backup";
const RESOURCE = "installation";

export interface Backup {
  /** Copies the database to a new file. */
  copy: (path: string) => Promise<void>;
  /** Where the copy may lie meanwhile. */
  folder: string;
  random: (bytes: number) => Uint8Array;
}

/** Adds the route; answers it. */
export function addBackup(
  app: FastifyInstance,
  { authenticator, backup }: { authenticator: Authenticator; backup: Backup },
): { method: string; path: string }[] {
  app.get("/backup", async (request, reply) => {
    const caller = await authenticator.authenticate(request.headers.authorization);
    const verdict = authorize(caller, PERMISSION, RESOURCE);
    if (verdict === "hidden") throw new Fault("not_found", "there is nothing at this path");
    if (verdict === "denied")
      throw new Fault("permission_denied", `the key lacks the permission ${PERMISSION}`, { permission: PERMISSION });
    const path = join(backup.folder, `backup-${Buffer.from(backup.random(8)).toString("hex")}.partial`);
    try {
      await backup.copy(path);
      const { size } = await stat(path);
      const file = createReadStream(path);
      file.once("close", () => void rm(path, { force: true }));
      return await reply.header("content-length", size).type("application/vnd.sqlite3").send(file);
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  });
  return [{ method: "GET", path: "/backup" }];
}
