/**
 * Makes, finds and ends queues over two databases (A14): the default one, where names are, and the queue's own. Each step is a transaction
 * that can be repeated; what lies between them is settled by whoever comes next, as the queue's own database says.
 */
import { Fault } from "@millrace/contract";
import type { Database, Databases } from "./databases.ts";
import type { Reservation } from "./placed-queue.ts";
import { type MadeQueue, type NewQueue, nameTaken } from "./queue.ts";
import type { Call } from "./routes.ts";
import type { Store } from "./store.ts";
import type { IdempotencyKey, QueueRow } from "./types.ts";

/** A creation or a deletion that has been under way for so long is nobody's any more. */
export const ABANDONED_MS = 10_000;

/** Asks the queue's own database how a creation or a deletion ended, ends it if it did not, and tells the default one. */
export async function settlePlaced(at: Pick<Store, "run">, home: Pick<Store, "run">, no: number): Promise<MadeQueue | null> {
  const made = await at.run("forgoPlaced", no);
  await home.run("closePlaced", no, made);
  return made;
}

/** The same, over the databases themselves. */
async function settleAt({ home, of }: Databases, no: number): Promise<MadeQueue | null> {
  return settlePlaced(of(no).store, home.store, no);
}

/**
 * Frees a name that no queue has any more, whether somebody left it half done or the queue's database was restored from before it was made;
 * answers whether it may be free now.
 */
async function cleared(databases: Databases, { projectNo, environment, name }: NewQueue): Promise<boolean> {
  const standing = await databases.home.store.run("findPlaced", projectNo, environment, name);
  if (standing === null || (standing.openForMs ?? ABANDONED_MS) < ABANDONED_MS) return false;
  try {
    return (await settleAt(databases, standing.no)) === null;
  } catch (error) {
    // Where that can't be asked, the name is taken.
    if (error instanceof Fault && error.code === "unavailable") return false;
    throw error;
  }
}

/** Makes a queue on a database. Throws as the verb `createQueue` does, and `unavailable` when that database can't be reached. */
export async function createPlaced(
  databases: Databases,
  call: Call,
  at: Database,
  given: NewQueue,
): Promise<{ result: MadeQueue; replayed: boolean }> {
  const { home } = databases;
  const key = call.key ?? null;
  // A database that is away reserves no names.
  if (at !== home) await at.store.run("now");
  for (let again = true; ; again = false) {
    try {
      if (at === home) return await call(home, "createQueue", [{ ...given, database: undefined }]);
      const { result, replayed } = await call(home, "reserveQueue", [at.no, given, key]);
      return { result: result.made ?? (await makeReserved(databases, at, given, result)), replayed };
    } catch (error) {
      const taken = error instanceof Fault && error.code === "queue_exists";
      if (!again || !taken || !(await cleared(databases, given))) throw error;
    }
  }
}

async function makeReserved(databases: Databases, at: Database, given: NewQueue, reservation: Reservation): Promise<MadeQueue> {
  const { home } = databases;
  const { no, id, resourceName } = reservation;
  let made: MadeQueue | null;
  try {
    made = await at.store.run("makePlaced", no, { ...given, id, resourceName }, await home.store.run("ownersOf", given));
  } catch (error) {
    // Refused by its database: then there is none, and its name is free. If that can't be said now, it will be before long.
    if (error instanceof Fault && error.code !== "unavailable") await settleAt(databases, no).catch(() => {});
    throw error;
  }
  if (made === null) throw nameTaken(given.name);
  await home.store.run("closePlaced", no, made);
  return made;
}

/** The queue that was made under a key, on whatever database; `null` when none was. */
export async function madeUnder(databases: Databases, key: IdempotencyKey): Promise<MadeQueue | null> {
  const kept = (await databases.home.store.run("madeQueue", key)) as MadeQueue | Reservation | null;
  if (kept === null || !("made" in kept)) return kept;
  return kept.made ?? databases.of(kept.no).store.run("getQueue", kept.no);
}

/** A queue on another than the default database, by any of its references. */
export async function findPlaced(
  databases: Databases,
  projectNo: number,
  environment: string,
  reference: string,
): Promise<QueueRow | null> {
  const placed = await databases.home.store.run("findPlaced", projectNo, environment, reference);
  return placed === null ? null : databases.of(placed.no, placed.database).store.run("getQueue", placed.no);
}

/** Ends a queue on another than the default database. Throws as the verb `deleteQueue` does. */
export async function deletePlaced(databases: Databases, no: number): Promise<void> {
  const { home, of } = databases;
  const { store } = of(no);
  await store.run("now");
  await home.store.run("openPlaced", no);
  try {
    await store.run("deleteQueue", no);
  } finally {
    // Whether it was refused or done: its database knows. If it can't be asked now, it will be before long.
    await settleAt(databases, no).catch(() => {});
  }
}
