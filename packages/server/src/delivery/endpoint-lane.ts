/**
 * The lane of one endpoint, whatever it is sent: claims work as the flow of its deliveries permits, makes each request within the lease
 * its claim got, and has the outcome settled as long as that lease lasts. A noun folder says what differs, as `Deliveries`: which work,
 * which request, what an answer means, what is stored. All state here is flow; what was claimed and not settled comes back when its
 * lease ends (P23).
 */
import type { Clock } from "../clock.ts";
import { AHEAD_MS } from "./dispatcher.ts";
import {
  allowedInFlight,
  type Bucket,
  emptyBucket,
  type Flow,
  fullBucket,
  initialFlow,
  mayStart,
  onResult,
  take,
  withMax,
  withRate,
} from "./flow.ts";
import { insist } from "./insist.ts";
import type { LaneSource } from "./lane.ts";
import { createMinute } from "./minute.ts";
import type { Pressure } from "./pressure.ts";
import { alone, START_MS, type Tenure, type Term } from "./tenure.ts";
import type { Attempt, DeliveryRequest, DeliveryResult } from "./types.ts";

/**
 * An endpoint that answered this often in a row within `QUICK_MS` has work held ready for it: what it takes in about `READY_MS`, at most
 * so many times what it may have in flight, and no more than `READY_BYTES`. With less the endpoint waits for claims while the store waits
 * for settlements (docs/performance.md).
 */
const QUICK_ANSWERS = 16;
const QUICK_MS = 100;
const READY_MS = 300;
const READY_FACTOR = 8;
/** How much of the mean answer time is the last answer's. */
const LAST_SHARE = 1 / 16;
const READY_BYTES = 4 * 1024 * 1024;
/** How soon a lane asks whether its term has begun, and how often whether what it inherited is over. */
const BEGIN_MS = 20;
const INHERITED_MS = 250;
/** The wait after a term that could not begin. */
const BEGIN_AGAIN_MS = 1_000;

/** What lanes need from outside. `log` has pino's form: one line per delivery at debug, per failure at info (A15). */
export interface EndpointLaneDeps {
  clock: Clock;
  attempt: Attempt;
  pressure: Pressure;
  log: DeliveryLog;
}

export interface DeliveryLog {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
}

/** What is in force for a lane; durations in milliseconds. */
export interface Terms {
  /** Requests at once, at most (P13). */
  concurrency: number;
  /** Requests per period, at most. */
  rateLimit: { count: number; periodMs: number } | null;
  /** One request's deadline. */
  timeoutMs: number;
  /** How long claimed work is hidden: longer than a request by the time that storing its outcome may take. */
  leaseMs: number;
}

/** The longest lease a claim of a lane with these terms gets, and how long after its claim a request can still be open; milliseconds. */
export const openFor = ({ leaseMs, timeoutMs }: Terms): { leaseMs: number; openMs: number } => ({
  leaseMs: leaseMs + AHEAD_MS,
  openMs: timeoutMs + START_MS,
});

/** The lease of everything one claim brought, by this process's clock, and how long a request within it may take; milliseconds. */
export interface Lease {
  at: number;
  ms: number;
  until: number;
  timeoutMs: number;
  /** The term it was claimed in: in another its loads are given back. */
  term: Term;
}

/** One delivery's worth of work under the lease of its claim. */
export interface Leased<Load> {
  load: Load;
  lease: Lease;
}

/** What a claim brought, in the order in which it is to start. */
export interface Loads<Load> {
  loads: Load[];
  /** When fewer came than were asked for: milliseconds until there may be more, `null` when nothing is known to come. */
  nextInMs: number | null;
  /** How long the first had been due, where that is known and it is a first try: a sign of how far this server is behind. */
  lagMs?: number | undefined;
  /** The size of one load, from a lane that may hold loads ready for a quick endpoint; without it none are. */
  bytes?: number | undefined;
}

/** A request to make. What a noun adds to it comes back with the answer; `logged` are the fields of its log line. */
export interface Outgoing extends Pick<DeliveryRequest, "url" | "headers" | "body"> {
  logged: object;
}

/** What an answer means for the endpoint (P13): `error` says why a delivery that is not `ok` failed. */
export interface Verdict {
  ok: boolean;
  slowDown: boolean;
  error: string | null;
  /** The message is at fault and not who was called: the flow goes on as it was. */
  blameless?: boolean;
}

/** A request that ended; instants by this process's clock. */
export interface Ended<Load, Sent, Read> extends Leased<Load> {
  sent: Sent;
  result: DeliveryResult;
  read: Read;
  startedAt: number;
  endedAt: number;
}

