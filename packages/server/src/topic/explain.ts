/**
 * The six questions about a notification that did not arrive (T16), answered for each subscription of its topic: accepted, confirmed,
 * filtered by which key, recorded with attempts and error, the webhook's status, the queue's availability. Reads, and changes nothing.
 */
import type { Vault } from "../identity/vault.ts";
import type { Directory } from "../queue/directory.ts";
import type { ExplainedSubscription, Explanation } from "../store/explanation.ts";
import type { Store } from "../store/store.ts";
import { compileFilter, documentOf, type FilterDocument, type Verdict as FilterVerdict } from "./filter/filter.ts";
import { payloadFor } from "./payload.ts";
import { explanationOf, type Facts, type Outcome, outcomeOf, type QueueStanding } from "./verdict.ts";

export type { Explanation } from "../store/explanation.ts";

/** A filter held against a notification: the one of the publication, or the present one where that is forgotten. */
export interface FilterStanding {
  policy: Record<string, unknown>;
  scope: "attributes" | "message";
  result: FilterVerdict;
}

/** A verdict before it is put into the door's words. */
export interface SubscriptionVerdict extends Pick<Facts, "filterAsOf" | "changedSince" | "queue"> {
  explained: ExplainedSubscription;
  outcome: Outcome;
  text: string;
  filter: FilterStanding | null;
  /** Whether the secret of a webhook can be read. */
  keyReadable: boolean;
}

export interface Explainer {
  /** A page of at most `limit` verdicts, by the subscription's number after `after`; `null` when the project has no such notification. */
  explain(
    projectNo: number,
    messageId: string,
    page: { after: number; limit: number; subscriptionId: string | null },
  ): Promise<{ explanation: Explanation; verdicts: SubscriptionVerdict[] } | null>;
}

/** About what the envelope of a notification adds to it in a queue. */
const ENVELOPE_BYTES = 1_024;

/** What the filter says; `null` without one. */
function filterOf({ subscription, member }: ExplainedSubscription, document: FilterDocument): FilterStanding | null {
  const { filterPolicy, filterPolicyScope } = subscription.settings;
  const scope = member?.scope ?? filterPolicyScope;
  let policy = filterPolicy;
  if (member !== null) policy = member.filter === null ? null : (JSON.parse(member.filter) as Record<string, unknown>);
  return policy === null ? null : { policy, scope, result: compileFilter(policy, scope).explain(document) };
}

/** Which filter that is, and whether it was changed. A closed membership is forgotten once no fan-out needs it: what closed it was a change. */
function filterAge(explained: ExplainedSubscription, acceptedAt: number): Pick<Facts, "filterAsOf" | "changedSince"> {
  const { subscription, member, delivery, endedAt } = explained;
  const { filterPolicy, filterPolicyScope } = subscription.settings;
  if (member !== null) {
    const present = filterPolicy === null ? null : JSON.stringify(filterPolicy);
    return { filterAsOf: "publication", changedSince: member.filter !== present || member.scope !== filterPolicyScope };
  }
  const wasMember = subscription.confirmedAt !== null && subscription.confirmedAt <= acceptedAt;
  const changed = wasMember && delivery === null && endedAt === null;
  return { filterAsOf: changed ? "now" : "publication", changedSince: changed };
}

/** Makes the explainer of one store. */
export function createExplainer(deps: {
  store: Store;
  directory: Pick<Directory, "byNo">;
  vault: Pick<Vault, "check" | "open">;
}): Explainer {
  const { store, directory, vault } = deps;

  const opens = (check: () => unknown): boolean => {
    try {
      check();
      return true;
    } catch {
      return false;
    }
  };
  const secretReadable = async ({ subscription: { no, id, protocol } }: ExplainedSubscription): Promise<boolean> => {
    const sealed = protocol === "webhook" ? await store.run("topicSecret", no) : null;
    return sealed === null || opens(() => vault.open(sealed, id));
  };

  /** How a subscribed queue stands towards a notification that needs so many bytes, unless it has it already. */
  const standing = async (
    { subscription, delivery }: ExplainedSubscription,
    bytes: number,
    readable: boolean,
  ): Promise<QueueStanding | null> => {
    const { targetNo, endpoint } = subscription;
    if (targetNo === null) return null;
    const encryption_key = readable ? "readable" : "unreadable";
    const queue = await directory.byNo(targetNo);
    if (queue === null) return { id: endpoint, name: null, state: "deleted", ready: 0, leased: 0, dead: 0, encryption_key };
    const { ready, inflight, dead, bytes: held } = await store.run("stats", targetNo);
    const { paused, maxBytes } = queue.settings;
    const full = maxBytes !== null && held + (delivery?.state === "delivered" ? 1 : bytes) > maxBytes;
    const state = full ? "full" : paused ? "paused" : "available";
    return { id: queue.id, name: queue.name, state, ready, leased: inflight, dead, encryption_key };
  };

  return {
    async explain(projectNo, messageId, page) {
      const explanation = await store.run("explainNotification", projectNo, messageId, page);
      if (explanation === null) return null;
      const { notification, state, subscriptions } = explanation;
      const { attributes } = notification;
      const documents = {
        webhook: documentOf({ attributes, message: payloadFor(notification, "webhook") }),
        queue: documentOf({ attributes, message: payloadFor(notification, "queue") }),
      };
      const sealed = subscriptions.some(({ subscription }) => subscription.protocol === "queue") ? await store.run("sealedUnder") : [];
      const storeReadable = opens(() => vault.check(sealed));
      const bytes = notification.message.length + JSON.stringify(attributes).length + ENVELOPE_BYTES;

      const verdicts: SubscriptionVerdict[] = [];
      for (const explained of subscriptions) {
        const { subscription } = explained;
        const filter = filterOf(explained, documents[subscription.protocol]);
        const facts: Facts = {
          ...explained,
          ...filterAge(explained, state.acceptedAt),
          acceptedAt: state.acceptedAt,
          walked: state.state === "complete" || subscription.no <= notification.walked,
          filter: filter?.result ?? null,
          queue: await standing(explained, bytes, storeReadable),
        };
        const { filterAsOf, changedSince, queue } = facts;
        const keyReadable = await secretReadable(explained);
        verdicts.push({
          explained,
          outcome: outcomeOf(facts),
          text: explanationOf(facts),
          filter,
          filterAsOf,
          changedSince,
          queue,
          keyReadable,
        });
      }
      return { explanation, verdicts };
    },
  };
}
