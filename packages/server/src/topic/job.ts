/**
 * Jobs: what a claim of a topic subscription's internal queue brought, with the notification that each message stands for. What may not be
 * attempted any more is ended here, so that lanes get only what they are to try.
 */
import type { NotificationParts } from "@millrace/contract/wire";
import type { DeliverySettle, DeliverySettled } from "../store/delivery.ts";
import { messageId } from "../store/message-id.ts";
import type { Notification } from "../store/notification.ts";
import type { Store } from "../store/store.ts";
import type { TopicLaneRow } from "../store/topic-lane.ts";
import type { ClaimedMessage, Fence } from "../store/types.ts";
import { failedContent, partsFor, subscribedContent, type TopicNames } from "./content.ts";
import { topicCrn } from "./crn.ts";
import { type AttemptError, type Decision, SPENT, type Standing, spent } from "./delivery-rules.ts";
import type { Gather } from "./gather.ts";
import type { TopicMeter } from "./meter.ts";
import type { NotificationMemory } from "./notification-memory.ts";
import { type Retry, retryInForce } from "./rules.ts";
import type { TopicTokens } from "./tokens.ts";

/** A delivery by number and id, and what is delivered. */
export interface Delivery {
  no: number;
  id: string;
  notification: Notification;
}

/** A message of an internal queue. `ageMs`: how old its delivery was when it was claimed. `delivery` is `null` for a handshake. */
export interface Job {
  message: ClaimedMessage;
  ageMs: number;
  delivery: Delivery | null;
}

export interface JobDeps {
  store: Store;
  tokens: TopicTokens;
  notifications: NotificationMemory;
  settle: Gather<DeliverySettle, DeliverySettled>;
  meter: TopicMeter;
  region: string;
}

/** The jobs of one subscription; `row` answers what is in force of it. */
export interface Jobs {
  claim(n: number, leaseMs: number, fence: Fence | undefined): Promise<{ jobs: Job[]; nextInMs: number | null }>;
  /** Where a job stands, `elapsedMs` after its claim. */
  standing(job: Job, elapsedMs: number, chance: { random: number; wallMs: number }): Standing;
  /** Stores what an attempt came to, and the dead letter of a failure; `now` in milliseconds since 1970 stands in that letter. */
  settle(job: Job, decision: Pick<Decision, "outcome" | "delayMs" | "status" | "failure">, now: number): Promise<DeliverySettled>;
  /** Puts a job's notification into the subscribed queue: `missing` and `full` say that it took nothing and the job is still open. */
  put(job: Job & { delivery: Delivery }): Promise<DeliverySettled>;
  release(jobs: readonly Job[]): Promise<unknown>;
  /** The topic as it is named in what it sends. */
  names(): TopicNames;
  retry(): Retry;
}

/** What an attempt came to, but for the lease. */
type Came = Pick<DeliverySettle, "outcome" | "delayMs" | "status" | "error" | "content" | "deadLetter">;

const decoder = new TextDecoder();

/** The numbers in a message's body: delivery, notification, and when the delivery was created; `null` for a handshake. */
function readBody(body: Uint8Array): [no: number, notificationNo: number, createdAt: number] | null {
  const [no, notificationNo, createdAt] = decoder.decode(body).split(" ").map(Number);
  return no === undefined || notificationNo === undefined || createdAt === undefined ? null : [no, notificationNo, createdAt];
}

