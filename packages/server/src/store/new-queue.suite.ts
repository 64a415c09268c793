/** Queues to make in tests of the store, each under an id of its own. */
import { ezghDefaults } from "../queue/settings.ts";
import type { NewQueue } from "./queue.ts";
import type { QueueSettings } from "./types.ts";

let drawn = 0;

/** A standard queue of the project; on the default database unless one is named. */
export function newQueue(projectNo: number, name: string, database?: string, settings: Partial<QueueSettings> = {}): NewQueue {
  const no = String(++drawn).padStart(12, "0");
  return {
    id: `00000000-0000-4000-8000-${no}`,
    resourceName: `que_${no}`,
    projectNo,
    environment: "production",
    name,
    database,
    type: "standard",
    settings: { ...ezghDefaults, ...settings },
    source: "api",
  };
}
