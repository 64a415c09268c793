/**
 * Keeps a dev server's queues as `millrace.yaml` declares them: at the start and whenever the file changes. Applying twice changes
 * nothing; a queue that is no longer declared is left alone. A file at fault is told of and changes nothing.
 */
import { unwatchFile, watchFile } from "node:fs";
import { type DeclaredQueue, readQueues } from "@millrace/server/config";
import { ApiError, type Client } from "../client.ts";

/** How often the file is looked at. */
const lookEveryMs = 500;

/** The names of the settings that are declared otherwise than they are. */
function differences(declared: DeclaredQueue["settings"], present: object, idOf: (queue: string) => string | undefined): string[] {
  return Object.entries(declared).flatMap(([name, wanted]) => {
    if (wanted === undefined) return [];
    const policy =
      name === "redrivePolicy" && wanted !== null ? (wanted as { deadLetterQueueId: string; maxReceiveCount: number }) : undefined;
    const meant =
      policy === undefined ? wanted : { ...policy, deadLetterQueueId: idOf(policy.deadLetterQueueId) ?? policy.deadLetterQueueId };
    return JSON.stringify(meant) === JSON.stringify((present as Record<string, unknown>)[name]) ? [] : [name];
  });
}

async function applyOne(client: Client, queue: DeclaredQueue, ids: Map<string, string>): Promise<string | undefined> {
  const { name, type, settings } = queue;
  let present: Awaited<ReturnType<typeof client.call<"GetQueue">>>;
  try {
    present = await client.call("GetQueue", { queueId: name });
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "queue_not_found") throw error;
    ids.set(name, (await client.call("CreateQueue", { body: { ...settings, name, type } })).id);
    return `${name} created`;
  }
  ids.set(name, present.id);
  if (type !== undefined && type !== present.type) throw new Error(`its type is ${present.type} and cannot become ${type}`);
  const changed = differences(settings, present, (reference) => ids.get(reference));
  if (changed.length === 0) return undefined;
  await client.call("UpdateQueue", { queueId: name, body: settings });
  return `${name} changed (${changed.join(", ")})`;
}

async function apply(client: Client, path: string, note: (text: string) => void): Promise<void> {
  const { queues, left, problems } = readQueues(path);
  if (problems.length > 0) {
    for (const problem of problems) note(`${path}: ${problem}`);
    return;
  }
  if (left.length > 0) note(`${path}: not applied by this version: ${left.join(", ")}`);
  const ids = new Map<string, string>();
  for (const queue of queues) {
    try {
      const done = await applyOne(client, queue, ids);
      if (done !== undefined) note(`${path}: ${done}`);
    } catch (error) {
      note(`${path}: ${queue.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

/** Applies the file if there is one, and again after every change; answers the function that ends it. */
export async function followQueueFile(client: Client, path: string, note: (text: string) => void): Promise<() => Promise<void>> {
  const applySafely = () =>
    apply(client, path, note).catch((error: unknown) => {
      if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) note(`${path}: ${String(error)}`);
    });
  await applySafely();
  let last: Promise<void> = Promise.resolve();
  watchFile(path, { interval: lookEveryMs, persistent: false }, (now, before) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) last = last.then(applySafely);
  });
  return async () => {
    unwatchFile(path);
    await last;
  };
}
