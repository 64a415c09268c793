/** The settings of a queue that benches of the store alone put into a database themselves. */
import { ezghDefaults } from "../../packages/server/src/queue/settings.ts";
import type { QueueSettings } from "../../packages/server/src/store/types.ts";

export const queueSettings: QueueSettings = { ...ezghDefaults, visibilityTimeoutMs: 30_000, maxAttempts: 5, deadLetter: "list" };
