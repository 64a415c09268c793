/**
 * What is known of past deliveries: health, last error, last success (P15) and the attempts that are kept. Written in batches: at once
 * when a subscription's health flips, else within a second. It is bounded, and losing it loses no message.
 */
import { withoutSecrets } from "@millrace/contract/wire";
import type { Cancel, Clock } from "../clock.ts";
import type { AttemptRow } from "../store/attempt.ts";
import type { Store } from "../store/store.ts";
import type { LastError, StatusRow } from "../store/subscription.ts";

/** How long a change may wait to be written, in milliseconds. */
const LAZY_MS = 1_000;
/** The wait after a write that failed. */
const RETRY_MS = 2_000;
/** Attempts that wait to be written; beyond it the oldest are dropped. */
const MOST_WAITING = 2_000;

/** How a delivery ended; instants by this process's clock. */
export interface Note {
  queueNo: number;
  failing: boolean;
  error?: LastError;
  successAt?: number;
}

export interface Records {
  /** Remembers how a delivery ended; `atOnce` when the health flipped. */
  note(subscriptionId: string, note: Note, atOnce: boolean): void;
  /** Keeps an attempt that began at `at`. */
  attempt(row: Omit<AttemptRow, "agoMs"> & { at: number }): void;
  /** Writes what is waiting; answers once it is stored, or could not be: a database that is away keeps nobody from reading what others have. */
  flush(): Promise<void>;
  /** Writes what is waiting, if the store lets it, and keeps no timer. */
  close(): Promise<void>;
}

/** `report` hears of writes that failed; they are tried again. */
export function createRecords({ store, clock, report }: { store: Store; clock: Clock; report: (error: unknown) => void }): Records {
  let notes = new Map<string, Note>();
  let attempts: (Omit<AttemptRow, "agoMs"> & { at: number })[] = [];
  let timer: { at: number; cancel: Cancel } | undefined;
  let writing: Promise<void> | undefined;
  let closed = false;

  const arm = (ms: number): void => {
    const at = clock.now() + ms;
    if (closed || (timer !== undefined && timer.at <= at)) return;
    timer?.cancel();
    const cancel = clock.after(ms, () => {
      timer = undefined;
      flush().catch(report);
    });
    timer = { at, cancel };
  };

  const write = async (): Promise<void> => {
    const [takenNotes, takenAttempts] = [notes, attempts];
    notes = new Map();
    attempts = [];
    const now = clock.now();
    try {
      if (takenNotes.size > 0) {
        const rows = [...takenNotes].map(([id, { queueNo, failing, error, successAt }]): StatusRow => {
          const { at, ...rest } = error ?? { at: now };
          return {
            id,
            queueNo,
            failing,
            error: error === undefined ? null : { agoMs: now - at, ...(rest as Omit<LastError, "at">) },
            successAgoMs: successAt === undefined ? null : now - successAt,
          };
        });
        await store.run("saveStatus", rows);
        takenNotes.clear();
      }
      const rows = takenAttempts.map(({ at, ...row }): AttemptRow => ({ ...row, agoMs: now - at }));
      if (rows.length > 0) await store.run("addAttempts", rows);
    } catch (error) {
      for (const [id, note] of takenNotes) notes.set(id, { ...note, ...notes.get(id) });
      attempts = [...takenAttempts, ...attempts].slice(-MOST_WAITING);
      arm(RETRY_MS);
      throw error;
    }
  };

  const flush = async (): Promise<void> => {
    // What is being written was taken before this call: what came since needs a write of its own.
    await writing?.catch(() => {});
    if (notes.size === 0 && attempts.length === 0) return;
    writing ??= write().finally(() => {
      writing = undefined;
    });
    await writing;
  };

  return {
    note(subscriptionId, note, atOnce) {
      const known = notes.get(subscriptionId);
      if (known === undefined) notes.set(subscriptionId, { ...note });
      else Object.assign(known, note);
      if (atOnce && !closed) flush().catch(report);
      else arm(LAZY_MS);
    },
    attempt(row) {
      attempts.push({ ...row, answer: row.answer === null ? null : withoutSecrets(row.answer) });
      if (attempts.length > MOST_WAITING) attempts.shift();
      arm(LAZY_MS);
    },
    flush: () => flush().catch(report),
    async close() {
      closed = true;
      timer?.cancel();
      await flush().catch(report);
    },
  };
}
