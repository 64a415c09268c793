/**
 * Calls that many executions share: what waits while a call is under way travels in the next one. Invariant: one call at a time, an
 * execution's items in the order in which they came, and each execution at most once in a call, its items put together where they may be.
 */
import { ApiError } from "../errors.ts";

/** Whether anybody still waits: an `AbortSignal`, or what says as much. */
export type Wanted = Pick<AbortSignal, "aborted">;

/** One thing that an execution has to say. */
export interface Entry<Item> {
  token: string;
  item: Item;
  /** What it counts against the call's bound of steps. */
  count: number;
  /** Whether it may be put together with others of its execution that may. */
  joins: boolean;
  signal: Wanted;
}

/** What a call carries of one execution: the JSON texts of its items. */
export interface Bundle {
  readonly token: string;
  readonly texts: readonly string[];
}

interface Waiting<Said> {
  token: string;
  text: string;
  count: number;
  joins: boolean;
  signal: Wanted;
  resolve(said: Said | undefined): void;
  reject(error: unknown): void;
}

/** The part of a call that is one execution's. */
interface Group<Said> extends Bundle {
  readonly texts: string[];
  readonly entries: Waiting<Said>[];
  /** Takes no more: what comes next of this execution has to travel alone. */
  closed: boolean;
}

const maxExecutions = 100;
const maxCount = 1000;
const utf8 = new TextEncoder();

/** How many bytes a text has at most: a UTF-16 unit takes three, and only long texts are worth counting. */
const bytesOf = (text: string): number => (text.length < 1024 ? text.length * 3 : utf8.encode(text).length);

/**
 * Makes a line. `send` carries bundles of at most 100 executions, 1,000 counts and `maxBytes` of JSON, and answers one thing for each, in order;
 * `isWanted` tells it whether anybody still waits. What a refusal of the whole call is about is found out by sending each execution alone;
 * entries reject with what `refusal` makes of the error.
 */
export function createLine<Item, Said>(
  maxBytes: number,
  send: (bundles: readonly Bundle[], isWanted: () => boolean) => Promise<readonly Said[]>,
  refusal: (error: unknown) => Error,
): (entry: Entry<Item>) => Promise<Said | undefined> {
  let waiting: Waiting<Said>[] = [];
  let busy = false;

  /** Takes what fits into a call from the front of the line. */
  const take = (): Group<Said>[] => {
    const groups = new Map<string, Group<Said>>();
    const left: Waiting<Said>[] = [];
    let bytes = 0;
    let count = 0;
    let at = 0;
    for (; at < waiting.length; at += 1) {
      const next = waiting[at] as Waiting<Said>;
      const { token, text } = next;
      const beside = groups.get(token);
      if (beside !== undefined && (beside.closed || !next.joins)) {
        beside.closed = true;
        left.push(next);
        continue;
      }
      bytes += bytesOf(text);
      count += next.count;
      const full = bytes > maxBytes || count > maxCount || (beside === undefined && groups.size === maxExecutions);
      if (at > 0 && full) break;
      if (beside === undefined) groups.set(token, { token, texts: [text], entries: [next], closed: !next.joins });
      else {
        beside.texts.push(text);
        beside.entries.push(next);
      }
    }
    for (; at < waiting.length; at += 1) left.push(waiting[at] as Waiting<Said>);
    waiting = left;
    return [...groups.values()];
  };

  const carry = async (groups: readonly Group<Said>[]): Promise<void> => {
    const isWanted = () => groups.some(({ entries }) => entries.some(({ signal }) => !signal.aborted));
    try {
      const said = await send(groups, isWanted);
      for (const [index, { entries }] of groups.entries()) for (const each of entries) each.resolve(said[index]);
    } catch (error) {
      const isMistake = error instanceof ApiError && error.status >= 400 && error.status < 500 && !error.retryable;
      if (isMistake && groups.length > 1) for (const group of groups) await carry([group]);
      else for (const { entries } of groups) for (const each of entries) each.reject(refusal(error));
    }
  };

  const run = async (): Promise<void> => {
    busy = true;
    // What is asked for in the same moment travels together.
    await Promise.resolve();
    while (waiting.length > 0) await carry(take());
    busy = false;
  };

  return ({ token, item, count, joins, signal }) =>
    new Promise((resolve, reject) => {
      waiting.push({ token, text: JSON.stringify(item), count, joins, signal, resolve, reject });
      if (!busy) void run();
    });
}
