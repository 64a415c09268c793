/**
 * What can be done with topic subscriptions (T5 to T8, T14, T15): subscribe, confirm, change, end, read and rotate the secret. A change
 * is committed first and then told to `changed`, before it is answered, so that deliveries follow it.
 */
import { randomBytes, randomInt } from "node:crypto";
import { Fault, invalid } from "@millrace/contract";
import { generateSecret } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import { checkTarget } from "../delivery/target.ts";
import type { EgressPolicy } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import { resourceName } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import type { TopicRow, TopicSubscriptionRow } from "../store/topic-rows.ts";
import type { Subscribed } from "../store/topic-subscription.ts";
import type { IdempotencyKey, QueueRow } from "../store/types.ts";
import { compileFilter } from "./filter/filter.ts";
import { INTERNAL_ENVIRONMENT, internalQueue } from "./internal-queue.ts";
import { type SubscriptionChange, subscriptionDefaults } from "./rules.ts";
import type { TopicTokens } from "./tokens.ts";

export type { TopicSubscriptionRow } from "../store/topic-rows.ts";
export type { Subscribed } from "../store/topic-subscription.ts";

/** What to subscribe: a URL as it was given, or a queue. */
export type Endpoint = { protocol: "webhook"; url: string } | { protocol: "queue"; queue: QueueRow };

export interface TopicSubscriptions {
  /** Throws `invalid_target`, `invalid_request` (the filter), `subscription_exists`, `limit_reached`, `topic_not_found`. */
  create(topic: TopicRow, endpoint: Endpoint, given: SubscriptionChange, key: IdempotencyKey | null): Promise<Subscribed>;
  /** `null` when there is none in the project, or its topic has ended. */
  find(projectNo: number, id: string): Promise<Subscribed | null>;
  /** Up to `limit` of a topic in order of creation, after the one numbered `after`. */
  list(topic: TopicRow, after: number, limit: number): Promise<TopicSubscriptionRow[]>;
  update(row: TopicSubscriptionRow, given: SubscriptionChange): Promise<Subscribed>;
  delete(row: TopicSubscriptionRow): Promise<void>;
  /** Sends the handshake again, at most once a minute, while the subscription is pending. */
  requestConfirmation(row: TopicSubscriptionRow): Promise<Subscribed>;
  /** By the token of a link; `first` the first time. Throws `invalid_token`. */
  confirm(token: string): Promise<Subscribed & { first: boolean }>;
  /** By the token of a link: answers the subscription that ended now, `null` when it had before. Throws `invalid_token`. */
  unsubscribe(token: string): Promise<TopicSubscriptionRow | null>;
  /** Throws `invalid_token` unless the token is one that `unsubscribe` reads. */
  checkUnsubscribe(token: string): void;
  /** A webhook's secret. Throws `invalid_request` on a queue's subscription, which has none. */
  secret(row: TopicSubscriptionRow): Promise<string>;
  rotateSecret(row: TopicSubscriptionRow): Promise<string>;
}

export interface TopicSubscriptionDeps {
  store: Store;
  vault: Vault;
  tokens: TopicTokens;
  /** The endpoint rules that URLs are checked by (P18). */
  policy: EgressPolicy;
  /** Told of every subscription made, changed or ended by this process, once that is committed. */
  changed: (subscription: { no: number; queueNo: number }) => void | Promise<void>;
  /** Called when an internal queue was deleted, so that housekeeping removes what is left in it. */
  onDelete: () => void;
  /** How many subscriptions a topic may have; 100,000 unless given (T15). */
  most?: number;
}

const notOurs = (): Fault => new Fault("invalid_token", "token: must be that of a link that this server sent");

/** Makes the verbs. */
export function createTopicSubscriptions(deps: TopicSubscriptionDeps): TopicSubscriptions {
  const { store, vault, tokens, policy, changed, onDelete, most = 100_000 } = deps;
  const newSecret = (id: string): { secret: string; sealed: string } => {
    const secret = generateSecret((bytes) => new Uint8Array(randomBytes(bytes)));
    return { secret, sealed: vault.seal(secret, id) };
  };
  const told = async <Of extends Subscribed>(subscribed: Of): Promise<Of> => {
    await changed(subscribed.subscription);
    return subscribed;
  };
  const checkFilter = ({ filterPolicy, filterPolicyScope }: Pick<SubscriptionChange, "filterPolicy" | "filterPolicyScope">): void => {
    if (filterPolicy != null) compileFilter(filterPolicy, filterPolicyScope ?? "attributes");
  };
  const ended = async (row: TopicSubscriptionRow): Promise<void> => {
    onDelete();
    await changed(row);
  };
  const demandWebhook = ({ protocol }: TopicSubscriptionRow): void => {
    if (protocol !== "webhook") throw invalid("subscription_id", "must be that of a webhook: what goes to a queue is not signed", protocol);
  };

  return {
    async create(topic, endpoint, given, key) {
      if (endpoint.protocol === "webhook") checkTarget(endpoint.url, policy, "endpoint");
      const settings = { ...subscriptionDefaults, ...given };
      checkFilter(settings);
      const id = uuidv7();
      const { result } = await store.once(key, "createTopicSubscription", {
        id,
        topicNo: topic.no,
        ...(endpoint.protocol === "webhook"
          ? { protocol: "webhook", endpoint: endpoint.url, targetNo: null, secret: newSecret(id).sealed }
          : { protocol: "queue", endpoint: endpoint.queue.id, targetNo: endpoint.queue.no, secret: null }),
        settings,
        most,
        queue: { id: uuidv7(), resourceName: resourceName(randomInt), environment: INTERNAL_ENVIRONMENT, settings: internalQueue },
      });
      return told(result);
    },
    find: (projectNo, id) => store.run("findTopicSubscription", projectNo, id.toLowerCase()),
    list: (topic, after, limit) => store.run("listTopicSubscriptions", topic.no, after, limit),
    async update(row, given) {
      const { filterPolicy, filterPolicyScope } = { ...row.settings, ...given };
      checkFilter({ filterPolicy, filterPolicyScope });
      // What was checked together is stored together: somebody else may change the other half meanwhile.
      const filters = given.filterPolicy !== undefined || given.filterPolicyScope !== undefined;
      return told(
        await store.run("updateTopicSubscription", row.no, { ...given, ...(filters ? { filterPolicy, filterPolicyScope } : {}) }),
      );
    },
    async delete(row) {
      await store.run("deleteTopicSubscription", row.no);
      await ended(row);
    },
    requestConfirmation: async (row) => told(await store.run("requestConfirmation", row.no)),
    async confirm(token) {
      const said = tokens.readConfirmation(token);
      if (said === null) throw notOurs();
      return told(await store.run("confirmTopicSubscription", said.subscriptionId, said.until));
    },
    async unsubscribe(token) {
      const said = tokens.readUnsubscribe(token);
      if (said === null) throw notOurs();
      const row = await store.run("unsubscribe", said.subscriptionId);
      if (row !== null) await ended(row);
      return row;
    },
    checkUnsubscribe(token) {
      if (tokens.readUnsubscribe(token) === null) throw notOurs();
    },
    async secret(row) {
      demandWebhook(row);
      const sealed = await store.run("topicSecret", row.no);
      if (sealed === null) throw new Fault("subscription_not_found", "there is no such topic subscription");
      return vault.open(sealed, row.id);
    },
    async rotateSecret(row) {
      demandWebhook(row);
      const { secret, sealed } = newSecret(row.id);
      await store.run("rotateTopicSecret", row.no, sealed);
      await changed(row);
      return secret;
    },
  };
}
