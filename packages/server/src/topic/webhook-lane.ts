/**
 * A webhook subscription's lane (T6 to T8, T11, T15): claims its deliveries and handshakes one by one, makes each request, reads the answer
 * by the classes of topics, and settles message and record together.
 */
import { basalticNotification, type NotificationDelivery, parseSecret, type SigningKey } from "@millrace/contract/wire";
import type { Ownership } from "../cluster/ownership.ts";
import { createTenure } from "../cluster/tenure.ts";
import {
  createEndpointLane,
  type Deliveries,
  type EndpointLane,
  type EndpointLaneDeps,
  type Outgoing,
  openFor,
  type Terms,
} from "../delivery/endpoint-lane.ts";
import { hmac } from "../delivery/hmac.ts";
import type { Vault } from "../identity/vault.ts";
import type { TopicLaneRow } from "../store/topic-lane.ts";
import { partsFor } from "./content.ts";
import { type Decision, decideAttempt } from "./delivery-rules.ts";
import type { TopicHealth } from "./health.ts";
import { createJobs, type Job, type JobDeps } from "./job.ts";

/** What lanes of topic subscriptions need. */
export interface TopicLaneDeps extends EndpointLaneDeps, JobDeps {
  vault: Pick<Vault, "open">;
  ownership: Ownership;
  health: TopicHealth;
  /** Numbers in [0, 1), for jitter. */
  random: () => number;
  version: string;
}

/** A lane's work has this much time after its request to be settled, in milliseconds. */
export const SETTLE_MS = 30_000;

export interface WebhookLane extends EndpointLane<Job> {
  /** Puts what the row says now in force, from the next delivery on. */
  refresh(): void;
}

/** Makes the lane of the subscription that `row` answers, as long as it is `alive`. */
export function createWebhookLane(deps: TopicLaneDeps, row: () => TopicLaneRow, alive: () => boolean): WebhookLane {
  const { vault, clock, meter, health, tokens } = deps;
  const jobs = createJobs(deps, row, clock.now);
  const { no, id, queueNo, failing } = row().subscription;
  const label = { topicSubscription: id };
  let opened: { sealed: string; key: SigningKey } | undefined;

  const key = (): SigningKey => {
    const sealed = row().secret ?? "";
    if (opened?.sealed !== sealed) {
      const parsed = parseSecret(vault.open(sealed, id));
      if (parsed === undefined) throw new Error(`The secret of topic subscription ${id} is unreadable.`);
      opened = { sealed, key: parsed };
    }
    return opened.key;
  };
  const terms = (): Terms => {
    const { maxInFlight, rateLimit } = row().subscription.settings;
    const { timeoutMs } = jobs.retry();
    return { concurrency: maxInFlight, rateLimit, timeoutMs, leaseMs: timeoutMs + SETTLE_MS };
  };
  /** What a job asks to send; `null` for a handshake that nobody needs any more. */
  const deliveryOf = ({ message, delivery }: Job): NotificationDelivery | null => {
    const { subscription } = row();
    const topic = jobs.names();
    const attempt = message.attempts;
    if (delivery !== null) {
      const parts = partsFor(delivery.notification, topic, {
        subscriptionId: id,
        protocol: "webhook",
        unsubscribeUrl: tokens.unsubscribeUrl(id),
      });
      return { kind: "notification", deliveryId: delivery.id, attempt, raw: subscription.settings.rawMessageDelivery, parts };
    }
    if (subscription.confirmableUntil === null) return null;
    const { token, url } = tokens.confirmation(id, subscription.confirmableUntil);
    const { messageId, sentAt } = message;
    const parts = { messageId, topicCrn: topic.crn, topicName: topic.name, subscriptionId: id, confirmUrl: url, token, askedAt: sentAt };
    return { kind: "confirmation", deliveryId: messageId, attempt, parts };
  };

  const deliveries: Deliveries<Job, Outgoing, Decision> = {
    key: `topic subscription ${id}`,
    label,
    active: alive,

    async claim(n, leaseMs, fence) {
      key();
      const { jobs: loads, nextInMs } = await jobs.claim(n, leaseMs, fence);
      return { loads, nextInMs };
    },

    request(job) {
      const delivery = deliveryOf(job);
      if (delivery === null) return null;
      const { headers, body } = basalticNotification.build(delivery, { hmac, keys: [key()], wallMs: clock.wall(), version: deps.version });
      const traceparent = job.delivery?.notification.traceparent ?? null;
      if (traceparent !== null) headers.traceparent = traceparent;
      const logged = { ...label, messageId: delivery.parts.messageId, deliveryId: delivery.deliveryId, attempt: delivery.attempt };
      return { url: row().subscription.endpoint, headers, body, logged };
    },

    read(job, result, lease) {
      const standing = jobs.standing(job, clock.now() - lease.at, { random: deps.random(), wallMs: clock.wall() });
      return decideAttempt(result, standing);
    },

    async settle({ load, read, lease, endedAt }) {
      const { result, deadLetter } = await jobs.settle(load, read, endedAt);
      if (load.delivery === null || result !== "settled") return;
      const latencyMs = load.ageMs + endedAt - lease.at;
      meter.attempt(jobs.names(), read.failure?.class ?? "delivered");
      meter.ended(jobs.names(), { outcome: read.outcome, latencyMs, deadLetter });
    },

    release: jobs.release,

    health: ({ read }, flipped) => health.note(no, read.failure, flipped),
  };

  const tenure = createTenure({
    ownership: deps.ownership,
    store: deps.store,
    clock,
    queueNo,
    requests: () => ({ batchSize: 1, ...openFor(terms()) }),
    failing: async () => (await deps.store.run("topicLanes", [queueNo]))[0]?.subscription.failing ?? false,
  });
  const lane = createEndpointLane(deps, { terms: terms(), failing, tenure }, deliveries);
  return { ...lane, refresh: () => lane.set(terms()) };
}