/** What makes one noun's deliveries: data and formats. Whatever rejects is tried again while the lease lasts, or claimed again after it. */
export interface Deliveries<Load, Sent extends Outgoing, Read extends Verdict> {
  /** The lane's name in the dispatcher's reports. */
  key: string;
  /** What names the lane in a log line. */
  label: object;
  /** Whether anything may be claimed and started now. */
  active(): boolean;
  /**
   * Takes up to `n` loads and hides them for `leaseMs`, under the lane's term as the fence. What can't be delivered yet is not to be
   * claimed: a claim spends attempts.
   */
  claim(n: number, leaseMs: number, fence: Term): Promise<Loads<Load>>;
  /** The request that carries the load within `timeoutMs`; `null`: it can't be made any more, and the load is given back. */
  request(load: Load, timeoutMs: number): Sent | null | Promise<Sent | null>;
  /** Carries the load where a delivery is no HTTP request. Never rejects. */
  carry?(load: Load): Promise<DeliveryResult>;
  read(load: Load, result: DeliveryResult, lease: Lease): Read;
  /** Stores what came of a delivery. May be called again when it rejected. */
  settle(ended: Ended<Load, Sent, Read>): Promise<unknown>;
  /** Gives loads back untouched, their attempts refunded. May be called again when it rejected. */
  release(loads: Load[]): Promise<unknown>;
  /**
   * Hears of health: of every failure when its request is over, and of every success once it is stored, never before: otherwise a crash
   * would make it a success twice. `flipped`: it was the other way round until now.
   */
  health(ended: Ended<Load, Sent, Read>, flipped: boolean): void;
  /** Hears of every delivery once its outcome was stored, or could not be. */
  closed?(ended: Ended<Load, Sent, Read>): void;
}

export interface EndpointLane<Load> extends LaneSource<Leased<Load>> {
  /** Puts terms in force: from the next delivery on. */
  set(terms: Terms): void;
  /** What may be in flight now, and the deliveries of the last minute. */
  live(): { limit: number; deliveriesPerMinute: number };
}

/**
 * Makes a lane for the dispatcher. `failing` as it was stored: such a lane starts with one request at a time. Where there are several
 * nodes, `tenure` says when the lane is this one's: then each term begins anew, with what the former owner left open.
 */
