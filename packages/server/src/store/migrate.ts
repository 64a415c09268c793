/**
 * Brings a database to this version's schema: forwards only, each step in a transaction of its own under one lock (A11). A schema
 * newer than this program is refused, untouched.
 */
import type { Db } from "../db/db.ts";
import { foundation } from "./migrations/001-foundation.ts";
import { deployments } from "./migrations/002-deployments.ts";
import { schedules } from "./migrations/003-schedules.ts";
import { topics } from "./migrations/004-topics.ts";
import { workflows } from "./migrations/005-workflows.ts";
import { cluster } from "./migrations/006-cluster.ts";
import { audit } from "./migrations/007-audit.ts";
import { quotas } from "./migrations/008-quotas.ts";
import { messageQueue } from "./migrations/009-message-queue.ts";
import { databases } from "./migrations/010-databases.ts";
import { roomyRuns } from "./migrations/011-roomy-runs.ts";
import { resultGroups } from "./migrations/012-result-groups.ts";

export interface Migration {
  version: number;
  name: string;
  sql: string;
}

/** Every step, ascending, without gaps. */
export const migrations: readonly Migration[] = [
  foundation,
  deployments,
  schedules,
  topics,
  workflows,
  cluster,
  audit,
  quotas,
  messageQueue,
  databases,
  roomyRuns,
  resultGroups,
];

/** One number that all nodes lock while they migrate. */
const LOCK = 7_402;

/** Runs the missing steps and answers the schema's version. Throws when the database is newer than `steps`. */
export async function migrate(db: Db, steps: readonly Migration[] = migrations): Promise<number> {
  const last = steps.at(-1)?.version ?? 0;
  for (;;) {
    const version = await db.transaction(
      async (tx) => {
        if (tx.engine === "postgres") await tx.query("SELECT pg_advisory_xact_lock(:lock)", { lock: LOCK });
        await tx.query(
          db.render("CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, name text NOT NULL, at {bigint} NOT NULL)"),
        );
        const [row] = await tx.query<{ version: number | null }>("SELECT max(version) AS version FROM schema_version");
        const at = row?.version ?? 0;
        if (at > last)
          throw new Error(`The database has schema ${at}, this program knows schemas up to ${last}. Run the newer version of Millrace.`);
        const step = steps.find((candidate) => candidate.version === at + 1);
        if (step === undefined) return at;
        for (const statement of db.render(step.sql).split(/;\s*\n|;\s+(?=INSERT|CREATE)|;\s*$/)) {
          if (statement.trim() !== "") await tx.query(statement);
        }
        await tx.query("INSERT INTO schema_version (version, name, at) VALUES (:version, :name, :at)", {
          version: step.version,
          name: step.name,
          at: tx.now,
        });
        return step.version;
      },
      { patient: true },
    );
    if (version === last) return version;
  }
}
