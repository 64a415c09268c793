/** What a declared queue or schedule changes (C10). Pure: compares what is declared with what is there. */
import type { DeclaredQueue } from "@millrace/contract";
import { gigadriveChange, gigadriveDefaults } from "../queue/gigadrive-settings.ts";
import type { QueueRow, QueueSettings } from "../store/types.ts";

/** Attempts before a message goes to a dead-letter queue, where neither the file nor the queue says. */
const ATTEMPTS = 10;

/** A setting as the file names it. */
const names: Partial<Record<keyof QueueSettings, string>> = {
  consumerPath: "consumer",
  visibilityTimeoutMs: "visibilityTimeout",
  retentionMs: "retention",
  delayMs: "delay",
  deadLetterNo: "deadLetterQueue",
  retryBackoffMinMs: "retryBackoff.min",
  retryBackoffMaxMs: "retryBackoff.max",
  deduplicationWindowMs: "deduplicationWindow",
};

/**
 * The stored settings that a declaration changes. `present` is the queue, `null` when it is to be made: then all its settings come out.
 * `deadLetterNo` is the number of the dead-letter queue it names, `null` when that is still to be made.
 */
export function settingsChanged(declared: DeclaredQueue, present: QueueRow | null, deadLetterNo: number | null): Partial<QueueSettings> {
  const before = present?.settings ?? gigadriveDefaults;
  const change = gigadriveChange(declared.settings, before.deadLetter);
  if (typeof declared.deadLetterQueue === "string") {
    Object.assign(change, { deadLetter: "queue", deadLetterNo });
    if (declared.settings.maxAttempts === undefined && before.maxAttempts === null) change.maxAttempts = ATTEMPTS;
  } else if (declared.deadLetterQueue === null && before.deadLetter === "queue" && declared.settings.deadLetter !== false)
    Object.assign(change, { deadLetter: "list", deadLetterNo: null });
  if (present === null) return { ...gigadriveDefaults, ...change };
  const differs = ([name, value]: [string, unknown]): boolean =>
    JSON.stringify(value) !== JSON.stringify(before[name as keyof QueueSettings]) ||
    // A number that is not known yet is a change, whatever is there.
    (name === "deadLetterNo" && value === null && typeof declared.deadLetterQueue === "string");
  return Object.fromEntries(Object.entries(change).filter(differs));
}

/** Names of stored settings as the file has them. */
export function settingNames(change: Partial<QueueSettings>): string[] {
  return Object.keys(change).map((name) => names[name as keyof QueueSettings] ?? name);
}
