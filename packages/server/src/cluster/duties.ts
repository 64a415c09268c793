/**
 * Duties (A13): work that one node at a time does for all, such as retention, lapsed leases, redrives and schedules. Each is owned by its
 * name, and done through verbs that carry the owner's fence. Something to do is told to whoever owns the duty.
 */
import { StaleFence } from "../store/fence.ts";
import type { Store } from "../store/store.ts";
import type { Ownership } from "./ownership.ts";
import { slotOf } from "./slots.ts";

/** The verbs of the store, refused once the duty is another node's. */
export type OwnVerbs = Pick<Store, "run">;

export interface Duties {
  /** What a duty is done with now; `null` while another node does it. */
  verbs(duty: string): OwnVerbs | null;
  /** Tells the duty's owner, on whichever node, that there is something to do. */
  call(duty: string): void;
  /** Hears of calls by any node, and of duties that have become this node's; only of those in `duties`. */
  onCall(duties: readonly string[], listener: (duty: string) => void): () => void;
}

/** Whether an error says that a duty, or other owned work, is another node's by now. */
export const isStale = (error: unknown): boolean => error instanceof StaleFence;

const keyOf = (duty: string): string => `duty:${duty}`;
/** Calls travel as wake-ups of queues do, under numbers that no queue has. Two duties with one number wake each other: no harm. */
const numberOf = (duty: string): number => {
  let hash = 0;
  for (let i = 0; i < duty.length; i++) hash = (Math.imul(hash, 31) + duty.charCodeAt(i)) >>> 0;
  return -2 - (hash % 1_000_000);
};

/** The duties of a node. */
export function createDuties({ store, ownership }: { store: Store; ownership: Ownership }): Duties {
  return {
    verbs(duty) {
      const fence = ownership.fence(keyOf(duty));
      return fence === null ? null : { run: (verb, ...args) => store.fenced(fence, verb, ...args) };
    },
    call(duty) {
      // Who owns it looks by itself before long, should this be lost.
      store.run("tell", numberOf(duty)).catch(() => {});
    },
    onCall(duties, listener) {
      const byNumber = new Map(duties.map((duty) => [numberOf(duty), duty]));
      const stops = [
        store.onReady((no) => {
          const duty = byNumber.get(no);
          if (duty !== undefined) listener(duty);
        }),
        ownership.onChange((slots) => {
          for (const duty of duties) if (slots.has(slotOf(keyOf(duty)))) listener(duty);
        }),
      ];
      return () => {
        for (const stop of stops) stop();
      };
    },
  };
}
