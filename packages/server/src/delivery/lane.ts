/**
 * A lane: one endpoint's stream of deliveries, as the dispatcher sees it. A noun folder gives a `LaneSource`; the dispatcher asks it
 * how many more deliveries may start, claims that many and no more, and starts them. A lane holds counts and instants, nothing that
 * a crash could lose.
 */

/** What a claim brought: work to start at once, and when there is more. */
export interface Claimed<Work> {
  work: Work[];
  /** When fewer came than were asked for: milliseconds until there may be more, `null` when nothing is known to come. */
  nextInMs: number | null;
}

/** One delivery under way, as its source sees it. */
export interface Opened {
  /** Aborts at the end of the grace time: what is open is then dropped unsettled, and its lease lapses. */
  readonly signal: AbortSignal;
  /** To be called when the endpoint's request is over: from then on the next may start, even before the outcome is settled. */
  over(): void;
}

/** What a noun folder hands to the dispatcher. */
export interface LaneSource<Work> {
  readonly key: string;
  /** How many more deliveries may start beside `inFlight`, and when to ask again (`null`: once one is over, or the lane is woken). */
  permit(inFlight: number): { start: number; inMs: number | null };
  /**
   * How much work may be claimed beyond what can start at once, so that an endpoint that answers quickly never waits for the store.
   * What is not started within `AHEAD_MS` is given back; absent: none.
   */
  ahead?(): number;
  /** Takes up to `n` pieces of work. Rejects when the store can't answer: the lane then waits and tries again by itself. */
  claim(n: number): Promise<Claimed<Work>>;
  /** Makes the request and settles its outcome. */
  deliver(work: Work, opened: Opened): Promise<void>;
  /** Gives back work that can't be started after all. */
  release(work: Work[]): Promise<void>;
}

/** A lane in the dispatcher's hands. */
export interface Lane {
  /** Says that there is work now, or `inMs` milliseconds from now. */
  wake(inMs?: number): void;
  /** Requests open at the endpoint. */
  readonly inFlight: number;
  /** Starts nothing more; answers once everything that was open is settled. */
  close(): Promise<void>;
}
