/** The internal queue of a topic subscription: where its deliveries wait as messages. No door ever shows it. */
import { ezghDefaults } from "../queue/settings.ts";
import type { QueueSettings } from "../store/types.ts";

/** No environment has this slug, so no name of a call leads here. */
export const INTERNAL_ENVIRONMENT = "~topics";

/** Its settings: nothing in it expires, runs out of attempts or is refused for its number; whoever takes from it decides all that. */
export const internalQueue: QueueSettings = { ...ezghDefaults, deadLetter: "drop", deduplicationWindowMs: 0, internal: true };
