/**
 * One push consumer as a lane of the dispatcher: claims single messages of its queue, calls the deployment with each, reads the answer
 * and settles. It holds the flow state and nothing else; while nothing is deployed it claims nothing, so that nothing is spent (C7).
 */
import { createHash } from "node:crypto";
import { gigadriveMessage } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
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
import type { LaneSource } from "../delivery/lane.ts";
import type { Pressure } from "../delivery/pressure.ts";
import type { Attempt } from "../delivery/types.ts";
import type { ConsumerRow } from "../store/consumer.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage, SettleRow } from "../store/types.ts";
import { endpointOf, leaseMs, readFailure, settleRow, timeoutMs } from "./rules.ts";
import type { Serving } from "./serving.ts";

/** Has pino's form: one line per attempt at debug, per failure at info (A15). */
export interface ConsumerLog {
  debug(fields: object, text: string): void;
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
}

/** What deliveries need from outside. */
export interface LaneDeps {
  store: Store;
  clock: Clock;
  attempt: Attempt;
  /** Numbers in [0, 1), for jitter. */
  random: () => number;
  version: string;
  pressure: Pressure;
  log: ConsumerLog;
}

/**
 * A claimed message: when it was claimed and when its lease ends by this process's clock, how long its request may take within that
 * lease, and what was left of its retention at the claim, in milliseconds.
 */
export interface ConsumerWork {
  message: ClaimedMessage;
  at: number;
  until: number;
  limitMs: number;
  leftMs: number;
}

export interface ConsumerLane extends LaneSource<ConsumerWork> {
  /** Puts what the store says in force, from the next delivery on; `null`: the queue is a pull queue now, or gone. */
  set(row: ConsumerRow | null): void;
}

/** Makes the lane of a push consumer. */
export function createConsumerLane(deps: LaneDeps, first: ConsumerRow, serving: Serving): ConsumerLane {
  const { store, clock, log } = deps;
  const { queueNo, queueName, resourceName } = first;
  let settings = first.settings;
  let gone = false;
  let failing = first.failing;
  let flow: Flow = initialFlow(settings.concurrency, failing);
  let bucket: Bucket | undefined;

  const active = (): boolean => !gone && !settings.paused && serving.current !== null;
  const takeRate = (): void => {
    const rate = settings.rateLimit;
    if (rate === null) bucket = undefined;
    else bucket = bucket === undefined ? fullBucket(rate, clock.now()) : withRate(bucket, rate, clock.now());
  };
  takeRate();

  const settle = (row: SettleRow, until: number, signal: AbortSignal | undefined): Promise<boolean> => {
    const failed = (err: unknown): void => log.warn({ queue: resourceName, err }, "an outcome could not be stored");
    return insist(() => store.settle([row]), { clock, until, signal, failed });
  };
  const giveBack = ({ seq, receipt }: ClaimedMessage): SettleRow => ({ queueNo, seq, receipt, outcome: "release", delayMs: 0 });
  const note = (failed: boolean): void => {
    if (failed === failing) return;
    failing = failed;
    store
      .run("saveConsumerHealth", queueNo, failed)
      .catch((err) => log.warn({ queue: resourceName, err }, "a consumer's health was not stored"));
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

    async claim(n) {
      serving.key();
      const lease = leaseMs(settings);
      const limitMs = timeoutMs(settings);
      const { batches, nextInMs } = await store.claim({ queueNo, batchSize: 1, batches: n, leaseMs: lease });
      const at = clock.now();
      // Both instants are the store's: their difference needs no clock of ours.
      const work = batches
        .flat()
        .map((message) => ({ message, at, until: at + lease, limitMs, leftMs: message.expiresAt - (message.leaseUntil - lease) }));
      const [oldest] = work;
      if (oldest !== undefined && oldest.message.receives === 1 && work.length >= n) {
        // A message expires its retention after it was due.
        const lagMs = settings.retentionMs - oldest.leftMs;
        deps.pressure.seen({ lagMs, idle: n / flow.limit, healthy: flow.failures === 0 && flow.limit === flow.max });
      }
      return { work, nextInMs };
    },

    async deliver({ message, at: claimedAt, until, limitMs: leasedMs, leftMs }, opened) {
      const at = clock.now();
      const route = active() ? serving.route(message.meta?.deploymentId) : null;
      const path = settings.consumerPath;
      // A pause, a retirement or a change to pull may have come between the claim and now.
      if (route === null || path === null) {
        opened.over();
        await settle(giveBack(message), until, opened.signal);
        return;
      }
      const { messageId, attempts: attempt, body } = message;
      const wallMs = clock.wall();
      // A timeout that was raised since the claim is not for this lease.
      const limitMs = Math.min(timeoutMs(settings), leasedMs);
      const request = gigadriveMessage.build(
        {
          queue: queueName,
          messageId,
          attempt,
          body,
          bodyHash: createHash("sha256").update(body).digest("hex"),
          contentType: message.meta?.contentType ?? null,
          attributes: message.attributes,
          createdAt: message.sentAt,
          expiresAt: message.expiresAt,
          deadline: wallMs + limitMs,
          groupKey: message.groupKey,
          deduplicationKey: message.meta?.dedupId ?? null,
          deploymentId: route.to.id,
          fallbackFrom: route.fallbackFrom,
          traceparent: message.meta?.traceparent ?? null,
        },
        { hmac, keys: [serving.key()], wallMs, version: deps.version },
      );
      if (bucket !== undefined) bucket = take(bucket, 1, at).bucket;
      const url = endpointOf(route.to.url, path);
      const result = await deps.attempt({ url, method: "POST", timeoutMs: limitMs, ...request }, opened.signal);
      // Cut off by the end of the grace time: nobody knows what the consumer did, so the lease lapses.
      if (opened.signal.aborted && result.kind === "failure") return;

      const endedAt = clock.now();
      const maxDelayMs = Math.max(0, leftMs - (endedAt - claimedAt));
      const reading =
        result.kind === "answer" ? gigadriveMessage.read(result, [messageId], { nowMs: clock.wall(), maxDelayMs }) : readFailure(result);
      flow = onResult(flow, reading.ok ? "success" : reading.slowDown ? "slow" : "failed", endedAt);
      if (!reading.ok) note(true);
      opened.over();

      const fields = { queue: resourceName, messageId, attempt, deployment: route.to.id, durationMs: Math.round(result.durationMs) };
      if (reading.ok) log.debug(fields, "delivered");
      else log.info({ ...fields, error: reading.error }, "delivery failed");
      const settled = await settle(settleRow({ no: queueNo, settings }, message, reading, deps.random()), until, opened.signal);
      if (reading.ok && settled) note(false);
    },

    async release(work) {
      await Promise.all(work.map(({ message, until }) => settle(giveBack(message), until, undefined)));
    },

    set(row) {
      if (row === null) {
        gone = true;
        return;
      }
      settings = row.settings;
      flow = withMax(flow, settings.concurrency);
      takeRate();
    },
  };
}
