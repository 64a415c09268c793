/**
 * Who receives what a topic publishes, by version, ready to be asked: filters compiled and indexed, so that a publication costs its
 * matches (T15). A version's members never change, so what is kept here is true for ever; it is bounded, and read again when needed.
 */
import type { MemberRow } from "../store/fan-out.ts";
import type { Store } from "../store/store.ts";
import { documentOf } from "./filter/document.ts";
import { compileFilter, type Filter } from "./filter/filter.ts";
import { createMatcher, type Matcher } from "./filter/matcher.ts";
import { payloadFor } from "./payload.ts";

/** Members that are kept, over all topics, and read at once. */
const MOST_KEPT = 200_000;
const PAGE = 2_000;
/** More changes than this between two versions and everything is read again. */
const MOST_CHANGES = 2_000;

/** What a notification says to filters. */
type Published = Parameters<typeof payloadFor>[0] & Pick<Parameters<typeof documentOf>[0], "attributes">;

/** The members of one topic at one version. */
export interface MemberSet {
  /** Whom a notification reaches, by number. */
  match(notification: Published): MemberRow[];
}

export interface Members {
  /** The members at a version, of which there are `count`. */
  at(topicNo: number, version: number, count: number): Promise<MemberSet>;
}

interface Entry {
  row: MemberRow;
  filter: Filter | null;
}
interface Kept {
  version: number;
  entries: Map<number, Entry>;
  set: MemberSet;
}

const entryOf = (row: MemberRow): Entry => ({
  row,
  filter: row.filter === null ? null : compileFilter(JSON.parse(row.filter), row.scope),
});

function setOf(entries: ReadonlyMap<number, Entry>): MemberSet {
  const sorted = [...entries.values()].sort((a, b) => a.row.subscriptionNo - b.row.subscriptionNo);
  // Each protocol has a payload of its own, which its filters look into.
  const matcherOf = (protocol: MemberRow["protocol"]): Matcher<MemberRow> | null => {
    const members = sorted.filter(({ row }) => row.protocol === protocol).map(({ row, filter }) => ({ member: row, filter }));
    return members.length === 0 ? null : createMatcher(members);
  };
  const matchers = { webhook: matcherOf("webhook"), queue: matcherOf("queue") };
  return {
    match(notification) {
      const reached = (["webhook", "queue"] as const).flatMap((protocol) => {
        const { attributes } = notification;
        return matchers[protocol]?.match(documentOf({ attributes, message: payloadFor(notification, protocol) })) ?? [];
      });
      return reached.sort((a, b) => a.subscriptionNo - b.subscriptionNo);
    },
  };
}

/** Makes the memory of one server. */
export function createMembers(store: Store): Members {
  const kept = new Map<number, Kept>();
  const loading = new Map<number, Promise<unknown>>();

  const readAll = async (topicNo: number, version: number): Promise<Map<number, Entry>> => {
    const entries = new Map<number, Entry>();
    for (let after = 0; ; ) {
      const page = await store.run("readMembers", topicNo, version, after, PAGE);
      for (const row of page) entries.set(row.subscriptionNo, entryOf(row));
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return entries;
      after = last.subscriptionNo;
    }
  };
  /** What is kept of an earlier version, brought forward; `null` where that is not possible. */
  const bringForward = async (topicNo: number, version: number, count: number): Promise<Map<number, Entry> | null> => {
    const known = kept.get(topicNo);
    if (known === undefined || known.version > version) return null;
    const changes = await store.run("changedMembers", topicNo, known.version, version, MOST_CHANGES);
    if (changes === null) return null;
    const entries = new Map(known.entries);
    for (const no of changes.went) entries.delete(no);
    for (const row of changes.came) entries.set(row.subscriptionNo, entryOf(row));
    // Who left may have been swept away since: then there are too many.
    return entries.size === count ? entries : null;
  };
  const keep = (topicNo: number, next: Kept): void => {
    const known = kept.get(topicNo);
    if (known !== undefined && known.version > next.version) return;
    kept.delete(topicNo);
    kept.set(topicNo, next);
    let total = 0;
    for (const { entries } of kept.values()) total += entries.size + 1;
    for (const [no, { entries }] of kept) {
      if (total <= MOST_KEPT || no === topicNo) break;
      kept.delete(no);
      total -= entries.size + 1;
    }
  };
  const load = async (topicNo: number, version: number, count: number): Promise<MemberSet> => {
    const known = kept.get(topicNo);
    if (known?.version === version) return known.set;
    const entries = (await bringForward(topicNo, version, count)) ?? (await readAll(topicNo, version));
    const set = setOf(entries);
    keep(topicNo, { version, entries, set });
    return set;
  };

  return {
    async at(topicNo, version, count) {
      const known = kept.get(topicNo);
      if (known?.version === version) return known.set;
      // One after the other per topic: who waits finds what the one before has read.
      const turn = (loading.get(topicNo) ?? Promise.resolve()).catch(() => {}).then(() => load(topicNo, version, count));
      loading.set(topicNo, turn);
      try {
        return await turn;
      } finally {
        if (loading.get(topicNo) === turn) loading.delete(topicNo);
      }
    },
  };
}
