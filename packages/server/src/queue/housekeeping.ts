/**
 * The work that nobody asks for: lapsed last attempts, retention, what is remembered of sends and requests, deletions, redrives.
 * One timer drives all of it by the injected clock; a chore that fails is logged and tried again, and stops no other. A chore says
 * when it wants to be called next, so that a backlog is worked off at once and an idle server does next to nothing.
 */
import type { Cancel, Clock } from "../clock.ts";
import { type Duties, isStale, type OwnVerbs } from "../cluster/duties.ts";

/**
 * One kind of work. `run` does a bounded part of it and answers in how many milliseconds more is due; `null`: not before `everyMs`. Where
 * several nodes share the store it is given the verbs that only this chore's owner may call.
 */
export interface Chore {
  name: string;
  /** The longest time between two runs, in milliseconds; also the pause after a failure, up to 5 s. */
  everyMs: number;
  run: (own?: OwnVerbs) => Promise<number | null>;
}

export interface Housekeeping {
  /** Runs a chore now, or once more after its present run: something made work for it. */
  nudge(name: string): void;
  /** Resolves once no chore is running and none is due at the clock's present time. */
  settled(): Promise<void>;
  /** Stops; resolves when what was running has ended. */
  close(): Promise<void>;
}

const RETRY_MS = 5_000;

interface Entry {
  chore: Chore;
  at: number;
  running: boolean;
  nudged: boolean;
}

/** Starts the chores. `failed` is told of every error. With `duties` a chore runs on the one node that owns it, and a nudge goes there. */
export function createHousekeeping(deps: {
  clock: Clock;
  chores: readonly Chore[];
  failed: (chore: string, error: unknown) => void;
  duties?: Duties;
}): Housekeeping {
  const { clock, failed, duties } = deps;
  const entries = deps.chores.map((chore): Entry => ({ chore, at: clock.now() + chore.everyMs, running: false, nudged: false }));
  let timer: Cancel | undefined;
  let closed = false;
  const idle: (() => void)[] = [];

  const isIdle = (): boolean => entries.every((entry) => !entry.running && (closed || entry.at > clock.now()));
  const tellIdle = (): void => {
    if (!isIdle()) return;
    for (const resolve of idle.splice(0)) resolve();
  };

  const run = async (entry: Entry): Promise<void> => {
    const { chore } = entry;
    const own = duties?.verbs(chore.name);
    entry.running = true;
    entry.nudged = false;
    let inMs = chore.everyMs;
    try {
      if (own !== null) inMs = Math.min(inMs, (await chore.run(own)) ?? inMs);
    } catch (error) {
      inMs = Math.min(inMs, RETRY_MS);
      if (!isStale(error)) failed(chore.name, error);
    }
    entry.running = false;
    entry.at = clock.now() + (entry.nudged ? 0 : Math.max(0, inMs));
    tick();
  };

  const tick = (): void => {
    timer?.();
    timer = undefined;
    if (!closed) {
      let next = Number.POSITIVE_INFINITY;
      for (const entry of entries) {
        if (entry.running) continue;
        if (entry.at <= clock.now()) void run(entry);
        else next = Math.min(next, entry.at);
      }
      if (next < Number.POSITIVE_INFINITY) timer = clock.after(next - clock.now(), tick);
    }
    tellIdle();
  };
  const nudge = (name: string): void => {
    const entry = entries.find(({ chore }) => chore.name === name);
    if (entry === undefined || closed) return;
    entry.nudged = true;
    entry.at = clock.now();
    if (!entry.running) tick();
  };
  const stopCalls = duties?.onCall(
    entries.map(({ chore }) => chore.name),
    nudge,
  );
  tick();

  return {
    nudge(name) {
      if (duties === undefined || duties.verbs(name) !== null) nudge(name);
      else duties.call(name);
    },
    settled: () =>
      new Promise((resolve) => {
        idle.push(resolve);
        tellIdle();
      }),
    async close() {
      closed = true;
      stopCalls?.();
      timer?.();
      if (!isIdle()) await new Promise<void>((resolve) => idle.push(resolve));
    },
  };
}
