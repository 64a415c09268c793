/**
 * From what a call of the Basaltic door names to rows (T1, A6): the account is a project, in `X-Account-Id` by id or name unless the key
 * belongs to one, or there is but one. A permission is checked on the topic's resource; what is outside the key's reach is not there.
 */
import { Fault, invalid } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { ProjectRow } from "../../identity/caller.ts";
import { PRODUCTION } from "../../queue/directory.ts";
import type { IdempotencyKey, QueueRow } from "../../store/types.ts";
import { type CrnPlace, queueReference, subscriptionReference, topicReference } from "../../topic/crn.ts";
import type { TopicRow, Topics } from "../../topic/topic.ts";
import type { Subscribed, TopicSubscriptions } from "../../topic/topic-subscription.ts";
import type { Call } from "../handler.ts";

/** An account that the caller reached, and what its CRNs are made of. */
export interface Account {
  project: ProjectRow;
  place: CrnPlace;
}

/** A topic that the caller reached. */
export type OnTopic = Account & { topic: TopicRow };

/** Where calls of this door go to. Each throws the 404 of what it looks for, or a 403 that names the missing permission. */
export interface Accounts {
  of(call: Call): Promise<Account>;
  topic(call: Call, reference: string, permission: string): Promise<OnTopic>;
  /** As `topic`, from memory where it can, and then `act`: once more when that finds the remembered topic ended (`topic_not_found`). */
  onTopic<Result>(call: Call, reference: string, permission: string, act: (on: OnTopic) => Promise<Result>): Promise<Result>;
  /** The permission is checked on the subscription's topic. */
  subscription(call: Call, reference: string, permission: string): Promise<Account & Subscribed>;
  /** A queue that notifications may be sent to: needs `queues.messages.send` on it (T9, T13). */
  target(call: Call, account: Account, reference: string): Promise<QueueRow>;
}

const HEADER = "X-Account-Id";
const MOST = 200;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** The resource that a topic is, in statements of keys. */
export const topicResource = (project: ProjectRow, name: string): string => `${project.organization.name}/${project.name}/topics/${name}`;

/** A key's idempotency within its account: the same key means nothing in another one. */
export const keyWithin = ({ idempotency }: Call, { project }: Account): IdempotencyKey | null =>
  idempotency === null ? null : { ...idempotency, scope: `${idempotency.scope} in ${project.no}` };

/** The refusal of a topic that is not there, or not for this key. */
export const topicMissing = (): Fault => new Fault("topic_not_found", "there is no such topic, or the key does not reach it");
const subscriptionMissing = (): Fault =>
  new Fault("subscription_not_found", "there is no such topic subscription, or the key does not reach it");

/** Makes the look-ups. `region` stands in every CRN. */
export function createAccounts(deps: {
  access: Access;
  topics: Pick<Topics, "find" | "known" | "forget">;
  subscriptions: Pick<TopicSubscriptions, "find">;
  region: string;
}): Accounts {
  const { access, topics, subscriptions, region } = deps;

  const of = async (call: Call): Promise<Account> => {
    const account = call.account ?? null;
    if (account !== null && (account === "" || account.length > MOST))
      throw invalid(HEADER, `must have 1 to ${MOST} characters`, account.length);
    try {
      const project = await access.application(call.caller, account, null);
      return { project, place: { region, account: project } };
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "invalid_request") throw error;
      throw account === null
        ? invalid(HEADER, "is required with a key of the whole installation where there are several projects: an id or a name")
        : invalid(HEADER, "must be an id where several projects have this name", account);
    }
  };

  const reach = async (call: Call, reference: string, permission: string, find: Topics["find"]): Promise<OnTopic> => {
    const account = await of(call);
    const meant = topicReference(reference, account.place);
    if (meant === null) throw topicMissing();
    // A name can be judged before it is looked for.
    if (!UUID.test(meant)) access.demand(call.caller, null, topicResource(account.project, meant), topicMissing);
    const topic = await find(account.project.no, meant);
    if (topic === null) throw topicMissing();
    access.demand(call.caller, permission, topicResource(account.project, topic.name), topicMissing);
    return { ...account, topic };
  };

  return {
    of,
    topic: (call, reference, permission) => reach(call, reference, permission, topics.find),
    async onTopic(call, reference, permission, act) {
      // What is answered under an Idempotency-Key stays the answer, so that it must not come from memory.
      const on = await reach(call, reference, permission, call.idempotency === null ? topics.known : topics.find);
      try {
        return await act(on);
      } catch (error) {
        const ended = error instanceof Fault && error.code === "topic_not_found";
        if (!ended || !topics.forget(on.topic.no)) throw error;
        return act(await reach(call, reference, permission, topics.find));
      }
    },
    async subscription(call, reference, permission) {
      const account = await of(call);
      const id = subscriptionReference(reference, account.place);
      const found = id === null ? null : await subscriptions.find(account.project.no, id);
      if (found === null) throw subscriptionMissing();
      access.demand(call.caller, permission, topicResource(account.project, found.topic.name), subscriptionMissing);
      return { ...account, ...found };
    },
    async target({ caller }, { project, place }, reference) {
      const meant = queueReference(reference, place);
      const queue = meant === null ? null : await access.queueIn(caller, project, PRODUCTION, meant, "queues.messages.send");
      if (queue === null) throw new Fault("queue_not_found", "there is no such queue, or the key does not reach it");
      return queue;
    },
  };
}
