/**
 * One subscription as a lane of the dispatcher: claims batches of its queue, makes the signed request, reads the answer and settles each
 * message. It holds the flow state and nothing else: what it claimed and did not settle comes back when its lease ends (P23).
 */
import { ezghPush, parseSecret, type Reading, type SigningKey } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Clock } from "../clock.ts";
import { AHEAD_MS } from "../delivery/dispatcher.ts";
import {
  allowedInFlight,
  type Bucket,
  type Flow,
  fullBucket,
  initialFlow,
  mayStart,
  onResult,
  take,
  withMax,
  withRate,
} from "../delivery/flow.ts";
import { hmac } from "../delivery/hmac.ts";
import { insist } from "../delivery/insist.ts";
import type { LaneSource, Opened } from "../delivery/lane.ts";
import type { Pressure } from "../delivery/pressure.ts";
import type { Attempt, DeliveryResult } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import type { Store } from "../store/store.ts";
import type { LaneRow, LastError } from "../store/subscription.ts";
import type { ClaimedMessage, SettleRow } from "../store/types.ts";
import type { Records } from "./records.ts";
import { leaseMs, readFailure, releaseRows, settleRows } from "./rules.ts";

/** Bytes of an answer that are kept with an attempt. */
const KEPT_ANSWER = 1024;

/** An endpoint that answered this often in a row within `QUICK_MS` has work held ready for it, of no more than `READY_BYTES`. */
const QUICK_ANSWERS = 16;
const QUICK_MS = 100;
const READY_BYTES = 4 * 1024 * 1024;

/** What deliveries need from outside. `log` has pino's form: one line per attempt at debug, per failure at info (A15). */
export interface PushDeps {
  store: Store;
  clock: Clock;
  vault: Vault;
  attempt: Attempt;
  records: Records;
  /** Numbers in [0, 1), for jitter. */
  random: () => number;
  version: string;
  log: PushLog;
  pressure: Pressure;
}

export interface PushLog {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
}

export interface Push extends LaneSource<ClaimedMessage[]> {
  /** Puts what the store says in force, from the next delivery on; `null`: the subscription is gone, nothing starts any more. */
  set(row: LaneRow | null): void;
  /** The live half of `status`. */
  live(): { limit: number; deliveriesPerMinute: number };
}

