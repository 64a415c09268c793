/** For tests: engines of this thread over fresh databases, whose instants the test sets. */
import { join } from "node:path";
import { postgres, scratch } from "@millrace/testkit";
import type { Db, Statements } from "../db/db.ts";
import { openPostgres } from "../db/postgres.ts";
import { openSqlite } from "../db/sqlite.ts";
import { ezghDefaults as defaults } from "../queue/settings.ts";
import { createEngine, type Engine } from "./engine.ts";
import { migrate } from "./migrate.ts";
import { forgetQueue } from "./queue-memory.ts";
import { randomOf } from "./random.ts";
import { statements as real } from "./statements.ts";
import type { QueueSettings } from "./types.ts";

/** A store without its batcher, at the instant `time.now`. `reopen` is a restart. */
export interface TestEngine {
  db: Db;
  engine: Engine;
  time: { now: number };
  /** Claims are told that the table is littered, as PostgreSQL's may be. */
  littered: boolean;
  reopen(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a fresh database of one kind. `statements` may hold planted faults; `littered` is PostgreSQL's alone. */
export async function testEngine(
  kind: "sqlite" | "postgres",
  { statements = real, littered = false }: { statements?: Statements; littered?: boolean } = {},
): Promise<TestEngine> {
  const time = { now: 1_000_000 };
  const folder = scratch("store");
  const path = join(folder.path, "store.db");
  const url = kind === "postgres" ? await (await postgres()).fresh() : "";
  const open = (): Db =>
    kind === "sqlite"
      ? openSqlite({ path, statements, now: () => time.now, relaxedSync: true })
      : openPostgres({ url, statements, offset: () => 0, instant: () => time.now, littered: () => littered });
  const test: TestEngine = {
    db: open(),
    engine: undefined as unknown as Engine,
    time,
    littered,
    async reopen() {
      await test.db.close();
      test.db = open();
      test.engine = createEngine(test.db, randomOf(time.now));
    },
    async close() {
      await test.db.close();
      folder.remove();
    },
  };
  await migrate(test.db);
  test.engine = createEngine(test.db, randomOf(1));
  return test;
}

export { defaults };

/** Puts a queue of number `no` there, or gives it other settings. */
export async function putQueue(
  db: Db,
  no: number,
  settings: Partial<QueueSettings>,
  type: "standard" | "fifo" = "standard",
): Promise<void> {
  await db.transaction(async (tx) => {
    const project = { at: tx.now };
    await tx.query("INSERT INTO organization (no, id, name, created_at) VALUES (1, 'o', 'o', :at) ON CONFLICT DO NOTHING", project);
    await tx.query(
      "INSERT INTO project (no, id, organization_no, name, created_at) VALUES (1, 'p', 1, 'p', :at) ON CONFLICT DO NOTHING",
      project,
    );
    const text = JSON.stringify({ ...defaults, ...settings });
    await tx.query(
      `INSERT INTO queue (no, id, resource_name, project_no, environment, name, type, settings, dead_letter_no, source, created_at, updated_at)
       VALUES (:no, :id, :id, 1, 'production', :id, :type, :text, NULL, 'api', :at, :at)
       ON CONFLICT (no) DO UPDATE SET settings = excluded.settings`,
      { no, id: `q${no}`, type, text, at: tx.now },
    );
    await forgetQueue(tx, no);
  });
}

/** Takes a queue away, its messages left as they are. */
export async function dropQueue(db: Db, no: number): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query("DELETE FROM queue WHERE no = :no", { no });
    await forgetQueue(tx, no);
  });
}
