/** The topic noun put together over one store: what doors call, what deliveries follow, what housekeeping runs. */
import type { EgressPolicy } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import type { Chore } from "../queue/housekeeping.ts";
import type { Store } from "../store/store.ts";
import { ENDED_TOPICS, topicChores } from "./chores.ts";
import { createTopicTokens, type TopicTokens } from "./tokens.ts";
import { createTopics, type Topics } from "./topic.ts";
import { createTopicSubscriptions, type TopicSubscriptions } from "./topic-subscription.ts";

/** Hears of a subscription that this process made, changed or ended, once that is committed; `queueNo` is its internal queue. */
export type SubscriptionListener = (subscription: { no: number; queueNo: number }) => void | Promise<void>;

export interface TopicRoom {
  topics: Topics;
  topicSubscriptions: TopicSubscriptions;
  tokens: TopicTokens;
  /** For `createHousekeeping`. */
  chores: readonly Chore[];
  /** Called with the name of a chore that has something to do now. */
  onWork(listener: (chore: string) => void): void;
  /** A change is answered once the listener is done with it. */
  onChange(listener: SubscriptionListener): void;
  /** The same for topics, by number: settings changed, or the topic ended. */
  onTopicChange(listener: (topicNo: number) => void | Promise<void>): void;
}

/** Puts the noun together. `publicUrl` is where others reach this server. */
export function createTopicRoom(deps: { store: Store; vault: Vault; policy: EgressPolicy; publicUrl: () => string }): TopicRoom {
  const { store, vault, policy } = deps;
  let work: (chore: string) => void = () => undefined;
  let changed: SubscriptionListener = () => undefined;
  let topicChanged: (topicNo: number) => void | Promise<void> = () => undefined;
  const tokens = createTopicTokens({ vault, publicUrl: deps.publicUrl });
  const removed = (): void => work("removals");
  const tell: SubscriptionListener = (subscription) => changed(subscription);
  return {
    tokens,
    topics: createTopics({ store, onChange: (topicNo) => topicChanged(topicNo), onDelete: () => work(ENDED_TOPICS) }),
    topicSubscriptions: createTopicSubscriptions({ store, vault, tokens, policy, changed: tell, onDelete: removed }),
    chores: topicChores(store, { ended: tell, removed }),
    onWork(listener) {
      work = listener;
    },
    onChange(listener) {
      changed = listener;
    },
    onTopicChange(listener) {
      topicChanged = listener;
    },
  };
}
