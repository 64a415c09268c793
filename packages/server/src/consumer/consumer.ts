/**
 * The push consumers of a server (C1, C6, C7): every queue with a `consumerPath` is a lane of the one dispatcher. A change is committed
 * first and then put in force here, before it is answered; other nodes hear of it within a second.
 */
import type { Cancel, Clock } from "../clock.ts";
import { type Ownership, ownsEverything } from "../cluster/ownership.ts";
import { slotOf } from "../cluster/slots.ts";
import { laneKey } from "../cluster/tenure.ts";
import type { Dispatcher } from "../delivery/dispatcher.ts";
import type { Lane } from "../delivery/lane.ts";
import type { Environments } from "../deployment/environment.ts";
import type { Vault } from "../identity/vault.ts";
import type { ConsumerRow } from "../store/consumer.ts";
import { databaseOf } from "../store/database-numbers.ts";
import type { Database } from "../store/databases.ts";
import { MISSED } from "../store/store.ts";
import { type ConsumerLane, createConsumerLane, type LaneDeps } from "./lane.ts";
import { createServing, type Serving } from "./serving.ts";

/** How many are read at once. */
const PAGE = 500;
/** How often a node looks whether another one has changed what is served, and how often it reads everything anew. */
const LOOK_MS = 500;
const NET_MS = 20_000;

export interface ConsumerDeps extends Omit<LaneDeps, "random" | "ownership"> {
  clock: Clock;
  vault: Vault;
  dispatcher: Dispatcher;
  /** Tells of changed and deleted queues: their lanes follow. */
  directory: { onChange(listener: (queueNo: number) => void): () => void };
  /** Knows the environments' secrets. */
  environments: Pick<Environments, "ensureSecret">;
  random?: () => number;
  /** Which lanes are this node's; a node alone needs none. */
  ownership?: Ownership;
}

export interface Consumers {
  /** Builds the lanes of all push consumers from the store. */
  start(): Promise<void>;
  /** P25, as for subscriptions. It stops the dispatcher, whoever else uses it. */
  stop(graceMs: number): Promise<void>;
  /** Puts what the store says of a queue's consumer in force. */
  refresh(queueNo: number): Promise<void>;
  /** Puts what the store says an environment serves in force. */
  served(environmentNo: number): Promise<void>;
  /** Resolves once nothing is under way. For tests and the virtual clock. */
  rest(): Promise<void>;
  /** Resolves once every look at the store that was due has been made. */
  looked(): Promise<void>;
  /** Lanes, for metrics and tests. */
  readonly lanes: number;
}

interface Running {
  environmentNo: number;
  source: ConsumerLane;
  lane: Lane;
}

