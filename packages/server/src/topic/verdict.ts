/**
 * What became of a notification for one subscription, as one word and one sentence (T16). Pure: decided from what the store knows, the
 * filter's own verdict and the queue's standing.
 */
import type { Answer, Operations } from "@millrace/contract";
import type { ExplainedSubscription } from "../store/explanation.ts";
import type { Failure, Verdict as FilterVerdict } from "./filter/filter.ts";

type Wire = Answer<Operations["ExplainNotification"]>["verdicts"][number];
/** One word for it. */
export type Outcome = Wire["outcome"];
/** Whether a subscribed queue takes and hands out messages, and how many of its messages are where. */
export type QueueStanding = NonNullable<Wire["queue"]>;

/** What is decided from, beside the subscription. */
export interface Facts extends Pick<ExplainedSubscription, "subscription" | "endedAt" | "member" | "delivery"> {
  /** When the notification was accepted, in milliseconds since 1970. */
  acceptedAt: number;
  /** Whether the fan-out has decided on this subscription. */
  walked: boolean;
  /** The filter's word on the notification; `null` without a filter. */
  filter: FilterVerdict | null;
  /** Whether that filter is the one of the publication, or the present one because the other is forgotten. */
  filterAsOf: "publication" | "now";
  /** Whether the filter was changed after the publication. */
  changedSince: boolean;
  queue: QueueStanding | null;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Whether the subscription was confirmed when the notification was accepted. */
function wasMember({ member, subscription, acceptedAt }: Facts): boolean {
  return member !== null || (subscription.confirmedAt !== null && subscription.confirmedAt <= acceptedAt);
}

/** The outcome in one word. */
export function outcomeOf(facts: Facts): Outcome {
  const { delivery, subscription, acceptedAt, filter, filterAsOf, walked } = facts;
  if (delivery !== null) return delivery.state;
  if (!wasMember(facts)) return subscription.createdAt > acceptedAt ? "subscribed_later" : "not_confirmed";
  if (!walked) return "undecided";
  if (filterAsOf === "now" || filter?.matched === false) return "filtered_out";
  return "forgotten";
}

/** `store is "paris" where the filter wants one of ["berlin"]` */
function failureText({ key, reason, expected, got }: Failure): string {
  if (reason === "not_an_object") return "the message is no JSON object, which a filter on the message needs";
  const wanted = expected.length === 1 ? JSON.stringify(expected[0]) : `one of ${JSON.stringify(expected)}`;
  return `${key} is ${reason === "absent" ? "missing" : JSON.stringify(got)} where the filter wants ${wanted}`;
}

function filteredText({ filter, filterAsOf, changedSince }: Facts): string {
  const why = (filter?.failures ?? []).map(failureText).join("; ");
  if (filterAsOf === "publication") return `Filtered out: ${why}.${changedSince ? " The filter was changed since." : ""}`;
  return `Filtered out by a filter that was changed since; ${why === "" ? "it would pass as it is now" : `as it is now, ${why}`}.`;
}

const deadLetterText = {
  stored: "The dead-letter queue has it.",
  missing: "The dead-letter queue is gone.",
  full: "The dead-letter queue was full.",
};

function deliveryText({ delivery, endedAt }: Facts): string {
  if (delivery === null) return "";
  const { state, attempts, deliveredAt, nextAttemptAt, lastError, deadLetter } = delivery;
  const tried = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
  const error = lastError === null ? "" : `: ${lastError.message}`;
  switch (state) {
    case "delivered":
      return `Delivered${deliveredAt === null ? "" : ` at ${iso(deliveredAt)}`} after ${tried}.`;
    case "delivering":
      return `Attempt ${attempts} is under way.`;
    case "pending": {
      const next = nextAttemptAt === null ? "" : `; the next one is at ${iso(nextAttemptAt)}`;
      return lastError === null
        ? `Waits for its attempt${next === "" ? "" : ` at ${iso(nextAttemptAt as number)}`}.`
        : `Not delivered after ${tried}${error}${next}.`;
    }
    case "failed":
      return `Failed for good after ${tried}${error}.${deadLetter === null ? "" : ` ${deadLetterText[deadLetter]}`}`;
    case "cancelled":
      return `Cancelled: the subscription ended${endedAt === null ? "" : ` at ${iso(endedAt)}`}, before it was delivered.`;
  }
}

/** What a queue's standing adds. */
function queueText(queue: QueueStanding | null): string {
  if (queue === null) return "";
  const leased =
    queue.leased === 0
      ? ""
      : ` ${queue.leased === 1 ? "1 of its messages is" : `${queue.leased} of its messages are`} leased by consumers.`;
  const states = {
    available: "",
    paused: " The queue is paused: it hands out nothing.",
    full: " The queue is full: it takes nothing until messages are acknowledged.",
    deleted: " The queue was deleted.",
  };
  return states[queue.state] + leased;
}

/** The outcome in a sentence or two, with what the queue adds. */
export function explanationOf(facts: Facts): string {
  const { subscription, endedAt } = facts;
  const texts: Record<Exclude<Outcome, NonNullable<Facts["delivery"]>["state"]>, () => string> = {
    filtered_out: () => filteredText(facts),
    not_confirmed: () =>
      subscription.confirmedAt === null
        ? `The subscription ${endedAt === null ? "is not" : "was never"} confirmed, so it got nothing: its endpoint has to follow the link of the handshake.`
        : `The subscription was confirmed at ${iso(subscription.confirmedAt)}, after this was published.`,
    subscribed_later: () => `The subscription was made at ${iso(subscription.createdAt)}, after this was published.`,
    undecided: () => "The fan-out has not come to this subscription yet.",
    forgotten: () => "It matched, and its delivery record is gone: records are kept for 14 days after they end.",
  };
  const outcome = outcomeOf(facts);
  const text = outcome in texts ? texts[outcome as keyof typeof texts]() : deliveryText(facts);
  return text + queueText(facts.queue);
}
