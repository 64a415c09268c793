/**
 * Opens the databases beside the default one (A14). One that can't be reached keeps nobody from starting: it is opened when something is
 * asked of it and it answers, and until then, as whenever it is away, that is refused by its name. One that is not what its name means ends the start.
 */
import { Fault } from "@millrace/contract";
import { uuidv7 } from "uuidv7";
import { DEFAULT_DATABASE } from "./database-numbers.ts";
import { type Database, joinDatabases } from "./databases.ts";
import type { DatabaseInUse } from "./joined-database.ts";
import type { OpenStore } from "./store.ts";

/** A database that was named, and how it is brought to this version's schema. */
interface Named {
  name: string;
  store: OpenStore;
  migrate: () => Promise<void>;
}

const isAway = (error: unknown): boolean => error instanceof Fault && error.code === "unavailable";
const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A store that says of which database it speaks when that can't be reached. `open` is done before anything else, until it was done once. */
function guarded(
  name: string,
  { store, open }: { store: OpenStore; open: () => Promise<void> },
): { store: OpenStore; opened: () => boolean } {
  let opened = false;
  let opening: Promise<void> | undefined;
  const ready = async (): Promise<void> => {
    opening ??= open().finally(() => {
      opening = undefined;
    });
    await opening;
    opened = true;
  };
  const asked = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    try {
      if (!opened) await ready();
      return await work();
    } catch (error) {
      if (!isAway(error)) throw error;
      throw new Fault("unavailable", `The database ${name} can't be reached. Try again shortly.`, { retryAfterSeconds: 1 });
    }
  };
  return {
    opened: () => opened,
    store: {
      ...store,
      send: (rows) => asked(() => store.send(rows)),
      claim: (ask) => asked(() => store.claim(ask)),
      settle: (rows) => asked(() => store.settle(rows)),
      run: (verb, ...args) => asked(() => store.run(verb, ...args)),
      fenced: (fence, verb, ...args) => asked(() => store.fenced(fence, verb, ...args)),
      once: (key, verb, ...args) => asked(() => store.once(key, verb, ...args)),
    },
  };
}

/** Brings a database to the schema and makes sure that it is the one that its name means. */
async function join(home: OpenStore, { name, store, migrate }: Named): Promise<void> {
  await migrate();
  const { no, id, joined } = await home.run("enrolDatabase", name, uuidv7());
  await home.run("joinDatabase", no, await store.run("becomeDatabase", { no, name, id, joined }));
}

function missing({ name, queues, first }: DatabaseInUse): string {
  const these = `${first.join(", ")}${queues > first.length ? ", …" : ""}`;
  return `databases: ${name} is not configured, and ${queues === 1 ? "1 queue lives" : `${queues} queues live`} on it: ${these}. Name it again, or delete them first.`;
}

/** The store over the default database and the named ones; rejects with what keeps them from being used together. */
export async function openDatabases(home: OpenStore, others: readonly Named[]): Promise<OpenStore> {
  const closeOthers = () => Promise.all(others.map(({ store }) => store.close()));
  try {
    const itself = await home.run("itself");
    if (itself !== null)
      throw new Error(`The default database can't be one that queues were placed on: it is ${itself.name} of an installation.`);
    const [left] = await home.run(
      "databasesInUse",
      others.map(({ name }) => name),
    );
    if (left !== undefined) throw new Error(missing(left));
    const databases: Database[] = [];
    for (const other of others) {
      const { no } = await home.run("enrolDatabase", other.name, uuidv7());
      const { store, opened } = guarded(other.name, { store: other.store, open: () => join(home, other) });
      await store.run("now").catch((error: unknown) => {
        if (!isAway(error)) throw new Error(`databases.${other.name}: ${reason(error)}`);
      });
      databases.push({
        no,
        name: other.name,
        store,
        get opened() {
          return opened();
        },
      });
    }
    if (databases.length === 0) return home;
    return joinDatabases([{ no: 0, name: DEFAULT_DATABASE, store: home, opened: true }, ...databases.sort((a, b) => a.no - b.no)]);
  } catch (error) {
    await closeOthers();
    throw error;
  }
}
