/**
 * The six questions about a notification that did not arrive (T16), answered for each subscription of its topic: accepted, confirmed,
 * filtered by which key, recorded with attempts and error, the webhook's status, the queue's availability. Reads, and changes nothing.
 */
import type { Vault } from "../identity/vault.ts";
import type { Directory } from "../queue/directory.ts";
import type { ExplainedSubscription, Explanation } from "../store/explanation.ts";
import type { Store } from "../store/store.ts";
import { compileFilter, documentOf } from "./filter/filter.ts";
import { payloadFor } from "./payload.ts";
import { explanationOf, type Facts, outcomeOf, type QueueStanding } from "./verdict.ts";

export type { Explanation } from "../store/explanation.ts";

/** A verdict before it is put into the door's words. */
export interface SubscriptionVerdict {
  explained: ExplainedSubscription;
  outcome: ReturnType<typeof outcomeOf>;
  text: string;
  filter: {
    policy: Record<string, unknown>;
    scope: "attributes" | "message";
    facts: NonNullable<Facts["filter"]>;
    filterAsOf: Facts["filterAsOf"];
    changedSince: boolean;
  } | null;
  queue: QueueStanding | null;
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

  /** How a subscribed queue stands towards a message of `bytes`. */
  const standing = async ({ subscription }: ExplainedSubscription, bytes: number, readable: boolean): Promise<QueueStanding | null> => {
    const { targetNo, endpoint } = subscription;
    if (targetNo === null) return null;
    const encryption_key = readable ? "readable" : "unreadable";
    const queue = await directory.byNo(targetNo);
    if (queue === null) return { id: endpoint, name: null, state: "deleted", ready: 0, leased: 0, dead: 0, encryption_key };
    const { ready, inflight, dead, bytes: held } = await store.run("stats", targetNo);
    const { paused, maxBytes } = queue.settings;
    const full = maxBytes !== null && held + bytes > maxBytes;
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

      const verdicts: SubscriptionVerdict[] = [];
      for (const explained of subscriptions) {
        const { subscription, member, endedAt } = explained;
        const { settings } = subscription;
        const policy =
          member === null ? settings.filterPolicy : member.filter === null ? null : (JSON.parse(member.filter) as Record<string, unknown>);
        const scope = member?.scope ?? settings.filterPolicyScope;
        const facts = policy === null ? null : compileFilter(policy, scope).explain(documents[subscription.protocol]);
        const current = settings.filterPolicy === null ? null : JSON.stringify(settings.filterPolicy);
        // a closed membership is forgotten once no fan-out needs it: what closed it was a change of the filter
        const forgotten = member === null && subscription.confirmedAt !== null && subscription.confirmedAt <= state.acceptedAt;
        const filterAsOf = forgotten && explained.delivery === null && endedAt === null ? "now" : "publication";
        const changedSince =
          member === null ? filterAsOf === "now" : member.filter !== current || member.scope !== settings.filterPolicyScope;
        const keyReadable = await secretReadable(explained);
        const queue = await standing(explained, notification.message.length, storeReadable);
        const given: Facts = {
          ...explained,
          acceptedAt: state.acceptedAt,
          walked: state.state === "complete" || subscription.no <= notification.walked,
          filter: facts,
          filterAsOf,
          changedSince,
          queue,
        };
        verdicts.push({
          explained,
          outcome: outcomeOf(given),
          text: explanationOf(given),
          filter: policy === null || facts === null ? null : { policy, scope, facts, filterAsOf, changedSince },
          queue,
          keyReadable,
        });
      }
      return { explanation, verdicts };
    },
  };
}
