/**
 * The dispatcher: decides which lane claims when. It knows no queues: lanes are registered by noun folders. One timer serves all
 * lanes; a lane that waits for nothing costs nothing. A lane never has more requests open than its source permits, claims what can
 * start at once and what its source lets it hold ready, and shares nothing with others but the bound on all open deliveries, beyond
 * which each lane has one.
 */
import { setMaxListeners } from "node:events";
import type { Cancel, Clock } from "../clock.ts";
import { createDue, type Entry } from "./due.ts";
import type { Lane, LaneSource } from "./lane.ts";

/** Open deliveries of all lanes beyond which a lane gets one at most. */
const MOST_OPEN = 4096;
/** Claims of a lane under way at once: while one is, the slots that become free need not wait for its answer. */
const MOST_CLAIMS = 2;
/** Claims of all lanes under way at once; others wait their turn, so that a start with many lanes doesn't flood the store. */
const MOST_CLAIMS_OF_ALL = 256;
/** Outcomes of a lane that wait for the store, per permitted request, beyond which it claims no more. */
const UNSETTLED_PER_SLOT = 4;
/** A lane that had work in the last `ACTIVE_MS` looks again after `SAFETY_MS`, should an event have been lost. */
const SAFETY_MS = 30_000;
const ACTIVE_MS = 300_000;
/** How long claimed work may stand ready before it is given back: its lease is running. */
export const AHEAD_MS = 500;
/** A busy lane claims once it wants this share of all it may have, so that claims are few and large. */
const LEAST_SHARE = 4;
/** The wait after a claim that failed, doubling. */
const BACKOFF_MS = { first: 100, most: 5_000 };

export interface Dispatcher {
  /** Registers a lane. It looks for work at once unless `idle`. */
  add<Work>(source: LaneSource<Work>, idle?: boolean): Lane;
  /** Wakes every lane, spread over `overMs`: after a loss of events. */
  wakeAll(overMs: number): void;
  /** No new claim or delivery (P25); open ones get `graceMs` to finish and settle, the rest is aborted and lapses. */
  stop(graceMs: number): Promise<void>;
  /** Resolves once nothing is under way: no delivery, no claim, no lane that is about to claim. For tests and the virtual clock. */
  rest(): Promise<void>;
  /** Deliveries under way and lanes that wait for an instant, for metrics and tests. */
  readonly open: number;
  readonly waiting: number;
}

/** A lane with its work's type forgotten: what the dispatcher keeps. */
interface Held extends Entry {
  inFlight: number;
  unsettled: number;
  /** Claims under way, and how many deliveries they asked for. */
  claiming: number;
  asked: number;
  /** Claimed work that stands ready, and until when the oldest of it may. */
  ready: number;
  readyUntil: number;
  /** The last claim was filled: there is more. */
  more: boolean;
  /** When there is something to claim. */
  dueAt: number;
  /** No claim before: the store failed, or answered nothing again and again. */
  notBefore: number;
  failures: number;
  empty: number;
  workedAt: number;
  closed: boolean;
  permit(inFlight: number): { start: number; inMs: number | null };
  ahead(): number;
  claim(n: number): Promise<void>;
  /** Starts what is ready and permitted, and gives back what may no longer stand ready. */
  pump(): void;
  settled: (() => void)[] | undefined;
}

