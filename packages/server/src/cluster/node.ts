/**
 * This process as a node of a cluster (A13): it beats once a second, owns the slots that the database says are its own, gives slots away
 * one at a time where others have too few, and leaves at its stop. What it owns it owns for `LEASE_MS` from its last beat, by a clock that
 * nothing can set: a node that was stopped or cut off knows that its time is up before it does anything else.
 */
import type { Cancel, Clock } from "../clock.ts";
import { CLUSTER_NO } from "../store/cluster.ts";
import type { Store } from "../store/store.ts";
import type { Fence } from "../store/types.ts";
import type { Ownership } from "./ownership.ts";
import { slotOf } from "./slots.ts";

const BEAT_MS = 1_000;
/** Others take a node's slots once it has been silent for this long. */
export const LEASE_MS = 10_000;
/** The node itself stops so much earlier: clocks run at slightly different speeds. */
const MARGIN_MS = 500;

export interface NodeDeps {
  store: Store;
  /** Real time, never a virtual clock. */
  clock: Clock;
  /** Milliseconds that nobody can set, running on while the process is stopped. */
  monotonic: () => number;
  /** Unique for every start. */
  id: string;
  /** The same for every start at one place: a start with this name takes over from the one before at once. */
  name: string;
  version: string;
  log: { warn(fields: object, text: string): void };
}

export interface Node extends Ownership {
  /** Beats for the first time and takes its share. Never rejects: it goes on trying. */
  start(): Promise<void>;
  /** Owns nothing any more and tells the others, who take over at once. Never rejects. */
  leave(): Promise<void>;
  /** How many slots this node owns now. */
  readonly slots: number;
}

/** Makes a node; nothing happens before its start. */
export function createNode({ store, clock, monotonic, id, name, version, log }: NodeDeps): Node {
  const listeners = new Set<(slots: ReadonlySet<number>) => void>();
  let terms = new Map<number, Fence>();
  let leaving: number | null = null;
  let ownedUntil = Number.NEGATIVE_INFINITY;
  let beatenAt: number | undefined;
  /** After a silence of its own a node waits for the others as long as for itself: the database may have been away for all of them. */
  let silence: { since: number; forgivenUntil: number } | undefined;
  let beating: Promise<void> | undefined;
  let failing = false;
  let stopped = false;
  let timer: Cancel = () => {};
  let stopListening: () => void = () => {};

  const owns = (): boolean => monotonic() < ownedUntil;
  const tell = (slots: ReadonlySet<number>): void => {
    if (slots.size > 0) for (const listener of listeners) listener(slots);
  };
  const patience = (at: number): number => {
    if (beatenAt !== undefined && at - beatenAt > LEASE_MS) silence = { since: beatenAt, forgivenUntil: at + LEASE_MS };
    if (silence !== undefined && at >= silence.forgivenUntil) silence = undefined;
    return LEASE_MS + (silence === undefined ? 0 : Math.ceil(at - silence.since));
  };

  const beatOnce = async (): Promise<void> => {
    const at = monotonic();
    const lapsed = !owns();
    const { slots, give } = await store.run("beat", {
      id,
      name,
      version,
      wallMs: clock.wall(),
      patienceMs: patience(at),
      first: beatenAt === undefined,
    });
    if (stopped) return;
    beatenAt = at;
    ownedUntil = at + LEASE_MS - MARGIN_MS;
    const before = terms;
    terms = new Map(slots.map(({ no, token }) => [no, before.get(no)?.token === token ? (before.get(no) as Fence) : { slot: no, token }]));
    const changed = new Set([...before.keys(), ...terms.keys()].filter((no) => lapsed || before.get(no) !== terms.get(no)));
    tell(changed);
    if (give !== null && leaving === null) void handOver(give.no, give.to);
  };
  const beat = (): Promise<void> => {
    beating ??= beatOnce()
      .then(() => {
        failing = false;
      })
      .catch((err: unknown) => {
        if (!failing && !stopped) log.warn({ err }, "this node could not say that it lives; it will try again");
        failing = true;
        throw err;
      })
      .finally(() => {
        beating = undefined;
        timer();
        if (!stopped) timer = clock.after(BEAT_MS, () => void beat().catch(() => {}));
      });
    return beating;
  };
  const handOver = async (no: number, to: string): Promise<void> => {
    const term = terms.get(no);
    if (term === undefined) return;
    leaving = no;
    // The lanes start nothing more; what they have open the next owner counts.
    tell(new Set([no]));
    // What fails here is still this node's, and is given away after another beat.
    const given = stopped || (await store.run("giveSlot", id, no, term.token, to).catch(() => false));
    if (given) terms.delete(no);
    leaving = null;
    if (given && !stopped) await beat().catch(() => {});
    else tell(new Set([no]));
  };

  return {
    fence(key) {
      const slot = slotOf(key);
      const term = terms.get(slot);
      return term === undefined || slot === leaving || !owns() ? null : term;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async start() {
      await beat().catch(() => {});
      stopListening = store.onReady((no) => {
        if (no === CLUSTER_NO && !stopped) void beat().catch(() => {});
      });
    },
    async leave() {
      if (stopped) return;
      stopped = true;
      timer();
      stopListening();
      const all = new Set(terms.keys());
      terms.clear();
      // The lanes give back what they hold ready while the slots pass on: the next owner counts what is left.
      tell(all);
      await beating?.catch(() => {});
      await store
        .run("leaveCluster", id)
        .catch((err) => log.warn({ err }, "this node could not say that it leaves; others take over in a while"));
    },
    get slots() {
      return owns() ? terms.size : 0;
    },
  };
}
