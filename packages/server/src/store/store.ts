/**
 * The store as its callers see it. Hot verbs take rows and are batched with everybody else's into one transaction; cold verbs run
 * one transaction each, with the idempotency key of the request stored in it. Every promise answers after the commit is durable.
 */
import type { Database } from "./databases.ts";
import type { Claim, ClaimAsk, Fence, IdempotencyKey, SendResult, SendRow, SettleResult, SettleRow } from "./types.ts";
import type { ColdVerbs } from "./verbs.ts";

export { MISSED } from "../db/db.ts";

type Verb = (tx: never, ...args: never[]) => Promise<unknown>;
type ArgsOf<V> = V extends (tx: never, ...args: infer A) => Promise<unknown> ? A : never;
type ResultOf<V> = V extends Verb ? Awaited<ReturnType<V>> : never;
/** What a cold verb takes besides its transaction, and what it answers. */
export type Args<Name extends keyof ColdVerbs> = ArgsOf<ColdVerbs[Name]>;
export type Result<Name extends keyof ColdVerbs> = ResultOf<ColdVerbs[Name]>;

export interface Store {
  readonly engine: "sqlite" | "postgres";
  /** Itself, or what it is put together from: the default database first. */
  readonly databases: readonly Database[];
  /** Stores messages; answered once they are durable. Rejects with `overloaded` when too much is waiting already (A4). */
  send(rows: SendRow[]): Promise<SendResult[]>;
  claim(ask: ClaimAsk): Promise<Claim>;
  settle(rows: SettleRow[]): Promise<SettleResult[]>;
  /** Runs a cold verb in a transaction of its own. A `Fault` thrown by the verb rolls it back and reaches the caller. */
  run<Name extends keyof ColdVerbs>(verb: Name, ...args: Args<Name>): Promise<Result<Name>>;
  /** As `run`, for work that a node owns: rejects with `StaleFence`, nothing done, once another node has become the owner. */
  fenced<Name extends keyof ColdVerbs>(fence: Fence, verb: Name, ...args: Args<Name>): Promise<Result<Name>>;
  /**
   * As `run`, once per key (Q12): the same key and hash answer the first result again (`replayed: true`), another hash is
   * `idempotency_conflict`. Results must be JSON; they must not hold secrets.
   */
  once<Name extends keyof ColdVerbs>(
    key: IdempotencyKey | null,
    verb: Name,
    ...args: Args<Name>
  ): Promise<{ result: Result<Name>; replayed: boolean }>;
  /**
   * Called after every commit that made work of a queue ready, now (`inMs` 0) or later. A duration, not an instant: the database's
   * clock and this process's may differ. A `queueNo` of `MISSED` says that such calls may have been lost: look for work. Answers the
   * unsubscribe function.
   */
  onReady(listener: (queueNo: number, inMs: number) => void): () => void;
  close(): Promise<void>;
}

/** The store with what its delivery engine may ask of it. */
export interface OpenStore extends Store {
  /** At most so many sent rows per transaction; `null` lifts the bound. Lowered while deliveries to healthy endpoints fall behind. */
  setSendShare(rows: number | null): void;
  /** Copies a SQLite database, as it is at the copy's end, to a new file; on PostgreSQL it rejects with `invalid_request`. */
  backup(path: string): Promise<void>;
}
