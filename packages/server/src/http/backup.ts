/**
 * `GET /backup` (A12): the whole SQLite database as one file, copied while the server works. It holds what every project stored, so only a
 * key of the whole installation that may do `installation.backup` gets it. The copy lies in the data directory until it is sent.
 */
import { createReadStream } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@millrace/contract";
import type { FastifyInstance } from "fastify";
import type { Audit } from "../identity/audit.ts";
import type { Authenticator } from "../identity/authenticate.ts";
import type { Caller } from "../identity/caller.ts";
import { authorize } from "../identity/rules.ts";
import { type Audited, auditedAs } from "./audit.ts";

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
  { authenticator, backup, audit }: { authenticator: Authenticator; backup: Backup; audit?: Audit | undefined },
): { method: string; path: string }[] {
  const audited: Audited = audit === undefined ? (_, call) => call() : auditedAs(audit, "Backup", 200);
  const copied = async (caller: Caller): Promise<{ path: string; size: number }> => {
    const verdict = authorize(caller, PERMISSION, RESOURCE);
    if (verdict === "hidden") throw new Fault("not_found", "there is nothing at this path");
    if (verdict === "denied")
      throw new Fault("permission_denied", `the key lacks the permission ${PERMISSION}`, { permission: PERMISSION });
    const path = join(backup.folder, `backup-${Buffer.from(backup.random(8)).toString("hex")}.partial`);
    try {
      await backup.copy(path);
      return { path, size: (await stat(path)).size };
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  };
  app.get("/backup", async (request, reply) => {
    const caller = await authenticator.authenticate(request.headers.authorization);
    const { path, size } = await audited({ caller, requestId: request.id, params: {}, raw: request.raw }, () => copied(caller));
    const file = createReadStream(path);
    file.once("close", () => void rm(path, { force: true }));
    return reply.header("content-length", size).type("application/vnd.sqlite3").send(file);
  });
  return [{ method: "GET", path: "/backup" }];
}
