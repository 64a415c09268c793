/** How topic subscriptions' deliveries go (P15), written to the store in batches: at once when it flips, else within a second. */
import type { Cancel, Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { AttemptError } from "./delivery-rules.ts";

const LAZY_MS = 1_000;
const MOST = 500;

export interface TopicHealth {
  /** Remembers how a delivery of the subscription numbered `no` ended: `failure` is `null` for a success. */
  note(no: number, failure: AttemptError | null, flipped: boolean): void;
  /** Writes what waits, as far as the store lets it, and keeps no timer. */
  close(): Promise<void>;
}

interface Note {
  no: number;
  failing: boolean;
  error: AttemptError | null;
  succeeded: boolean;
}

/** `report` hears of what could not be written: the next change writes it again. */
export function createTopicHealth(deps: { store: Store; clock: Clock; report: (error: unknown) => void }): TopicHealth {
  const { store, clock, report } = deps;
  const notes = new Map<number, Note>();
  let timer: Cancel | undefined;
  let writing: Promise<void> = Promise.resolve();

  const flush = (): Promise<void> => {
    timer?.();
    timer = undefined;
    const rows = [...notes.values()];
    notes.clear();
    writing = writing.then(async () => {
      for (let from = 0; from < rows.length; from += MOST) await store.run("saveTopicHealth", rows.slice(from, from + MOST)).catch(report);
    });
    return writing;
  };

  return {
    note(no, failure, flipped) {
      const before = notes.get(no);
      const succeeded = failure === null || before?.succeeded === true;
      notes.set(no, { no, failing: failure !== null, error: failure ?? before?.error ?? null, succeeded });
      if (flipped || notes.size >= MOST) void flush();
      else timer ??= clock.after(LAZY_MS, () => void flush());
    },
    close: flush,
  };
}
