/**
 * Calls that many executions share: what waits while a call is under way travels in the next one. Invariant: one call at a time, an
 * execution's items in the order in which they came, and each execution at most once in a call, its items put together where they may be.
 */
import { ApiError } from "../errors.ts";

/** One thing that an execution has to say. */
export interface Entry<Item> {
  token: string;
  item: Item;
  /** What it counts against the call's bound of steps. */
  count: number;
  /** Whether it may be put together with others of its execution that may. */
  joins: boolean;
  signal: AbortSignal;
}

/** What a call carries of one execution: the JSON texts of its items. */
export interface Bundle {
  token: string;
  texts: string[];
}

interface Waiting<Item, Said> extends Entry<Item> {
  text: string;
  bytes: number;
  resolve(said: Said | undefined): void;
  reject(error: unknown): void;
}

const maxExecutions = 100;
const maxCount = 1000;
const utf8 = new TextEncoder();

/** How many bytes a text has at most: a UTF-16 unit takes three, and only long texts are worth counting. */
const bytesOf = (text: string): number => (text.length < 1024 ? text.length * 3 : utf8.encode(text).length);

/**
 * Makes a line. `send` carries bundles of at most 100 executions, 1,000 counts and `maxBytes` of JSON, and answers one thing for each, in order;
 * `isWanted` tells it whether anybody still waits. What a refusal of the whole call is about is found out by sending each execution alone.
 */
export function createLine<Item, Said>(
  maxBytes: number,
  send: (bundles: readonly Bundle[], isWanted: () => boolean) => Promise<readonly Said[]>,
): (entry: Entry<Item>) => Promise<Said | undefined> {
  type Batch = Map<string, Waiting<Item, Said>[]>;
  let waiting: Waiting<Item, Said>[] = [];
  let busy = false;

  const take = (): Batch => {
    const batch: Batch = new Map();
    const passedOver = new Set<string>();
    let bytes = 0;
    let count = 0;
    for (const [index, next] of waiting.entries()) {
      if (passedOver.has(next.token)) continue;
      const beside = batch.get(next.token);
      if (beside !== undefined && !(next.joins && beside[0]?.joins)) {
        passedOver.add(next.token);
        continue;
      }
      bytes += next.bytes;
      count += next.count;
      const full = bytes > maxBytes || count > maxCount || (beside === undefined && batch.size === maxExecutions);
      if (index > 0 && full) break;
      if (beside === undefined) batch.set(next.token, [next]);
      else beside.push(next);
    }
    const taken = new Set([...batch.values()].flat());
    waiting = waiting.filter((each) => !taken.has(each));
    return batch;
  };

  const carry = async (batch: Batch): Promise<void> => {
    const groups = [...batch];
    const bundles = groups.map(([token, entries]) => ({ token, texts: entries.map(({ text }) => text) }));
    const isWanted = () => groups.some(([, entries]) => entries.some(({ signal }) => !signal.aborted));
    try {
      const said = await send(bundles, isWanted);
      for (const [index, [, entries]] of groups.entries()) for (const each of entries) each.resolve(said[index]);
    } catch (error) {
      const isMistake = error instanceof ApiError && error.status >= 400 && error.status < 500 && !error.retryable;
      if (isMistake && groups.length > 1) for (const group of groups) await carry(new Map([group]));
      else for (const each of groups.flatMap(([, entries]) => entries)) each.reject(error);
    }
  };

  const run = async (): Promise<void> => {
    busy = true;
    // What is asked for in the same moment travels together.
    await Promise.resolve();
    while (waiting.length > 0) await carry(take());
    busy = false;
  };

  return (entry) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(entry.item);
      waiting.push({ ...entry, text, bytes: bytesOf(text), resolve, reject });
      if (!busy) void run();
    });
}
