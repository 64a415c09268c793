/**
 * Several databases as the one `Store` (A14): a queue's number says where it lives, and every verb goes there; what is not about one queue
 * goes to the default database, or where `routes.ts` says. The rooms that ask don't know on how many databases their queues are.
 */
import { Fault } from "@millrace/contract";
import { MISSED, type ReadyListener } from "../db/db.ts";
import { databaseOf } from "./database-numbers.ts";
import { type Call, queueOf, routes } from "./routes.ts";
import type { OpenStore, Store } from "./store.ts";
import type { IdempotencyKey } from "./types.ts";
import type { ColdVerbs } from "./verbs.ts";

/** One database of an installation; number 0 is the default one. */
export interface Database {
  readonly no: number;
  readonly name: string;
  readonly store: OpenStore;
  /** Whether it has answered since this process started: one that never did has nothing in force here. */
  readonly opened: boolean;
}

/** The databases of an installation as verbs are routed over them, ascending by number. */
export interface Databases {
  readonly home: Database;
  readonly all: readonly Database[];
  /** The one that a queue lives on; throws `unavailable` when it is not in this server's configuration, by its name if that is given. */
  of(queueNo: number, name?: string): Database;
  /** The one of a name; `undefined` when there is none. */
  named(name: string): Database | undefined;
}

type Verb = keyof ColdVerbs;

/** Databases for `routes`; the first one is the default one. */
function databasesOf(all: readonly [Database, ...Database[]]): Databases {
  const byNo = new Map(all.map((database) => [database.no, database]));
  return {
    home: all[0],
    all,
    of(queueNo, name) {
      const database = byNo.get(databaseOf(queueNo));
      if (database !== undefined) return database;
      const where = name === undefined ? "a database that" : `the database ${name}, which`;
      throw new Fault("unavailable", `The queue lives on ${where} is not in this server's configuration.`, { retryAfterSeconds: 5 });
    },
    named: (name) => all.find((database) => database.name === name),
  };
}

/** Runs `work` once for each database that rows are about; answers come in the order of the rows. */
async function spread<Row extends { queueNo: number }, Answer>(
  { of }: Databases,
  rows: Row[],
  work: (store: Store, rows: Row[]) => Promise<Answer[]>,
): Promise<Answer[]> {
  const parts = new Map<Database, number[]>();
  for (const [i, { queueNo }] of rows.entries()) {
    const database = of(queueNo);
    const part = parts.get(database);
    if (part === undefined) parts.set(database, [i]);
    else part.push(i);
  }
  const answers: Answer[] = [];
  await Promise.all(
    [...parts].map(async ([{ store }, places]) => {
      const some = await work(
        store,
        places.map((i) => rows[i] as Row),
      );
      for (const [at, i] of places.entries()) answers[i] = some[at] as Answer;
    }),
  );
  return answers;
}

type Hot = Pick<Store, "send" | "claim" | "settle">;

/** Where there is one database, nothing stands between it and the hot verbs. */
const hotOf = ({ store: { send, claim, settle } }: Database): Hot => ({ send, claim, settle });

const spreadHot = (databases: Databases): Hot => ({
  send: (rows) => spread(databases, rows, (store, some) => store.send(some)),
  claim: (ask) => databases.of(ask.queueNo).store.claim(ask),
  settle: (rows) => spread(databases, rows, (store, some) => store.settle(some)),
});

/** The one store over the databases of an installation, be it one: others may have been named on other nodes. Closing it closes them. */
export function joinDatabases(all: readonly [Database, ...Database[]]): OpenStore {
  const databases = databasesOf(all);
  const { home, of } = databases;
  const dispatch = async (verb: Verb, args: unknown[], call: Call): Promise<{ result: unknown; replayed: boolean }> => {
    const route = routes[verb] as
      | ((databases: Databases, call: Call, ...args: unknown[]) => Promise<{ result: unknown; replayed: boolean }>)
      | undefined;
    if (route !== undefined) return route(databases, call, ...args);
    const queueNo = (queueOf[verb] as ((...args: unknown[]) => number) | undefined)?.(...args);
    return call(queueNo === undefined ? home : of(queueNo), verb, args as never);
  };
  const run: Call = async ({ store }, verb, args) => ({ result: await store.run(verb, ...args), replayed: false });
  return {
    engine: home.store.engine,
    databases: all,
    ...(all.length === 1 ? hotOf(home) : spreadHot(databases)),
    run: (async (verb: Verb, ...args: unknown[]) => (await dispatch(verb, args, run)).result) as Store["run"],
    // Fences are of one database each: whoever has one asks that database.
    fenced: home.store.fenced,
    once: ((key: IdempotencyKey | null, verb: Verb, ...args: unknown[]) => {
      const call: Call = ({ store }, each, given) => store.once(key, each, ...given);
      return dispatch(verb, args, Object.assign(call, { key }));
    }) as Store["once"],
    onReady(listener) {
      // Numbers below zero are messages between the nodes of one database: whoever listens for them asks that database.
      const beside: ReadyListener = (queueNo, inMs) => (queueNo > 0 || queueNo === MISSED ? listener(queueNo, inMs) : undefined);
      const stops = all.map(({ no, store }) => store.onReady(no === 0 ? listener : beside));
      return () => {
        for (const stop of stops) stop();
      };
    },
    setSendShare(rows) {
      for (const { store } of all) store.setSendShare(rows);
    },
    backup: home.store.backup,
    async close() {
      await Promise.all(all.map(({ store }) => store.close()));
    },
  };
}
