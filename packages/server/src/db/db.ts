/**
 * The port to a database: what SQLite and PostgreSQL must both give, and all that the store may use. Engine differences end here.
 * SQL above this line is one text for both engines: text ids, millisecond bigints, bytes for bodies.
 */

export type Value = string | number | boolean | null | Uint8Array;
export type Row = Record<string, Value>;

/** One transaction. On SQLite its calls run in the worker thread and are synchronous underneath. */
export interface Tx {
  readonly engine: "sqlite" | "postgres";
  /** The transaction's one instant: milliseconds since 1970, the database's time on PostgreSQL, plus the clock's offset. */
  readonly now: number;
  /** Runs one statement; `:name` in the text is a parameter. For cold paths. Booleans are stored as 0 and 1. */
  query<T = Row>(sql: string, params?: Record<string, Value>): Promise<T[]>;
  /** Runs a prepared hot statement once per parameter row (see `store/statements.ts`), in one round trip. */
  each<T = Row>(statement: string, rows: readonly (readonly Value[])[]): Promise<T[]>;
  /** Draws `count` message numbers; answers them ascending. */
  sequence(count: number): Promise<number[]>;
  /** Tells the listeners, after the commit, that work of this queue is ready at `at` (milliseconds). */
  ready(queueNo: number, at: number): void;
}
