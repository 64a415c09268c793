/** The queue that benches of the store alone put into a database themselves. */
import { ezghDefaults } from "../../packages/server/src/queue/settings.ts";
import type { QueueSettings } from "../../packages/server/src/store/types.ts";

export const queueSettings: QueueSettings = { ...ezghDefaults, visibilityTimeoutMs: 30_000, maxAttempts: 5, deadLetter: "list" };

/** What puts that queue, of either type, into a fresh database: as number 1. */
export const seedSql = (type: "standard" | "fifo"): string => `INSERT INTO organization (no, id, name, created_at) VALUES (1, 'o', 'o', 0);
  INSERT INTO project (no, id, organization_no, name, created_at) VALUES (1, 'p', 1, 'p', 0);
  INSERT INTO queue (no, id, resource_name, project_no, environment, name, type, settings, source, created_at, updated_at)
    VALUES (1, 'q', 'q', 1, 'production', 'q', '${type}', '${JSON.stringify(queueSettings)}', 'api', 0, 0)`;