export function createEndpointLane<Load, Sent extends Outgoing, Read extends Verdict>(
  { clock, attempt, pressure, log }: EndpointLaneDeps,
  first: { terms: Terms; failing: boolean; tenure?: Tenure | undefined },
  deliveries: Deliveries<Load, Sent, Read>,
): EndpointLane<Load> {
  let { terms, failing } = first;
  let flow: Flow = initialFlow(terms.concurrency, failing);
  let bucket: Bucket | undefined;
  /** Quick answers in a row, the time that answers took of late, and the size of the last load claimed. */
  let quick = 0;
  let answerMs = QUICK_MS;
  let loadBytes = Number.POSITIVE_INFINITY;
  const minute = createMinute(clock);
  const tenure = first.tenure ?? alone(failing);
  /** The term that the flow belongs to: nothing is claimed or started in another. */
  let begun: Term | null = first.tenure === undefined ? tenure.term : null;
  let beginningSince: number | null = null;
  let beginNotBefore = 0;

  const takeRate = (): void => {
    const rate = terms.rateLimit;
    if (rate === null) bucket = undefined;
    else bucket = bucket === undefined ? fullBucket(rate, clock.now()) : withRate(bucket, rate, clock.now());
  };
  takeRate();
  const mine = (): boolean => begun !== null && tenure.term === begun && deliveries.active();
  const begin = async (term: Term): Promise<void> => {
    beginningSince = clock.now();
    try {
      failing = (await tenure.begin()).failing;
      flow = initialFlow(terms.concurrency, failing);
      quick = 0;
      // What the former owner spent is not known: at most all of it.
      if (terms.rateLimit !== null && term.token > 1) bucket = emptyBucket(terms.rateLimit, clock.now());
      begun = term;
    } catch (err) {
      log.warn({ ...deliveries.label, err }, "a lane could not be taken over yet");
      beginNotBefore = clock.now() + BEGIN_AGAIN_MS;
    }
    beginningSince = null;
  };
  const ahead = (): number => {
    if (quick < QUICK_ANSWERS || bucket !== undefined || !mine() || flow.limit < flow.max) return 0;
    const rounds = Math.min(READY_FACTOR, READY_MS / answerMs);
    return Math.min(Math.floor(rounds * flow.max), Math.floor(READY_BYTES / loadBytes));
  };
  /** Within the lease; what can't be settled by then comes back by itself. */
  const settle = (call: () => Promise<unknown>, until: number, signal?: AbortSignal): Promise<boolean> => {
    const failed = (err: unknown): void => log.warn({ ...deliveries.label, err }, "outcomes could not be stored");
    return insist(call, { clock, until, signal, failed });
  };
  const giveBack = (loads: Load[], until: number, signal?: AbortSignal): Promise<boolean> =>
    settle(() => deliveries.release(loads), until, signal);
  const health = (ended: Ended<Load, Sent, Read>): void => {
    const flipped = failing === ended.read.ok;
    failing = !ended.read.ok;
    deliveries.health(ended, flipped);
  };

  return {
    key: deliveries.key,

    permit(inFlight) {
      const { term } = tenure;
      if (term === null || !deliveries.active()) return { start: 0, inMs: null };
      const now = clock.now();
      if (term !== begun) {
        if (beginningSince === null && now >= beginNotBefore) void begin(term);
        // A takeover of many lanes takes its time, and none of them asks often meanwhile.
        const waited = beginningSince === null ? beginNotBefore - now : now - beginningSince;
        return { start: 0, inMs: Math.min(Math.max(waited, BEGIN_MS), BEGIN_AGAIN_MS) };
      }
      const open = inFlight + tenure.inherited;
      const may = mayStart(flow, open, now);
      if (may !== true) return { start: 0, inMs: may !== false ? may : tenure.inherited > 0 ? INHERITED_MS : null };
      const start = allowedInFlight(flow) - open;
      if (bucket === undefined) return { start, inMs: null };
      const { taken, waitMs } = take(bucket, start, now);
      return { start: taken, inMs: taken > 0 ? null : waitMs };
    },

    ahead,

    async claim(n) {
      const term = begun;
      if (term === null || tenure.term !== term) return { work: [], nextInMs: null };
      // What stands ready first must have all of its lease left when its request starts (P8).
      const ms = terms.leaseMs + (ahead() > 0 ? AHEAD_MS : 0);
      const { timeoutMs } = terms;
      const at = clock.now();
      const { loads, nextInMs, lagMs, bytes } = await deliveries.claim(n, ms, term);
      if (bytes !== undefined) loadBytes = Math.max(bytes, 1);
      if (lagMs !== undefined && loads.length >= n)
        pressure.seen({ lagMs, idle: n / flow.limit, healthy: flow.failures === 0 && flow.limit === flow.max });
      const lease = { at, ms, until: at + ms, timeoutMs, term };
      return { work: loads.map((load) => ({ load, lease })), nextInMs };
    },

    async deliver({ load, lease }, opened) {
      const { until } = lease;
      const startedAt = clock.now();
      // A timeout that was raised since the claim is not for this lease, and what the start is late is no more time for it.
      const timeoutMs = Math.min(terms.timeoutMs, lease.timeoutMs + Math.min(0, START_MS - (startedAt - lease.at)));
      // A pause, an update, another owner, or the end of the lease may have come between the claim and now.
      const ours = (): boolean => lease.term === begun && mine() && timeoutMs > 0 && clock.now() < until;
      const made = ours() ? deliveries.request(load, timeoutMs) : null;
      const sent = made instanceof Promise ? await made : made;
      if (sent === null || !ours()) {
        opened.over();
        await giveBack([load], until, opened.signal);
        return;
      }
      if (bucket !== undefined) bucket = take(bucket, 1, startedAt).bucket;
      const { url, headers, body } = sent;
      const result =
        deliveries.carry === undefined
          ? await attempt({ url, method: "POST", headers, body, timeoutMs }, opened.signal)
          : await deliveries.carry(load);
      // Cut off by the end of the grace time: nobody knows what the endpoint did, so the lease lapses.
      if (opened.signal.aborted && result.kind === "failure") return;

      const read = deliveries.read(load, result, lease);
      const endedAt = clock.now();
      if (read.blameless !== true) flow = onResult(flow, read.ok ? "success" : read.slowDown ? "slow" : "failed", endedAt);
      quick = read.ok && result.durationMs <= QUICK_MS ? quick + 1 : 0;
      answerMs += (Math.min(result.durationMs, QUICK_MS) - answerMs) * LAST_SHARE;
      minute.count();
      const ended = { load, lease, sent, result, read, startedAt, endedAt };
      if (!read.ok) health(ended);
      opened.over();

      const fields = { ...sent.logged, durationMs: Math.round(result.durationMs) };
      if (read.ok) log.debug(fields, "delivered");
      else log.info({ ...fields, error: read.error }, "delivery failed");
      const settled = await settle(() => deliveries.settle(ended), until, opened.signal);
      if (read.ok && settled) health(ended);
      deliveries.closed?.(ended);
    },

    release(work) {
      const until = work.reduce((soonest, { lease }) => Math.min(soonest, lease.until), Number.POSITIVE_INFINITY);
      return giveBack(
        work.map(({ load }) => load),
        until,
      ).then(() => {});
    },

    set(next) {
      terms = next;
      flow = withMax(flow, terms.concurrency);
      takeRate();
    },

    live: () => ({ limit: allowedInFlight(flow), deliveriesPerMinute: minute.rate() }),
  };
}