/** Makes the lane of a subscription. */
export function createPush(deps: PushDeps, first: LaneRow): Push {
  const { store, clock, vault, records, log } = deps;
  const { id, queueNo, resourceName } = first.subscription;
  let row = first;
  let gone = false;
  let flow: Flow = initialFlow(row.subscription.maxConcurrency, row.subscription.failing);
  let failing = row.subscription.failing;
  let bucket: Bucket | undefined;
  let keys: { newest: SigningKey; previous: { key: SigningKey; until: number } | undefined } | undefined;
  /** When the row was loaded: its durations count from here. */
  let loadedAt = clock.now();
  /** Quick answers in a row, and the size of the last batch claimed. */
  let quick = 0;
  let batchBytes = 1;
  const minute = { startedAt: clock.now(), now: 0, before: 0 };

  const active = (): boolean => !gone && row.subscription.state === "active" && !row.queue.settings.paused;
  const openSecret = (sealed: string): SigningKey => {
    const key = parseSecret(vault.open(sealed, id));
    if (key === undefined) throw new Error(`the stored secret of subscription ${id} is not a signing secret`);
    return key;
  };
  const openKeys = () => {
    if (keys !== undefined) return keys;
    const { previous, secret } = row;
    keys = {
      newest: openSecret(secret),
      previous: previous === null ? undefined : { key: openSecret(previous.secret), until: loadedAt + previous.forMs },
    };
    return keys;
  };
  const signing = (): SigningKey[] => {
    const { newest, previous } = openKeys();
    return previous !== undefined && clock.now() < previous.until ? [newest, previous.key] : [newest];
  };
  const takeRate = (): void => {
    const rate = row.queue.settings.rateLimit;
    if (rate === null) bucket = undefined;
    else bucket = bucket === undefined ? fullBucket(rate, clock.now()) : withRate(bucket, rate, clock.now());
  };
  takeRate();
  const ahead = (): number => {
    if (quick < QUICK_ANSWERS || bucket !== undefined || !active() || flow.limit < flow.max) return 0;
    return Math.min(flow.max, Math.floor(READY_BYTES / batchBytes));
  };

  const turnMinute = (): void => {
    const passed = clock.now() - minute.startedAt;
    if (passed < 60_000) return;
    minute.before = passed < 120_000 ? minute.now : 0;
    minute.now = 0;
    minute.startedAt += passed - (passed % 60_000);
  };

  /** Settles within the lease; what can't be settled by then comes back by itself. */
  const settle = (rows: SettleRow[], until: number, signal?: AbortSignal): Promise<boolean> => {
    const failed = (err: unknown): void => log.warn({ subscription: resourceName, err }, "outcomes could not be stored");
    return insist(() => store.settle(rows), { clock, until, signal, failed });
  };

  const keep = (at: number, deliveryId: string, messages: readonly ClaimedMessage[], result: DeliveryResult, reading: Reading): void => {
    if (reading.ok && !row.subscription.recordAttempts) return;
    records.attempt({
      at,
      subscriptionId: id,
      deliveryId,
      durationMs: Math.round(result.durationMs),
      outcome: reading.ok ? "delivered" : "failed",
      class: reading.ok ? null : result.kind === "answer" ? "http" : result.class,
      status: result.kind === "answer" ? result.status : null,
      message: reading.error,
      messageIds: messages.map(({ messageId }) => messageId),
      answer: result.kind === "answer" ? firstText(result.body) : null,
    });
  };

  const fail = (at: number, result: DeliveryResult, reading: Reading): void => {
    const flipped = !failing;
    failing = true;
    const error: LastError = {
      at,
      class: result.kind === "answer" ? "http" : result.class,
      ...(result.kind === "answer" ? { status: result.status } : {}),
      message: reading.error ?? "",
    };
    records.note(id, { failing: true, error }, flipped);
  };

  return {
    key: resourceName,

    permit(inFlight) {
      if (!active()) return { start: 0, inMs: null };
      const now = clock.now();
      const may = mayStart(flow, inFlight, now);
      if (may !== true) return { start: 0, inMs: may === false ? null : may };
      const start = allowedInFlight(flow) - inFlight;
      if (bucket === undefined) return { start, inMs: null };
      const { taken, waitMs } = take(bucket, start, now);
      return { start: taken, inMs: taken > 0 ? null : waitMs };
    },

    ahead,

    async claim(n) {
      openKeys();
      const { batchSize, target } = row.subscription;
      const { retentionMs } = row.queue.settings;
      // What stands ready first must have all of its lease left when its request starts (P8).
      const lease = leaseMs(row.queue.settings, target) + (ahead() > 0 ? AHEAD_MS : 0);
      const claim = await store.claim({ queueNo, batchSize, batches: n, leaseMs: lease });
      const [batch = []] = claim.batches;
      if (batch.length > 0) batchBytes = batch.reduce((sum, { body }) => sum + body.length, 1);
      const [oldest] = batch;
      if (oldest !== undefined && oldest.receives === 1 && claim.batches.length >= n) {
        // A message expires its retention after it was due, and its lease began when it was claimed: both by the store's clock.
        const lagMs = oldest.leaseUntil - lease - (oldest.expiresAt - retentionMs);
        const healthy = flow.failures === 0 && flow.limit === flow.max;
        deps.pressure.seen({ lagMs, idle: n / flow.limit, healthy });
      }
      return { work: claim.batches, nextInMs: claim.nextInMs };
    },

    async deliver(messages, opened: Opened) {
      const { target, batchSize } = row.subscription;
      const at = clock.now();
      const until = at + leaseMs(row.queue.settings, target);
      // A pause or an update may have come between the claim and now.
      if (!active() || messages.length > batchSize) {
        opened.over();
        await settle(releaseRows(queueNo, messages), until, opened.signal);
        return;
      }
      const { type, resourceName: queue } = row.queue;
      const deliveryId = uuidv7();
      const request = ezghPush.build(
        { subscription: resourceName, queue, fifo: type === "fifo", deliveryId, messages },
        { hmac, keys: signing(), wallMs: clock.wall(), version: deps.version },
      );
      if (bucket !== undefined) bucket = take(bucket, 1, at).bucket;
      const result = await deps.attempt(
        { url: target.url, method: "POST", timeoutMs: target.timeoutSeconds * 1000, ...request },
        opened.signal,
      );
      // Cut off by the end of the grace time: nobody knows what the endpoint did, so the lease lapses.
      if (opened.signal.aborted && result.kind === "failure") return;

      const ids = messages.map(({ messageId }) => messageId);
      const { settings } = row.queue;
      const reading =
        result.kind === "answer"
          ? ezghPush.read(result, ids, { nowMs: clock.wall(), maxDelayMs: settings.visibilityTimeoutMs })
          : readFailure(result, messages.length);
      const endedAt = clock.now();
      flow = onResult(flow, reading.ok ? "success" : reading.slowDown ? "slow" : "failed", endedAt);
      quick = reading.ok && result.durationMs <= QUICK_MS ? quick + 1 : 0;
      turnMinute();
      minute.now++;
      if (!reading.ok) fail(endedAt, result, reading);
      opened.over();

      const fields = { subscription: resourceName, deliveryId, messages: ids.length, durationMs: Math.round(result.durationMs) };
      if (reading.ok) log.debug(fields, "delivered");
      else log.info({ ...fields, error: reading.error }, "delivery failed");
      const settled = await settle(settleRows({ no: queueNo, type, settings }, messages, reading, deps.random), until, opened.signal);
      // A success counts once its outcomes are stored, never before: otherwise a crash would make it a success twice.
      if (reading.ok && settled) {
        const flipped = failing;
        failing = false;
        records.note(id, { failing: false, successAt: endedAt }, flipped);
      }
      keep(at, deliveryId, messages, result, reading);
    },

    async release(batches) {
      const until = clock.now() + leaseMs(row.queue.settings, row.subscription.target);
      await settle(releaseRows(queueNo, batches.flat()), until);
    },

    set(next) {
      if (next === null) {
        gone = true;
        return;
      }
      if (next.secret !== row.secret || next.previous?.secret !== row.previous?.secret) {
        keys = undefined;
        loadedAt = clock.now();
      }
      row = next;
      flow = withMax(flow, next.subscription.maxConcurrency);
      takeRate();
    },

    live() {
      turnMinute();
      const share = 1 - (clock.now() - minute.startedAt) / 60_000;
      return { limit: allowedInFlight(flow), deliveriesPerMinute: Math.round(minute.now + minute.before * share) };
    },
  };
}

/** The first KiB of an answer as text, never ending within a character. */
function firstText(body: Uint8Array): string {
  return new TextDecoder().decode(body.subarray(0, KEPT_ANSWER), { stream: body.length > KEPT_ANSWER });
}
