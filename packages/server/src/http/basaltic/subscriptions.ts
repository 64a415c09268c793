/** Handlers of topic subscriptions and their secrets: look up and authorize, then the subscription's verbs. */
import type { Directory } from "../../queue/directory.ts";
import { subscriptionChange } from "../../topic/rules.ts";
import type { Subscribed, TopicSubscriptions } from "../../topic/topic-subscription.ts";
import { type WireTopicSubscription, wireTopicSubscription } from "../../topic/wire.ts";
import type { Call, Handlers } from "../handler.ts";
import { type Account, type Accounts, keyWithin } from "./account.ts";
import { PAGE, pageMeta, readMarker } from "./marker.ts";

type Names =
  | "CreateTopicSubscription"
  | "ListTopicSubscriptions"
  | "GetTopicSubscription"
  | "UpdateTopicSubscription"
  | "DeleteTopicSubscription"
  | "RequestConfirmation"
  | "GetTopicSubscriptionSecret"
  | "RotateTopicSubscriptionSecret";

/** The handlers of topic subscriptions. */
export function topicSubscriptionHandlers(deps: {
  accounts: Accounts;
  subscriptions: TopicSubscriptions;
  directory: Pick<Directory, "byNo">;
}): Pick<Handlers, Names> {
  const { accounts, subscriptions, directory } = deps;
  const wire = async ({ topic, subscription }: Subscribed, { place }: Account): Promise<WireTopicSubscription> => {
    const { deadLetterNo } = subscription.settings;
    const deadLetter = deadLetterNo === null ? null : await directory.byNo(deadLetterNo);
    return wireTopicSubscription(subscription, topic.name, place, deadLetter?.id ?? null);
  };
  const show = async (subscribed: Subscribed, account: Account) => ({ subscription: await wire(subscribed, account) });
  /** The number of the queue that a redrive policy names, which the key must be allowed to send to. */
  const deadLetterNo = async (
    call: Call,
    account: Account,
    policy: { dead_letter_queue: string } | null | undefined,
  ): Promise<number | null> => (policy == null ? null : (await accounts.target(call, account, policy.dead_letter_queue)).no);

  return {
    async CreateTopicSubscription(call, { params, body }) {
      const found = await accounts.topic(call, params.topic, "notifications.subscriptions.create");
      const { protocol, endpoint } = body;
      const change = subscriptionChange(body, await deadLetterNo(call, found, body.redrive_policy));
      const made = await subscriptions.create(
        found.topic,
        protocol === "webhook" ? { protocol, url: endpoint } : { protocol, queue: await accounts.target(call, found, endpoint) },
        change,
        keyWithin(call, found),
      );
      return show(made, found);
    },
    async ListTopicSubscriptions(call, { params, query: { limit = PAGE, marker } }) {
      const { topic, ...account } = await accounts.topic(call, params.topic, "notifications.subscriptions.list");
      const list = `subscriptions of ${topic.no}`;
      const after = Number(readMarker(list, marker) ?? 0);
      const rows = await subscriptions.list(topic, after, limit + 1);
      const page = rows.slice(0, limit);
      const last = rows.length > limit ? (page.at(-1)?.no ?? null) : null;
      return {
        subscriptions: await Promise.all(page.map((subscription) => wire({ topic, subscription }, account))),
        meta: pageMeta(list, { total: topic.subscriptions, limit, last }),
      };
    },
    async GetTopicSubscription(call, { params }) {
      const found = await accounts.subscription(call, params.subscriptionId, "notifications.subscriptions.get");
      return show(found, found);
    },
    async UpdateTopicSubscription(call, { params, body }) {
      const found = await accounts.subscription(call, params.subscriptionId, "notifications.subscriptions.update");
      const change = subscriptionChange(body, await deadLetterNo(call, found, body.redrive_policy));
      return show(await subscriptions.update(found.subscription, change), found);
    },
    async DeleteTopicSubscription(call, { params }) {
      const { subscription } = await accounts.subscription(call, params.subscriptionId, "notifications.subscriptions.delete");
      await subscriptions.delete(subscription);
      return undefined;
    },
    async RequestConfirmation(call, { params }) {
      const found = await accounts.subscription(call, params.subscriptionId, "notifications.subscriptions.create");
      return show(await subscriptions.requestConfirmation(found.subscription), found);
    },
    async GetTopicSubscriptionSecret(call, { params }) {
      const { subscription } = await accounts.subscription(call, params.subscriptionId, "notifications.secrets.read");
      return { signing_secret: { subscription_id: subscription.id, secret: await subscriptions.secret(subscription) } };
    },
    async RotateTopicSubscriptionSecret(call, { params }) {
      const { subscription } = await accounts.subscription(call, params.subscriptionId, "notifications.secrets.rotate");
      return { signing_secret: { subscription_id: subscription.id, secret: await subscriptions.rotateSecret(subscription) } };
    },
  };
}