/** Makes the jobs of the subscription that `row` answers. `now` answers milliseconds since 1970. */
export function createJobs(deps: JobDeps, row: () => TopicLaneRow, now: () => number): Jobs {
  const { store, tokens, notifications, meter, region } = deps;
  const names = () => {
    const { name, fifo, projectId: id } = row().topic;
    return { name, fifo, crn: topicCrn({ region, account: { id, name: id } }, name) };
  };
  const retry = (): Retry => retryInForce(row().topic.retryPolicy, row().subscription.settings.retryPolicy);

  /** What the subscription gets of a notification. */
  const partsOf = ({ notification }: Delivery): NotificationParts => {
    const { id: subscriptionId, protocol } = row().subscription;
    return partsFor(notification, names(), { subscriptionId, protocol, unsubscribeUrl: tokens.unsubscribeUrl(subscriptionId) });
  };
  const settled = ({ message: { seq, receipt, attempts }, delivery }: Job, came: Came): DeliverySettle => ({
    queueNo: row().subscription.queueNo,
    seq,
    receipt,
    deliveryNo: delivery?.no ?? null,
    attempts,
    ...came,
  });
  /** The dead letter of a failure. A queue that is gone gets it too: so the record says that it is missing. */
  const letterOf = (job: Job, failure: AttemptError, failedAt: number): DeliverySettle["deadLetter"] => {
    const { subscription, deadLetter } = row();
    const { deadLetterNo } = subscription.settings;
    if (job.delivery === null || deadLetterNo === null) return null;
    const { id: deliveryId, notification } = job.delivery;
    const to = deadLetter ?? { queueNo: deadLetterNo, fifo: false };
    const { attempts } = job.message;
    return failedContent(notification, partsOf(job.delivery), to, { deliveryId, attempts, failedAt, lastError: failure });
  };
  const settle: Jobs["settle"] = (job, { outcome, delayMs, status, failure }, failedAt) => {
    const deadLetter = outcome === "failed" ? letterOf(job, failure ?? SPENT, failedAt) : null;
    return deps.settle(settled(job, { outcome, delayMs, status, error: failure, content: null, deadLetter }));
  };

  /** The job of a message; `null` when nothing is left to do for it. */
  const jobOf = async (message: ClaimedMessage, leaseMs: number): Promise<Job | null> => {
    const ageMs = message.leaseUntil - leaseMs - message.sentAt;
    const numbers = readBody(message.body);
    if (numbers === null) {
      const { state, confirmableUntil } = row().subscription;
      const open = state === "pending" && message.leaseUntil - leaseMs < (confirmableUntil ?? 0);
      return open ? { message, ageMs, delivery: null } : null;
    }
    const [no, notificationNo, createdAt] = numbers;
    const notification = await notifications.get(notificationNo);
    return notification === null ? null : { message, ageMs, delivery: { no, id: messageId(createdAt, no), notification } };
  };

  /** Ends a job that must not be attempted: the attempt that its claim spent was none. */
  const endSpent = async (job: Job): Promise<void> => {
    const message = { ...job.message, attempts: job.message.attempts - 1 };
    const { result, deadLetter } = await settle(
      { ...job, message },
      { outcome: "failed", delayMs: 0, status: null, failure: SPENT },
      now(),
    );
    if (result === "settled" && job.delivery !== null) meter.ended(names(), { outcome: "failed", latencyMs: job.ageMs, deadLetter });
  };

  return {
    names,
    retry,
    settle,
    async claim(n, leaseMs, fence) {
      const { queueNo } = row().subscription;
      const { batches, nextInMs } = await store.claim({
        queueNo,
        batchSize: 1,
        batches: n,
        leaseMs,
        ...(fence === undefined ? {} : { fence }),
      });
      const messages = batches.flat();
      const found = await Promise.all(messages.map((message) => jobOf(message, leaseMs)));
      const jobs: Job[] = [];
      for (const [i, job] of found.entries()) {
        const message = messages[i] as ClaimedMessage;
        if (job === null) await store.settle([{ queueNo, seq: message.seq, receipt: message.receipt, outcome: "ack" }]);
        else if (spent({ attempts: message.attempts, ageMs: job.ageMs, retry: retry() })) await endSpent(job);
        else jobs.push(job);
      }
      // What was ended here made room: there may be more behind it.
      return { jobs, nextInMs: jobs.length < messages.length ? 0 : nextInMs };
    },
    put(job) {
      const { subscription, target } = row();
      const to = target ?? { queueNo: subscription.targetNo ?? 0, fifo: false };
      const content = subscribedContent(job.delivery.notification, partsOf(job.delivery), to);
      return deps.settle(settled(job, { outcome: "delivered", delayMs: 0, status: null, error: null, content, deadLetter: null }));
    },
    standing: ({ message, ageMs }, elapsedMs, chance) => ({
      attempts: message.attempts,
      ageMs: ageMs + elapsedMs,
      retry: retry(),
      ...chance,
    }),
    release: (jobs) =>
      store.settle(
        jobs.map(({ message: { seq, receipt } }) => ({
          queueNo: row().subscription.queueNo,
          seq,
          receipt,
          outcome: "release",
          delayMs: 0,
        })),
      ),
  };
}