/** Makes the lanes of one server. */
export function createConsumers(deps: ConsumerDeps): Consumers {
  const { store, clock, log, dispatcher, environments, ownership = ownsEverything } = deps;
  const laneDeps: LaneDeps = { ...deps, ownership, random: deps.random ?? Math.random };
  const running = new Map<number, Running>();
  const environment = new Map<number, Serving>();
  const stops: (() => void)[] = [];
  const timers = new Set<Cancel>();
  const looking = new Set<Promise<void>>();
  let stopped = false;
  /** What was read last, by database. */
  const versions = new Map<Database, number>();
  /** Queues that became ready while lanes were being built: looked at again afterwards. */
  const early = new Set<number>();
  let building = 0;
  let last: Promise<unknown> = Promise.resolve();

  /** One after the other, so that the last word is the store's. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    building++;
    const turn = last.then(work).finally(() => {
      building--;
      if (building > 0) return;
      for (const queueNo of early) running.get(queueNo)?.lane.wake();
      early.clear();
    });
    last = turn.catch(() => {});
    return turn;
  };

  const servingOf = async (row: ConsumerRow): Promise<Serving | null> => {
    const known = environment.get(row.environmentNo);
    if (known !== undefined) return known;
    await environments.ensureSecret({ no: row.environmentNo, id: row.environmentId });
    const served = await store.run("serving", row.environmentNo);
    if (served === null) return null;
    const made = createServing(deps, served);
    environment.set(row.environmentNo, made);
    return made;
  };
  const end = (queueNo: number): void => {
    const known = running.get(queueNo);
    if (known === undefined) return;
    running.delete(queueNo);
    known.source.set(null);
    // Open deliveries finish and settle by themselves.
    void known.lane.close();
  };
  const place = async (row: ConsumerRow): Promise<void> => {
    const known = running.get(row.queueNo);
    if (known !== undefined) known.source.set(row);
    else {
      const serving = await servingOf(row);
      if (serving === null || stopped) return;
      const source = createConsumerLane(laneDeps, row, serving);
      running.set(row.queueNo, { environmentNo: row.environmentNo, source, lane: dispatcher.add(source, true) });
    }
    if (row.nextInMs !== null) running.get(row.queueNo)?.lane.wake(row.nextInMs);
  };
  const readServed = async (environmentNo: number): Promise<void> => {
    const serving = environment.get(environmentNo);
    const served = serving === undefined ? null : await store.run("serving", environmentNo);
    if (serving === undefined || served === null) return;
    serving.set(served);
    for (const each of running.values()) if (each.environmentNo === environmentNo) each.lane.wake();
  };
  const read = async (database: Database): Promise<void> => {
    // Noted at the end: what changes meanwhile, or fails, is read again.
    const version = await database.store.run("servingVersion");
    const left = new Set([...running.keys()].filter((queueNo) => databaseOf(queueNo) === database.no));
    for (let after = 0; ; ) {
      const rows = await database.store.run("listConsumers", after, PAGE);
      for (const row of rows) {
        left.delete(row.queueNo);
        await place(row);
        after = row.queueNo;
      }
      if (rows.length < PAGE) break;
    }
    for (const queueNo of left) end(queueNo);
    versions.set(database, version);
  };
  /** One that can't be read keeps what is known of it, and keeps the others from nothing. */
  const readEach = async (databases: readonly Database[]): Promise<void> => {
    for (const environmentNo of environment.keys()) await readServed(environmentNo);
    for (const database of databases)
      await read(database).catch((err) => log.warn({ err, database: database.name }, "what is served could not be looked up"));
  };
  const readAll = (): Promise<void> => readEach(store.databases);
  const refresh = (queueNo: number): Promise<void> =>
    inTurn(async () => {
      const row = await store.run("loadConsumer", queueNo);
      if (row === null) return end(queueNo);
      await place(row);
      running.get(queueNo)?.lane.wake();
    });
  const every = (ms: number, work: () => Promise<void>): void => {
    const cancel = clock.after(ms, () => {
      timers.delete(cancel);
      const turn = work()
        .catch((err) => log.warn({ err }, "what is served could not be looked up"))
        .finally(() => {
          looking.delete(turn);
          every(ms, work);
        });
      looking.add(turn);
    });
    if (stopped) cancel();
    else timers.add(cancel);
  };
  /** Lanes of slots that were won or left: they look for work, or give back what they hold ready. */
  const moved = (slots: ReadonlySet<number>): void => {
    for (const [queueNo, { lane }] of running) if (slots.has(slotOf(laneKey(queueNo)))) lane.wake();
  };
  const look = async (): Promise<void> => {
    const changed: Database[] = [];
    await Promise.all(
      store.databases.map(async (database) => {
        // One that is away has changed nothing that could be read.
        const version = await database.store.run("servingVersion").catch(() => versions.get(database));
        if (version !== versions.get(database)) changed.push(database);
      }),
    );
    if (changed.length > 0) await inTurn(() => readEach(changed));
  };

  return {
    async start() {
      stops.push(
        store.onReady((queueNo, inMs) => {
          if (queueNo === MISSED) inTurn(readAll).catch((err) => log.warn({ err }, "what is served could not be looked up"));
          running.get(queueNo)?.lane.wake(inMs);
          if (building > 0) early.add(queueNo);
        }),
        deps.directory.onChange((queueNo) => {
          refresh(queueNo).catch((err) => log.warn({ err }, "a changed queue could not be read"));
        }),
        ownership.onChange(moved),
      );
      await inTurn(readAll);
      if (store.engine === "postgres") {
        every(LOOK_MS, look);
        every(NET_MS, () => inTurn(readAll));
      }
    },
    async stop(graceMs) {
      stopped = true;
      for (const stop of stops) stop();
      for (const cancel of timers) cancel();
      await dispatcher.stop(graceMs);
      await last;
    },
    refresh,
    served: (environmentNo) => inTurn(() => readServed(environmentNo)),
    rest: () => dispatcher.rest(),
    looked: async () => {
      await Promise.all(looking);
      await last;
    },
    get lanes() {
      return running.size;
    },
  };
}
