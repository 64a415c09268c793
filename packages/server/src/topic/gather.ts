/**
 * Gathers what many callers want done into few calls: while calls are under way the next rows wait, and then go together. Each caller gets
 * the result of its own row. What waits is bounded; beyond the bound a row is refused with `overloaded` (A4).
 */
import { Fault } from "@millrace/contract";

/** Does one row, together with those of others. */
export type Gather<Row, Result> = (row: Row) => Promise<Result>;

export interface GatherOptions<Row, Result> {
  /** Answers one result per row, in order; it does all of them or, when it rejects, none. */
  run(rows: Row[]): Promise<Result[]>;
  /** The most rows and bytes of one call, and how many calls may be under way. */
  rows: number;
  bytes: number;
  width: number;
  sizeOf(row: Row): number;
  /** Bytes that may wait. */
  waitingBytes: number;
}

interface Waiting<Row, Result> {
  row: Row;
  size: number;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/** Makes the one function through which all rows of a kind go. */
export function createGather<Row, Result>(options: GatherOptions<Row, Result>): Gather<Row, Result> {
  const { run, sizeOf } = options;
  const waiting: Waiting<Row, Result>[] = [];
  let bytes = 0;
  let running = 0;

  const take = (): Waiting<Row, Result>[] => {
    let size = 0;
    let count = 0;
    for (const next of waiting) {
      size += next.size;
      if (count > 0 && (count >= options.rows || size > options.bytes)) break;
      count++;
    }
    return waiting.splice(0, count);
  };
  const call = async (batch: Waiting<Row, Result>[]): Promise<void> => {
    try {
      const results = await run(batch.map(({ row }) => row));
      batch.forEach(({ resolve }, i) => {
        resolve(results[i] as Result);
      });
    } catch (error) {
      // What one row brought about must not fail the others; what the store says of itself is true for all.
      if (batch.length === 1 || error instanceof Fault) for (const { reject } of batch) reject(error);
      else for (const each of batch) await call([each]);
    }
  };
  const pump = async (): Promise<void> => {
    running++;
    while (waiting.length > 0) {
      const batch = take();
      for (const { size } of batch) bytes -= size;
      await call(batch);
    }
    running--;
  };

  return (row) =>
    new Promise((resolve, reject) => {
      const size = sizeOf(row);
      if (bytes > 0 && bytes + size > options.waitingBytes) {
        reject(new Fault("overloaded", "Too much is waiting to be stored already.", { retryAfterSeconds: 1 }));
        return;
      }
      bytes += size;
      waiting.push({ row, size, resolve, reject });
      // In the next turn of the loop, so that what comes together goes together.
      if (running < options.width) {
        if (waiting.length === 1) setImmediate(() => running < options.width && waiting.length > 0 && void pump());
      }
    });
}
