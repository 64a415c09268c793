/**
 * A lane's place among several nodes: one of them at a time may deliver, and the next one counts what the one before may still have open
 * at the endpoint (P13). The engine knows no cluster: it asks, and passes the term on to what it claims.
 */

/**
 * A request that starts longer than this after its claim was asked for has so much less time: whatever delayed it, it is over once its
 * timeout and this have passed since. So the next owner of a lane knows how long to wait for it.
 */
export const START_MS = 5_000;

/** One node's turn with a lane, as the store checks it. The same object for as long as the turn lasts. */
export interface Term {
  readonly slot: number;
  readonly token: number;
}

export interface Tenure {
  /** This node's term; `null` while the lane is another node's. */
  readonly term: Term | null;
  /** Requests of the lane's former owner that may still be open, as far as is known. */
  readonly inherited: number;
  /** Begins a term: finds out what was left open, and whether the endpoint was failing. */
  begin(): Promise<{ failing: boolean }>;
}

/** Of a node that is alone: the lane is its own for good, and as its maker says. */
export const alone = (failing: boolean): Tenure => ({
  term: { slot: -1, token: 0 },
  inherited: 0,
  begin: async () => ({ failing }),
});
