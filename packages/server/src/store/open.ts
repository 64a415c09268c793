/**
 * Opens the store: a SQLite file in a worker thread, or a PostgreSQL database, behind the one `Store`. Hot verbs go through the
 * batcher, cold ones run as transactions of their own.
 */
import { dirname } from "node:path";
import { Fault } from "@millrace/contract";
import type { Clock } from "../clock.ts";
import { openPostgres } from "../db/postgres.ts";
import { openDatabases } from "./another-database.ts";
import { createBatcher, type LaneShape } from "./batcher.ts";
import { DEFAULT_DATABASE } from "./database-numbers.ts";
import type { Engine } from "./engine.ts";
import { createEngine } from "./engine.ts";
import { createDiskGuard, type ProbeFreeSpace, probeFolder } from "./free-space.ts";
import { migrate } from "./migrate.ts";
import { plainReason } from "./plain-reason.ts";
import { randomOf } from "./random.ts";
import { claimResult, sendResult, storedSend } from "./rows.ts";
import { statements } from "./statements.ts";
import type { OpenStore, Store } from "./store.ts";
import type { Fence } from "./types.ts";
import { openWorkerEngine } from "./worker-engine.ts";

export type { OpenStore } from "./store.ts";

export interface StoreOptions {
  /** A file for SQLite, or `postgres://…`. */
  url: string;
  clock: Clock;
  /** Further PostgreSQL databases for queues, by name: `postgres://…` each. */
  databases?: Readonly<Record<string, string>>;
  /** Makes receipts repeatable in tests; else they are drawn at random. */
  seed?: number;
  /** Tests that do not test durability: commits don't wait for the disk. */
  relaxedSync?: boolean;
  /** Tests only: the instant of PostgreSQL's next transaction, instead of the database's own time. */
  instant?: () => number;
  /** PostgreSQL connections in all, 3 or more: one listens, the others serve hot and cold transactions. */
  poolSize?: number | undefined;
  /** Tests only: the most pages of a SQLite file, as if its disk held no more. */
  maxPages?: number;
  /** Where the free space of a SQLite file's disk is read. */
  freeSpace?: ProbeFreeSpace;
  /** The most that may wait to be stored. */
  pendingBytes?: number;
  pendingRows?: number;
}

const SQLITE_LANES: LaneShape[] = [{ kinds: ["settle", "claim", "send", "other"], width: 1, rows: 2000 }];

/**
 * Opens and migrates; rejects with a plain reason when the database can't be used. Of the further databases each may be away: what is
 * asked of it is refused until it is there.
 */
export async function openStore(options: StoreOptions): Promise<OpenStore> {
  const others = Object.entries(options.databases ?? {});
  if (/^postgres(ql)?:/.test(options.url)) {
    const home = connectPostgres(options);
    try {
      await home.migrate().catch((error: unknown) => {
        throw plainReason(error);
      });
      const beside = others.map(([name, url]) => ({ name, ...connectPostgres({ ...options, url }) }));
      return await openDatabases(home.store, beside);
    } catch (error) {
      await home.store.close();
      throw error;
    }
  }
  if (others.length > 0) throw new Error("databases: further databases need PostgreSQL as the default one.");
  return openSqliteStore(options);
}

async function openSqliteStore(options: StoreOptions): Promise<OpenStore> {
  const { clock, url } = options;
  const path = url.replace(/^(sqlite|file):(\/\/)?/, "");
  const worker = { path, relaxedSync: options.relaxedSync ?? false, seed: options.seed ?? null, maxPages: options.maxPages ?? null };
  const engine = await openWorkerEngine(worker, clock);
  const guard = createDiskGuard(options.freeSpace ?? probeFolder(dirname(path)), () => performance.now());
  await guard.look();
  return storeOver(engine, SQLITE_LANES, options, guard);
}

/** Claims have transactions of their own: they hold heads, and must not wait for the locks that settles and sends take first. */
const POSTGRES_LANES: LaneShape[] = [
  { kinds: ["settle", "send"], width: 2, rows: 500, leastShare: 64 },
  { kinds: ["claim"], width: 2, rows: 1000 },
];

/** A store on a database that need not be there yet: nothing may be asked of it before `migrate` has answered. */
function connectPostgres(options: StoreOptions): { store: OpenStore; migrate: () => Promise<void> } {
  const { clock, instant } = options;
  const poolSize = options.poolSize ?? 10;
  // More than its lanes are wide the hot side never uses.
  const hotConnections = Math.min(4, Math.floor((poolSize - 1) / 2));
  const coldConnections = poolSize - 1 - hotConnections;
  const db = openPostgres({ url: options.url, statements, offset: () => clock.offset, instant, hotConnections, coldConnections });
  const store = storeOver(createEngine(db, randomOf(options.seed)), POSTGRES_LANES, options, null);
  return {
    store,
    async migrate() {
      await migrate(db);
    },
  };
}

/** SQLite and PostgreSQL say it so when a disk is full. */
const isFull = (error: unknown) => error instanceof Error && "code" in error && (error.code === "SQLITE_FULL" || error.code === "53100");

function storeOver(engine: Engine, lanes: LaneShape[], options: StoreOptions, guard: { full(): boolean } | null): OpenStore {
  const batcher = createBatcher({
    lanes,
    run: engine.hot,
    isFull,
    pendingBytes: options.pendingBytes,
    pendingRows: options.pendingRows,
  });
  const cold = async (verb: string, args: unknown[], key: Parameters<Store["once"]>[0], fence?: Fence) => {
    const sends = verb === "sendMessages";
    if (sends && guard?.full()) throw new Fault("backlog_full", "The disk is nearly full.");
    try {
      return await batcher.between(() => engine.cold({ verb, args, key, fence }));
    } catch (error) {
      if (!isFull(error)) throw error;
      throw sends
        ? new Fault("backlog_full", "The disk is full.")
        : new Fault("unavailable", "The disk is full.", { retryAfterSeconds: 5 });
    }
  };
  const store: OpenStore = {
    engine: engine.engine,
    get databases() {
      return [{ no: 0, name: DEFAULT_DATABASE, store, opened: true }];
    },
    async send(rows) {
      if (guard?.full()) return rows.map(() => ({ refused: "backlog_full" as const }));
      return (await batcher.send(rows.map(storedSend))).map(sendResult);
    },
    claim: async (ask) => claimResult(await batcher.claim(ask)),
    settle: (rows) => batcher.settle(rows),
    run: (async (verb: string, ...args: unknown[]) => (await cold(verb, args, null)).result) as Store["run"],
    fenced: (async (fence: Fence, verb: string, ...args: unknown[]) => (await cold(verb, args, null, fence)).result) as Store["fenced"],
    once: ((key: Parameters<Store["once"]>[0], verb: string, ...args: unknown[]) => cold(verb, args, key)) as Store["once"],
    onReady: engine.onReady,
    setSendShare: batcher.setSendShare,
    async backup(path) {
      if (engine.backup === undefined)
        throw new Fault("invalid_request", "The server runs on PostgreSQL: back that up with its own tools, such as pg_dump.");
      await engine.backup(path);
    },
    async close() {
      await batcher.idle();
      await engine.close();
    },
  };
  return store;
}
