/**
 * Opens the databases beside the default one (A14). One that can't be reached keeps nobody from starting: it is opened when something is
 * asked of it and it answers, and until then, as whenever it is away, that is refused by its name. One that is not what its name means
 * ends the start.
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

/** Whether a database can't be reached, of which the fault tells the cause. One that answers that its disk is full, say, is there. */
const isAway = (error: unknown): boolean => error instanceof Fault && error.code === "unavailable" && error.cause !== undefined;
const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A database's store as the others see it. */
interface Guarded {
  store: OpenStore;
  /** Whether it was opened once. */
  opened(): boolean;
  /** Opens it, unless it is away. Rejects when it is not what its name means. */
  start(): Promise<void>;
}

/**
 * A store that never makes anybody wait for a database that is away: after a failure everything asked of it is refused by its name, until it
 * has answered a question of its own. `open` is done before anything else, until it was done once.
 */
function guarded(name: string, { store, open }: { store: OpenStore; open: () => Promise<void> }): Guarded {
  let opened = false;
  let lost: string | null = null;
  let looking = false;
  const failed = (error: unknown): void => {
    lost = isAway(error)
      ? reason(error).replace(/^The database /, `The database ${name} `)
      : `The database ${name} can't be used: ${reason(error)}`;
  };
  const look = async (): Promise<void> => {
    try {
      if (opened) await store.run("now");
      else await open();
      opened = true;
      lost = null;
    } catch (error) {
      failed(error);
    }
  };
  const refuse = (): Fault => {
    if (!looking) {
      looking = true;
      void look().finally(() => {
        looking = false;
      });
    }
    return new Fault("unavailable", lost ?? "", { retryAfterSeconds: 1 });
  };
  const asked = async <Answer>(work: () => Promise<Answer>): Promise<Answer> => {
    if (lost !== null) throw refuse();
    try {
      return await work();
    } catch (error) {
      if (!isAway(error)) throw error;
      failed(error);
      throw refuse();
    }
  };
  return {
    opened: () => opened,
    async start() {
      try {
        await open();
        opened = true;
      } catch (error) {
        if (!isAway(error)) throw error;
        failed(error);
      }
    },
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
      const { store, opened, start } = guarded(other.name, { store: other.store, open: () => join(home, other) });
      await start().catch((error: unknown) => {
        throw new Error(`databases.${other.name}: ${reason(error)}`);
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
    return joinDatabases([{ no: 0, name: DEFAULT_DATABASE, store: home, opened: true }, ...databases.sort((a, b) => a.no - b.no)]);
  } catch (error) {
    await closeOthers();
    throw error;
  }
}
