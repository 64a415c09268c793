/**
 * One subscription as a lane of the dispatcher: claims batches of its queue, makes the signed request, reads the answer and settles each
 * message. How fast, how many at once and within which lease is the lane's (delivery/endpoint-lane.ts); what it sends is said here.
 */
import { ezghPush, type Reading, type SigningKey } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Ownership } from "../cluster/ownership.ts";
import { createTenure } from "../cluster/tenure.ts";
import {
  createEndpointLane,
  type Deliveries,
  type Ended,
  type EndpointLaneDeps,
  type Leased,
  type Outgoing,
  openFor,
  type Terms,
} from "../delivery/endpoint-lane.ts";
import { hmac } from "../delivery/hmac.ts";
import type { LaneSource } from "../delivery/lane.ts";
import { signingKeys } from "../identity/signing-keys.ts";
import type { Vault } from "../identity/vault.ts";
import { lagMs } from "../queue/lag.ts";
import type { Store } from "../store/store.ts";
import type { HttpsTarget, LaneRow, Target } from "../store/subscription.ts";
import type { ClaimedMessage } from "../store/types.ts";
import type { Records } from "./records.ts";
import { leaseMs, readFailure, releaseRows, settleRows } from "./rules.ts";

/** Bytes of an answer that are kept with an attempt. */
const KEPT_ANSWER = 1024;

/** What deliveries need from outside. */
export interface PushDeps extends EndpointLaneDeps {
  store: Store;
  vault: Vault;
  records: Records;
  /** Which lanes are this node's. */
  ownership: Ownership;
  /** Numbers in [0, 1), for jitter. */
  random: () => number;
  version: string;
}

export interface Push<To extends Target = HttpsTarget> extends LaneSource<Leased<ClaimedMessage[]>> {
  /** Puts what the store says in force, from the next delivery on; `null`: the subscription is gone, nothing starts any more. */
  set(row: LaneRow<To> | null): void;
  /** The live half of `status`. */
  live(): { limit: number; deliveriesPerMinute: number };
}

interface Sent extends Outgoing {
  deliveryId: string;
}

/** Makes the lane of a subscription. */
export function createPush(deps: PushDeps, first: LaneRow<HttpsTarget>): Push {
  const { store, clock, records } = deps;
  const { id, queueNo, resourceName } = first.subscription;
  const label = { subscription: resourceName };
  let row = first;
  let gone = false;
  let keys = keysOf(deps, first);

  const terms = (): Terms => {
    const { settings } = row.queue;
    const { maxConcurrency: concurrency, target } = row.subscription;
    return { concurrency, rateLimit: settings.rateLimit, timeoutMs: target.timeoutSeconds * 1000, leaseMs: leaseMs(settings, target) };
  };

  const deliveries: Deliveries<ClaimedMessage[], Sent, Reading> = {
    key: resourceName,
    label,
    active: () => !gone && row.subscription.state === "active" && !row.queue.settings.paused,

    async claim(n, lease, fence) {
      keys();
      const { batchSize } = row.subscription;
      const { retentionMs } = row.queue.settings;
      const { batches, nextInMs } = await store.claim({ queueNo, batchSize, batches: n, leaseMs: lease, fence });
      const [batch] = batches;
      return {
        loads: batches,
        nextInMs,
        lagMs: lagMs(batch?.[0], retentionMs, lease),
        bytes: batch?.reduce((sum, { body }) => sum + body.length, 0),
      };
    },

    request(messages) {
      const { target, batchSize } = row.subscription;
      // An update came between the claim and now.
      if (messages.length > batchSize) return null;
      const { type, resourceName: queue } = row.queue;
      const deliveryId = uuidv7();
      const { headers, body } = ezghPush.build(
        { subscription: resourceName, queue, fifo: type === "fifo", deliveryId, messages },
        { hmac, keys: keys(), wallMs: clock.wall(), version: deps.version },
      );
      return { url: target.url, headers, body, deliveryId, logged: { ...label, deliveryId, messages: messages.length } };
    },

    read(messages, result) {
      if (result.kind === "failure") return readFailure(result, messages.length);
      const limits = { nowMs: clock.wall(), maxDelayMs: row.queue.settings.visibilityTimeoutMs };
      return ezghPush.read(result, messageIds(messages), limits);
    },

    settle({ load, read }) {
      const { type, settings } = row.queue;
      return store.settle(settleRows({ no: queueNo, type, settings }, load, read, deps.random));
    },

    release: (batches) => store.settle(releaseRows(queueNo, batches.flat())),

    health({ result, read, endedAt: at }, flipped) {
      if (read.ok) {
        records.note(id, { queueNo, failing: false, successAt: at }, flipped);
        return;
      }
      const what = result.kind === "answer" ? ({ class: "http", status: result.status } as const) : { class: result.class };
      records.note(id, { queueNo, failing: true, error: { at, ...what, message: read.error ?? "" } }, flipped);
    },

    closed(ended) {
      if (!ended.read.ok || row.subscription.recordAttempts) records.attempt({ queueNo, ...attemptOf(id, ended) });
    },
  };

  const tenure = createTenure({
    ownership: deps.ownership,
    store,
    clock,
    queueNo,
    requests: () => ({ batchSize: row.subscription.batchSize, ...openFor(terms()) }),
    failing: async () => (await store.run("loadSubscription", queueNo))?.subscription.failing ?? false,
  });
  const lane = createEndpointLane(deps, { terms: terms(), failing: row.subscription.failing, tenure }, deliveries);
  return {
    ...lane,
    set(next) {
      if (next === null) {
        gone = true;
        return;
      }
      if (next.secret !== row.secret || next.previous?.secret !== row.previous?.secret) keys = keysOf(deps, next);
      row = next;
      lane.set(terms());
    },
  };
}

/** The keys that sign what a row's subscription is sent. */
function keysOf(deps: Pick<PushDeps, "vault" | "clock">, { subscription, secret, previous }: LaneRow): () => SigningKey[] {
  return signingKeys(deps, { owner: subscription.id, secret, previous });
}

const messageIds = (messages: readonly ClaimedMessage[]): string[] => messages.map(({ messageId }) => messageId);

/** What is kept of a delivery (P15). */
function attemptOf(subscriptionId: string, { load, sent, result, read, startedAt: at }: Ended<ClaimedMessage[], Sent, Reading>) {
  const answered = result.kind === "answer";
  return {
    at,
    subscriptionId,
    deliveryId: sent.deliveryId,
    durationMs: Math.round(result.durationMs),
    outcome: read.ok ? ("delivered" as const) : ("failed" as const),
    class: read.ok ? null : answered ? ("http" as const) : result.class,
    status: answered ? result.status : null,
    message: read.error,
    messageIds: messageIds(load),
    answer: answered ? firstText(result.body) : null,
  };
}

/** The first KiB of an answer as text, never ending within a character. */
function firstText(body: Uint8Array): string {
  return new TextDecoder().decode(body.subarray(0, KEPT_ANSWER), { stream: body.length > KEPT_ANSWER });
}
