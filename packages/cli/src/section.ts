/** A file's section of queues on its way to the server, and what comes back: a plan in words, or faults with their place in the file. */
import type { Answer, Operations } from "@millrace/contract";
import type { QueueFile } from "@millrace/server/config";
import { ApiError, type Client } from "./client.ts";
import { CliError } from "./exit.ts";

export type Applied = Answer<Operations["ApplyConfig"]>;
export type Change = Applied["changes"][number];

/** Sends the section. A refusal that names a field becomes a `CliError` with the field's line and column. */
export async function applySection(
  client: Client,
  file: QueueFile,
  how: { check: boolean; prune: boolean; environment?: string | undefined },
): Promise<Applied> {
  try {
    return await client.call("ApplyConfig", { body: { queues: file.section, ...how } });
  } catch (error) {
    if (!(error instanceof ApiError) || error.field === undefined || !/^queues\b/.test(error.field.path)) throw error;
    throw new CliError(error.exitCode, file.at(error.field.path.split(".").slice(1), error.field.bound));
  }
}

const done = { create: "created", change: "changed", unchanged: "unchanged", remove: "removed" } as const;

/** What was done, as `emails changed (retention)` or `schedule emails/digest created`. */
export function changeText({ kind, queue, name, action, fields }: Change): string {
  const what = kind === "queue" ? name : `schedule ${queue}/${name}`;
  return `${what} ${done[action]}${fields.length === 0 ? "" : ` (${fields.join(", ")})`}`;
}
