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
  /** Names one of several counter rows that only add up together, so that writers at the same time don't wait for each other. */
  readonly slot: number;
  /** Much of what was deleted from the message table lies in its indexes still, before what is there: a scan from an index's front is dear. */
  readonly littered: boolean;
  /** Runs one statement; `:name` in the text is a parameter. For cold paths. Booleans are stored as 0 and 1. */
  query<T = Row>(sql: string, params?: Record<string, Value>): Promise<T[]>;
  /** Runs a prepared hot statement once per parameter row (see `store/statements.ts`), in one round trip. */
  each<T = Row>(statement: string, rows: readonly (readonly Value[])[]): Promise<T[]>;
  /** As `each` where no answer is needed: it travels with what comes after it, the commit at the latest, and a failure fails that. */
  post(statement: string, rows: readonly (readonly Value[])[]): void;
  /** Draws `count` message numbers; answers them ascending. `early` ones may have been drawn before any lock was taken. */
  sequence(count: number, early?: boolean): Promise<number[]>;
  /** Tells the listeners, after the commit, that work of this queue is ready at `at` (milliseconds). */
  ready(queueNo: number, at: number): void;
  /** What an earlier transaction of this process remembered under a number, unless a commit anywhere has made it forget. */
  recall<T>(no: number): T | undefined;
  /** Remembers something read in this transaction for later ones; ignored once this transaction has called `forget`. */
  remember(no: number, value: unknown): void;
  /** Says that what is remembered is about to change: with this commit every process forgets all of it. */
  forget(): Promise<void>;
}

/** `relaxed` commits survive the process but perhaps not a power cut: enough for a claim, whose loss is only a redelivery. */
export interface TransactionOptions {
  relaxed?: boolean;
  /** So many message numbers may be drawn with the begin, for `sequence` to hand out as `early` ones. */
  numbers?: number;
  /** A batch of the hot verbs, or as urgent: on PostgreSQL these have connections of their own. */
  hot?: boolean;
  /** May take as long as it takes: a change of the schema. Else a statement that gets no answer counts as a lost database. */
  patient?: boolean;
}

/** What listeners hear in place of a queue's number when wake-ups by other processes may have been lost: no queue has it. */
export const MISSED = 0;

export type ReadyListener = (queueNo: number, inMs: number) => void;

/** An open database. `transaction` rolls back on every error and throws it; a lost database is the Fault `unavailable`. */
export interface Db {
  readonly engine: "sqlite" | "postgres";
  transaction<T>(run: (tx: Tx) => Promise<T>, options?: TransactionOptions): Promise<T>;
  onReady(listener: ReadyListener): () => void;
  /** A text with `{bigint}` and its like, in this engine's words. */
  render(schema: string): string;
  close(): Promise<void>;
}

/** Whether a transaction failed because a new row's key is taken. */
export const isTaken = (error: unknown): boolean =>
  error instanceof Error && "code" in error && ["23505", "SQLITE_CONSTRAINT_PRIMARYKEY"].includes(String(error.code));

/** The parameters of a statement's rows, in order; the types are what PostgreSQL needs to know of an array's elements. */
export type Params = Readonly<Record<string, "bigint" | "int" | "text" | "bytea">>;

/**
 * A hot statement, in a form that both engines run once per parameter row: `:name` is a column of the row, `$now` the transaction's
 * instant. `select` reads. `insert` stores a row and, with `answer`, says which rows took effect. `write` changes the row numbered
 * `:seq` (of another table: the row that `where` names) where `where` holds; `returning`, where anybody asks, must read the same before
 * and after, or with `after` is what the write left. `take` picks rows by `pick`, then sets them by `seq`, where `due.x` is a picked column or a parameter; `also` are columns
 * answered besides. `text` is PostgreSQL's alone (locks): `{rows}` stands for the parameter rows, SQLite answers nothing. `{greatest}` is
 * each engine's function of that meaning, `{lock}` keeps the rows read until the transaction ends.
 */
export type Statement = { params: Params } & (
  | { kind: "select"; select: string }
  | { kind: "insert"; into: string; values: string; conflict?: string; answer?: Readonly<Record<string, string>> }
  | {
      kind: "write";
      table?: "dedup" | "notification" | "delivery" | "run" | "quota";
      head: string;
      where: string;
      returning?: string;
      after?: true;
    }
  | { kind: "take"; pick: string; carry: readonly string[]; set: string; also?: string }
  | { kind: "text"; text: string }
);
export type Statements = Readonly<Record<string, Statement>>;