/** `report` hears of what a source threw; it must not throw itself. */
export function createDispatcher({ clock, report }: { clock: Clock; report: (error: unknown, lane: string) => void }): Dispatcher {
  const due = createDue<Held>();
  const lanes = new Set<Held>();
  const dirty = new Set<Held>();
  const abort = new AbortController();
  setMaxListeners(0, abort.signal);
  const quiet = new Set<() => void>();
  let timer: { at: number; cancel: Cancel } | undefined;
  let flushing = false;
  let stopping = false;
  let open = 0;
  let claiming = 0;

  const arm = (): void => {
    const first = due.first();
    if (first === undefined || stopping || (timer !== undefined && timer.at <= first.at)) return;
    timer?.cancel();
    timer = { at: first.at, cancel: clock.after(first.at - clock.now(), ring) };
  };
  const ring = (): void => {
    timer = undefined;
    const now = clock.now();
    for (let held = due.first(); held !== undefined && held.at <= now; held = due.first()) {
      due.remove(held);
      mark(held);
    }
    arm();
  };
  /** Looks at the lane in the next turn of the loop, so that what ends together is claimed together. */
  const mark = (held: Held): void => {
    dirty.add(held);
    if (flushing) return;
    flushing = true;
    setImmediate(() => {
      flushing = false;
      for (const each of dirty) {
        // The rest is looked at, in order, as claims end.
        if (claiming >= MOST_CLAIMS_OF_ALL) break;
        dirty.delete(each);
        look(each);
      }
      arm();
      resting();
    });
  };
  /** When the lane is looked at again: at `at`, or before if work that stands ready must be given back by then. */
  const wait = (held: Held, at: number): void => {
    const next = held.ready > 0 ? Math.min(at, held.readyUntil) : at;
    if (next === Number.POSITIVE_INFINITY) due.remove(held);
    else due.put(held, next);
  };
  const look = (held: Held): void => {
    held.pump();
    if (stopping || held.closed || held.claiming >= MOST_CLAIMS) {
      wait(held, Number.POSITIVE_INFINITY);
      return;
    }
    const now = clock.now();
    const at = Math.max(held.more ? now : held.dueAt, held.notBefore);
    if (at > now) {
      wait(held, at);
      return;
    }
    const ahead = held.ahead();
    const has = held.ready + held.asked;
    const { start, inMs } = held.permit(held.inFlight + (ahead > 0 ? 0 : has));
    const room = open < MOST_OPEN ? MOST_OPEN - open : held.unsettled === 0 ? 1 : 0;
    const wanted = ahead > 0 ? start + ahead - has : start;
    const n = Math.min(wanted, room, UNSETTLED_PER_SLOT * (held.inFlight + has + wanted) - held.unsettled - has);
    // While work stands ready nothing waits for this claim: it is made when it is worth it, as more work is started.
    const small = ahead > 0 && has > 0 && n * LEAST_SHARE < held.inFlight + has + wanted;
    if (n > 0 && !small) {
      wait(held, Number.POSITIVE_INFINITY);
      void held.claim(n);
    } else if (start <= 0 && inMs !== null) wait(held, now + Math.max(inMs, 1));
    else wait(held, room <= 0 ? now + BACKOFF_MS.first : Number.POSITIVE_INFINITY);
  };
  const ended = (held: Held): void => {
    if (held.unsettled === 0 && held.claiming === 0 && held.settled !== undefined) for (const call of held.settled) call();
    resting();
  };
  const idle = (): boolean => open === 0 && claiming === 0 && (stopping || dirty.size === 0);
  const resting = (): void => {
    if (!idle()) return;
    for (const call of quiet) call();
    quiet.clear();
  };
  const rest = (): Promise<void> => (idle() ? Promise.resolve() : new Promise((resolve) => quiet.add(resolve)));

  function add<Work>(source: LaneSource<Work>, idle = false): Lane {
    const ready: { work: Work; until: number }[] = [];
    const guard = async (call: () => Promise<void>, quietly = false): Promise<boolean> => {
      try {
        await call();
        return true;
      } catch (error) {
        if (!quietly) report(error, source.key);
        return false;
      }
    };
    const start = async (work: Work): Promise<void> => {
      let over = false;
      const finish = (): void => {
        if (over) return;
        over = true;
        held.inFlight--;
        pump();
        mark(held);
      };
      held.inFlight++;
      held.unsettled++;
      open++;
      try {
        await source.deliver(work, { signal: abort.signal, over: finish });
      } catch (error) {
        report(error, source.key);
      }
      finish();
      held.unsettled--;
      open--;
      mark(held);
      ended(held);
    };
    const take = async (n: number): Promise<void> => {
      const { offset } = clock;
      const { work, nextInMs } = await source.claim(n).finally(() => {
        held.asked -= n;
      });
      const now = clock.now();
      // The virtual clock was moved meanwhile: what the store said of the time to wait is of no use.
      if (clock.offset !== offset) held.dueAt = now;
      held.failures = 0;
      held.empty = work.length === 0 && nextInMs !== null && nextInMs <= 0 ? held.empty + 1 : 0;
      // A store that answers nothing and "now" is not asked in a circle.
      held.notBefore = held.empty > 2 ? now + Math.min(2 ** held.empty, 1000) : 0;
      if (work.length > 0) held.workedAt = now;
      held.more = work.length >= n;
      if (!held.more) {
        if (nextInMs !== null) held.dueAt = Math.min(held.dueAt, now + nextInMs);
        if (now - held.workedAt < ACTIVE_MS) held.dueAt = Math.min(held.dueAt, now + SAFETY_MS);
      }
      if (work.length === 0) return;
      for (const each of work) ready.push({ work: each, until: now + AHEAD_MS });
      pump();
    };
    const pump = (): void => {
      if (ready.length > 0 && !stopping && !held.closed) {
        // What is over as soon as it starts has others started in its place: what is open says when it is enough.
        const most = held.inFlight + source.permit(held.inFlight).start;
        while (ready.length > 0 && held.inFlight < most) void start((ready.shift() as { work: Work }).work);
      }
      // The limit shrank, the endpoint became slow, or the lane was closed since the claim.
      const may = stopping || held.closed ? 0 : held.ahead();
      const now = clock.now();
      const back = ready.length > may ? ready.splice(may) : [];
      while (ready[0] !== undefined && ready[0].until <= now) back.push(ready.shift() as (typeof back)[number]);
      held.ready = ready.length;
      held.readyUntil = ready[0]?.until ?? Number.POSITIVE_INFINITY;
      if (back.length > 0) void giveBack(back.map(({ work }) => work));
    };
    const giveBack = async (work: Work[]): Promise<void> => {
      held.dueAt = Math.min(held.dueAt, clock.now());
      held.claiming++;
      claiming++;
      await guard(() => source.release(work));
      held.claiming--;
      claiming--;
      mark(held);
      ended(held);
    };
    const held: Held = {
      at: 0,
      slot: -1,
      inFlight: 0,
      unsettled: 0,
      claiming: 0,
      asked: 0,
      ready: 0,
      readyUntil: Number.POSITIVE_INFINITY,
      more: false,
      dueAt: idle ? Number.POSITIVE_INFINITY : clock.now(),
      notBefore: 0,
      failures: 0,
      empty: 0,
      workedAt: Number.NEGATIVE_INFINITY,
      closed: false,
      settled: undefined,
      permit: (inFlight) => source.permit(inFlight),
      ahead: () => source.ahead?.() ?? 0,
      pump,
      async claim(n) {
        held.claiming++;
        held.asked += n;
        claiming++;
        held.dueAt = Number.POSITIVE_INFINITY;
        // An outage is told once per lane, not at every try.
        if (!(await guard(() => take(n), held.failures > 0))) {
          const now = clock.now();
          held.dueAt = now;
          held.notBefore = now + Math.min(BACKOFF_MS.first * 2 ** held.failures++, BACKOFF_MS.most);
        }
        held.claiming--;
        claiming--;
        mark(held);
        ended(held);
      },
    };
    lanes.add(held);
    if (!idle) mark(held);
    return {
      wake(inMs = 0) {
        const now = clock.now();
        const at = now + inMs;
        // What made the store answer nothing, such as a row that somebody held, may be over: an event ends that wait, a failure's it doesn't.
        const resumed = held.failures === 0 && held.notBefore > now && inMs <= 0;
        // One that is due, but neither waits for an instant nor has a request open, was held back by its source: it asks again.
        if (at >= held.dueAt && held.slot >= 0 && !resumed) return;
        if (held.failures === 0) held.notBefore = 0;
        held.dueAt = Math.min(held.dueAt, at);
        mark(held);
      },
      get inFlight() {
        return held.inFlight;
      },
      async close() {
        held.closed = true;
        lanes.delete(held);
        pump();
        due.remove(held);
        if (held.unsettled === 0 && held.claiming === 0) return;
        held.settled ??= [];
        const { settled } = held;
        await new Promise<void>((resolve) => settled.push(resolve));
      },
    };
  }

  return {
    add,
    wakeAll(overMs) {
      let i = 0;
      for (const held of lanes) {
        held.dueAt = Math.min(held.dueAt, clock.now() + Math.floor((overMs * i++) / lanes.size));
        mark(held);
      }
    },
    async stop(graceMs) {
      stopping = true;
      timer?.cancel();
      for (const held of lanes) held.pump();
      if (graceMs > 0) {
        let cancel: Cancel = () => {};
        const grace = new Promise<void>((resolve) => {
          cancel = clock.after(graceMs, resolve);
        });
        await Promise.race([rest(), grace]);
        cancel();
      }
      abort.abort();
      await rest();
    },
    rest,
    get open() {
      return open;
    },
    get waiting() {
      return due.size;
    },
  };
}
