/**
 * One push consumer as a lane of the dispatcher: claims single messages of its queue, calls the deployment with each, reads the answer
 * and settles. How fast, how many at once and within which lease is the lane's (delivery/endpoint-lane.ts); what it sends is said here.
 * While nothing is deployed it claims nothing, so that nothing is spent (C7).
 */
import { hash } from "node:crypto";
import { gigadriveMessage, type Reading } from "@millrace/contract/wire";
import type { Ownership } from "../cluster/ownership.ts";
import { createTenure } from "../cluster/tenure.ts";
import {
  createEndpointLane,
  type Deliveries,
  type EndpointLaneDeps,
  type Leased,
  type Outgoing,
  openFor,
  type Terms,
} from "../delivery/endpoint-lane.ts";
import { hmac } from "../delivery/hmac.ts";
import type { LaneSource } from "../delivery/lane.ts";
import { lagMs } from "../queue/lag.ts";
import type { ConsumerRow } from "../store/consumer.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { endpointOf, leaseMs, readFailure, releaseRow, settleRow, timeoutMs } from "./rules.ts";
import type { Serving } from "./serving.ts";

/** What deliveries need from outside. */
export interface LaneDeps extends EndpointLaneDeps {
  store: Store;
  /** Which lanes are this node's. */
  ownership: Ownership;
  /** Numbers in [0, 1), for jitter. */
  random: () => number;
  version: string;
}

export interface ConsumerLane extends LaneSource<Leased<ClaimedMessage>> {
  /** Puts what the store says in force, from the next delivery on; `null`: the queue is a pull queue now, or gone. */
  set(row: ConsumerRow | null): void;
}

/** Makes the lane of a push consumer. */
export function createConsumerLane(deps: LaneDeps, first: ConsumerRow, serving: Serving): ConsumerLane {
  const { store, clock, log } = deps;
  const { queueNo, queueName, resourceName } = first;
  const label = { queue: resourceName };
  let settings = first.settings;
  let gone = false;

  const terms = (): Terms => {
    const { concurrency, rateLimit } = settings;
    return { concurrency, rateLimit, timeoutMs: timeoutMs(settings), leaseMs: leaseMs(settings) };
  };

  const deliveries: Deliveries<ClaimedMessage, Outgoing, Reading> = {
    key: resourceName,
    label,
    active: () => !gone && !settings.paused && serving.current !== null,

    async claim(n, lease, fence) {
      serving.key();
      const { retentionMs } = settings;
      const { batches, nextInMs } = await store.claim({ queueNo, batchSize: 1, batches: n, leaseMs: lease, fence });
      const loads = batches.flat();
      return { loads, nextInMs, lagMs: lagMs(loads[0], retentionMs, lease), bytes: loads[0]?.body.length };
    },

    request(message, limitMs) {
      const route = serving.route(message.meta?.deploymentId);
      const path = settings.consumerPath;
      // A retirement or a change to pull came between the claim and now.
      if (route === null || path === null) return null;
      const { messageId, attempts: attempt, body: content } = message;
      const wallMs = clock.wall();
      const { headers, body } = gigadriveMessage.build(
        {
          queue: queueName,
          messageId,
          attempt,
          body: content,
          bodyHash: hash("sha256", content, "hex"),
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
      const logged = { ...label, messageId, attempt, deployment: route.to.id };
      return { url: endpointOf(route.to.url, path), headers, body, logged };
    },

    read({ messageId, expiresAt, leaseUntil }, result, lease) {
      if (result.kind === "failure") return readFailure(result);
      // What was left of the retention at the claim is a difference of the store's instants; what has passed since is one of ours.
      const leftMs = expiresAt - (leaseUntil - lease.ms) - (clock.now() - lease.at);
      return gigadriveMessage.read(result, [messageId], { nowMs: clock.wall(), maxDelayMs: Math.max(0, leftMs) });
    },

    settle: ({ load, read }) => store.settle([settleRow({ no: queueNo, settings }, load, read, deps.random())]),

    release: (messages) => store.settle(messages.map((message) => releaseRow(queueNo, message))),

    health({ read }, flipped) {
      if (!flipped) return;
      store.run("saveConsumerHealth", queueNo, !read.ok).catch((err) => log.warn({ ...label, err }, "a consumer's health was not stored"));
    },
  };

  const tenure = createTenure({
    ownership: deps.ownership,
    store,
    clock,
    queueNo,
    requests: () => ({ batchSize: 1, ...openFor(terms()) }),
    failing: async () => (await store.run("loadConsumer", queueNo))?.failing ?? false,
  });
  const lane = createEndpointLane(deps, { terms: terms(), failing: first.failing, tenure }, deliveries);
  return {
    ...lane,
    set(row) {
      if (row === null) {
        gone = true;
        return;
      }
      settings = row.settings;
      lane.set(terms());
    },
  };
}
