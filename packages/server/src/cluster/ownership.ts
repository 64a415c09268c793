/**
 * What rooms with work of their own ask: may this node do it now? Work is named by a key (`queue:12` for a lane, `duty:expired` for a
 * duty); a node that owns the key's slot gets a fence, and hands it to what it changes, so that a change by a former owner is refused.
 * A fence is good at the instant it was given: ask before every claim and every start, it costs nothing.
 */
import type { Fence } from "../store/types.ts";

export interface Ownership {
  /** The fence under which this node may work on `key` now; `null` while another node owns it, or nobody. */
  fence(key: string): Fence | null;
  /** Told of slots that were won or left; `fence` already answers so. A listener must not throw. Answers the unsubscribe function. */
  onChange(listener: (slots: ReadonlySet<number>) => void): () => void;
}

/** The fence of a node that shares its database with nobody: nothing checks it. */
const UNFENCED: Fence = { slot: -1, token: 0 };

/** A node that owns everything for good: SQLite, and tests of one node. */
export const ownsEverything: Ownership = { fence: () => UNFENCED, onChange: () => () => {} };
