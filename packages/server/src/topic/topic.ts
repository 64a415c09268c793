/**
 * What can be done with topics themselves (T2, T14): make, find, list, change, delete. A deleted topic takes nothing more from the
 * answer on; its subscriptions end in a chore that `onDelete` should wake. `onChange` hears of what was changed or deleted, by number.
 */
import { LRUCache } from "lru-cache";
import { uuidv7 } from "uuidv7";
import type { Store } from "../store/store.ts";
import type { TopicRow, TopicSettings } from "../store/topic-rows.ts";
import type { IdempotencyKey } from "../store/types.ts";

export type { TopicRow } from "../store/topic-rows.ts";

export interface Topics {
  /** Throws `topic_exists`. */
  create(given: Pick<TopicRow, "projectNo" | "name" | "fifo" | "settings">, key: IdempotencyKey | null): Promise<TopicRow>;
  /** By id or name; `null` when there is none. */
  find(projectNo: number, reference: string): Promise<TopicRow | null>;
  /** As `find`, from memory where it can: who it names is certain, that it has not ended is for the store to say. */
  known(projectNo: number, reference: string): Promise<TopicRow | null>;
  /** Forgets a topic that has ended; answers whether it was remembered. */
  forget(no: number): boolean;
  /** All topics of a project by name that `shows` lets through: at most the first 10,000 are looked at. */
  all(projectNo: number, shows: (topic: TopicRow) => boolean): Promise<TopicRow[]>;
  update(topic: TopicRow, change: Partial<TopicSettings>): Promise<TopicRow>;
  /** Throws `topic_not_found` when somebody else was first. */
  delete(topic: TopicRow): Promise<void>;
}

/** How many topics are read at once, and looked at in all, for a list. */
const STRIDE = 500;
const MOST = 10_000;
/** How many look-ups are remembered. */
const KNOWN = 10_000;

/** Makes the verbs. */
export function createTopics(deps: { store: Store; onChange: (topicNo: number) => void | Promise<void>; onDelete: () => void }): Topics {
  const { store, onChange, onDelete } = deps;
  const memory = new LRUCache<string, TopicRow>({ max: KNOWN });
  const find: Topics["find"] = (projectNo, reference) => store.run("findTopic", projectNo, reference);
  const forget: Topics["forget"] = (no) => {
    let was = false;
    for (const [key, topic] of memory.entries()) if (topic.no === no) was = memory.delete(key) || was;
    return was;
  };
  return {
    create: async (given, key) => (await store.once(key, "createTopic", { ...given, id: uuidv7() })).result,
    find,
    forget,
    async known(projectNo, reference) {
      const key = `${projectNo}/${reference}`;
      const topic = memory.get(key) ?? (await find(projectNo, reference));
      if (topic !== null) memory.set(key, topic);
      return topic;
    },
    async all(projectNo, shows) {
      const found: TopicRow[] = [];
      for (let after = "", looked = 0; looked < MOST; looked += STRIDE) {
        const page = await store.run("listTopics", projectNo, after, STRIDE);
        found.push(...page.filter(shows));
        const last = page.at(-1);
        if (page.length < STRIDE || last === undefined) break;
        after = last.name;
      }
      return found;
    },
    async update(topic, change) {
      const changed = await store.run("updateTopic", topic.no, change);
      await onChange(topic.no);
      return changed;
    },
    async delete(topic) {
      await store.run("deleteTopic", topic.no);
      forget(topic.no);
      await onChange(topic.no);
      onDelete();
    },
  };
}
