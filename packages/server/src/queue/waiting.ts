/**
 * Receives that wait for a message (Q17): one line of waiters per queue, served first come first served, and woken by the store's
 * ready events and by the time the store says the next message is due. A waiting poll itself costs nothing: only the front of a line
 * asks, and a slow safety poll per line covers events that a lost connection swallowed. Who has gone is handed nothing.
 */
import type { Cancel, Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";

/** One receive that may wait. `leaseMs` `null` takes the queue's visibility timeout. */
export interface WaitingReceive {
  queueNo: number;
  batchSize: number;
  leaseMs: number | null;
  waitMs: number;
  /** Asked for only when the receive starts to wait. */
  gone: () => AbortSignal;
}

export interface Waiting {
  /** Claims now or as soon as something is ready; empty when the wait is over, the client has gone, or the queue, or everything. */
  receive(ask: WaitingReceive): Promise<ClaimedMessage[]>;
  /** Whether anybody waits at a queue. */
  waitsAt(queueNo: number): boolean;
  /** Ends the waits at a queue empty: it is gone. */
  end(queueNo: number): void;
  /** Ends all waits empty: the process is stopping. */
  close(): void;
}

/** The most claims one line has under way at once. */
const WIDEST = 64;
/** The least time between two looks that found nothing, when the store says "now" but had nothing to give. */
const BREATH_MS = 10;

interface Waiter {
  ask: WaitingReceive;
  claiming: boolean;
  ended: boolean;
  /** Ends the wait; a second call does nothing. */
  finish: (messages: ClaimedMessage[]) => void;
}

interface Line {
  waiters: Waiter[];
  running: boolean;
  /** An event came while claims were under way: look again. */
  again: boolean;
  timer: Cancel | undefined;
  timerAt: number;
}

/** Makes the lines of one store. `release` gives back what a waiter that has gone can no longer take; `safetyMs` is the slow poll. */
export function createWaiting(deps: {
  store: Store;
  clock: Clock;
  release: (queueNo: number, messages: ClaimedMessage[]) => void;
  safetyMs?: number;
}): Waiting {
  const { store, clock, release } = deps;
  const safetyMs = deps.safetyMs ?? (store.engine === "postgres" ? 5_000 : 20_000);
  const lines = new Map<number, Line>();
  /** First looks under way: what became ready meanwhile, in milliseconds from then, must not be missed by who then starts to wait. */
  const probes = new Map<number, { count: number; inMs: number }>();
  let closed = false;

  const claim = async (ask: WaitingReceive): Promise<{ messages: ClaimedMessage[]; nextInMs: number | null }> => {
    const { batches, nextInMs } = await store.claim({ queueNo: ask.queueNo, batchSize: ask.batchSize, batches: 1, leaseMs: ask.leaseMs });
    return { messages: batches[0] ?? [], nextInMs };
  };

  const wake = (queueNo: number, inMs: number): void => {
    const probe = probes.get(queueNo);
    if (probe !== undefined) probe.inMs = Math.min(probe.inMs, Math.max(inMs, 0));
    const line = lines.get(queueNo);
    if (line === undefined) return;
    const at = clock.now() + inMs;
    if (inMs <= 0) {
      if (line.running) line.again = true;
      else void serve(queueNo, line);
    } else if (line.timer === undefined || at < line.timerAt) {
      line.timer?.();
      line.timerAt = at;
      line.timer = clock.after(inMs, () => {
        line.timer = undefined;
        wake(queueNo, 0);
      });
    }
  };

  const drop = (queueNo: number, line: Line, waiter: Waiter): void => {
    const place = line.waiters.indexOf(waiter);
    if (place >= 0) line.waiters.splice(place, 1);
    if (line.waiters.length > 0 || lines.get(queueNo) !== line) return;
    line.timer?.();
    lines.delete(queueNo);
  };

  /** Claims for the front of the line, twice as wide each time everybody got something, until somebody gets nothing. */
  const serve = async (queueNo: number, line: Line): Promise<void> => {
    line.running = true;
    let width = 1;
    let nextInMs = safetyMs;
    while (line.waiters.length > 0 && !closed) {
      line.again = false;
      const front = line.waiters.slice(0, width);
      for (const waiter of front) waiter.claiming = true;
      const answers = await Promise.allSettled(front.map((waiter) => claim(waiter.ask)));
      let everybody = true;
      for (const [i, waiter] of front.entries()) {
        waiter.claiming = false;
        const answer = answers[i] as (typeof answers)[number];
        const messages = answer.status === "fulfilled" ? answer.value.messages : [];
        if (messages.length === 0) {
          everybody = false;
          // Overload and lost connections pass: the next look is a little later, and the waiter learns nothing of it.
          nextInMs = Math.min(nextInMs, answer.status === "fulfilled" ? (answer.value.nextInMs ?? safetyMs) : 1_000);
          if (waiter.ended) drop(queueNo, line, waiter);
        } else {
          drop(queueNo, line, waiter);
          if (waiter.ended) release(queueNo, messages);
          else waiter.finish(messages);
        }
      }
      if (!everybody && !line.again) break;
      width = everybody ? Math.min(width * 2, WIDEST) : 1;
    }
    line.running = false;
    if (line.waiters.length > 0 && !closed) wake(queueNo, Math.max(nextInMs, BREATH_MS));
  };

  const wait = (ask: WaitingReceive, lookInMs: number): Promise<ClaimedMessage[]> =>
    new Promise((resolve) => {
      const line = lines.get(ask.queueNo) ?? { waiters: [], running: false, again: false, timer: undefined, timerAt: 0 };
      lines.set(ask.queueNo, line);
      const gone = ask.gone();
      const waiter: Waiter = {
        ask,
        claiming: false,
        ended: false,
        finish(messages) {
          if (waiter.ended) return;
          waiter.ended = true;
          cancel();
          gone.removeEventListener("abort", leave);
          // What is being claimed right now is dealt with when the claim answers.
          if (!waiter.claiming) drop(ask.queueNo, line, waiter);
          resolve(messages);
        },
      };
      const leave = (): void => waiter.finish([]);
      const cancel = clock.after(ask.waitMs, leave);
      line.waiters.push(waiter);
      gone.addEventListener("abort", leave, { once: true });
      if (gone.aborted || closed) leave();
      else wake(ask.queueNo, lookInMs);
    });

  const stop = store.onReady(wake);
  const end = (queueNo: number): void => {
    for (const waiter of [...(lines.get(queueNo)?.waiters ?? [])]) waiter.finish([]);
  };

  return {
    async receive(ask) {
      if (ask.waitMs > 0 && lines.has(ask.queueNo)) return wait(ask, safetyMs);
      const probe = probes.get(ask.queueNo) ?? { count: 0, inMs: Number.POSITIVE_INFINITY };
      probes.set(ask.queueNo, probe);
      probe.count++;
      let first: Awaited<ReturnType<typeof claim>>;
      try {
        first = await claim(ask);
      } finally {
        if (--probe.count === 0) probes.delete(ask.queueNo);
      }
      if (first.messages.length > 0 || ask.waitMs <= 0) return first.messages;
      return wait(ask, Math.min(probe.inMs, Math.max(first.nextInMs ?? safetyMs, BREATH_MS)));
    },
    waitsAt: (queueNo) => lines.has(queueNo),
    end,
    close() {
      closed = true;
      stop();
      for (const queueNo of [...lines.keys()]) end(queueNo);
    },
  };
}
