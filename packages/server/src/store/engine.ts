/** The store's verbs over an open database, in this thread: hot batches and cold verbs, each one transaction. */
import type { Db, ReadyListener } from "../db/db.ts";
import { holdFences } from "./fence.ts";
import { type HotAnswer, type HotBatch, runHot } from "./hot.ts";
import { once } from "./once.ts";
import type { Fence, IdempotencyKey } from "./types.ts";
import { coldVerbs } from "./verbs.ts";

/** A cold verb to run, once per key if there is one. */
export interface ColdCall {
  verb: string;
  args: unknown[];
  key: IdempotencyKey | null;
  /** Refuses the call of a former owner with `StaleFence`. */
  fence?: Fence | undefined;
}
export interface ColdAnswer {
  result: unknown;
  replayed: boolean;
}

export interface Engine {
  readonly engine: "sqlite" | "postgres";
  hot(batch: HotBatch): Promise<HotAnswer>;
  cold(call: ColdCall): Promise<ColdAnswer>;
  onReady(listener: ReadyListener): () => void;
  /** Copies the database to a file while work goes on; only SQLite's can. */
  backup?(path: string): Promise<void>;
  close(): Promise<void>;
}

/** What must not wait behind callers that wait for each other: a node that can't say that it lives loses its work. */
const URGENT: readonly string[] = ["beat"];

type AnyVerb = (tx: unknown, ...args: unknown[]) => Promise<unknown>;

/** The engine of an open, migrated database. `random` answers numbers from 0 to 1. */
export function createEngine(db: Db, random: () => number): Engine {
  return {
    engine: db.engine,
    hot: (batch) =>
      db.transaction((tx) => runHot(tx, batch, random), {
        hot: true,
        relaxed: batch.settles.length === 0 && batch.sends.length === 0,
        numbers: batch.sends.reduce((sum, { groupKey }) => (groupKey === null ? sum + 1 : sum), 0),
      }),
    cold: ({ verb, args, key, fence }) =>
      db.transaction(
        async (tx) => {
          const run = (coldVerbs as Record<string, AnyVerb>)[verb];
          if (run === undefined) throw new Error(`There is no verb ${verb}.`);
          await holdFences(tx, [fence]);
          const effect = () => run(tx, ...args);
          return key === null ? { result: await effect(), replayed: false } : once(tx, key, effect);
        },
        { hot: URGENT.includes(verb) },
      ),
    onReady: db.onReady,
    close: db.close,
  };
}
