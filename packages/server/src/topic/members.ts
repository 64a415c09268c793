/**
 * Who receives what a topic publishes, ready to be asked: an index for each topic that is published on, read once and brought forward by
 * what changes, so that a publication costs its matches and not the topic's members (T15). What is kept is bounded, and read again when
 * it is needed.
 */
import { setImmediate } from "node:timers/promises";
import type { MemberRow } from "../store/fan-out.ts";
import type { Store } from "../store/store.ts";
import { createMemberIndex, type MemberIndex, type Published } from "./member-index.ts";

/** Memberships that are kept, over all topics, and read at once. */
const MOST_KEPT = 200_000;
const PAGE = 2_000;
/** More changes than this between two versions and everything is read again. */
const MOST_CHANGES = 2_000;
/** Evaluations, and bytes of messages that they look through, after which others get their turn. */
const EVALUATIONS = 1_000;
const EVALUATED_BYTES = 1024 * 1024;

/** What a notification is for: the topic at a version, which has `members` then. */
interface Addressed extends Published {
  topicNo: number;
  version: number;
  members: number;
}

export interface Members {
  /** Whom a notification reaches, by number. */
  reached(notification: Addressed): Promise<MemberRow[]>;
}

/** Makes the memory of one server. */
export function createMembers(store: Store): Members {
  const kept = new Map<number, MemberIndex>();
  /** What each was counted with, and all of them. */
  const counted = new Map<number, number>();
  let total = 0;
  const turns = new Map<number, Promise<unknown>>();

  const readAll = async ({ topicNo, version }: Addressed): Promise<MemberIndex> => {
    const index = createMemberIndex(version);
    for (let after = 0; ; ) {
      const page = await store.run("readMembers", topicNo, version, after, PAGE);
      index.add(page);
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return index;
      after = last.subscriptionNo;
    }
  };
  /** What is kept, brought forward where it has to be; `null` where it cannot tell of this version. */
  const fromMemory = async ({ topicNo, version, members }: Addressed): Promise<MemberIndex | null> => {
    const index = kept.get(topicNo);
    if (index === undefined || version < index.floor) return null;
    if (version <= index.version) return index;
    const changes = await store.run("changedMembers", topicNo, index.version, version, MOST_CHANGES);
    if (changes === null) return null;
    index.advance(version, changes);
    // Who left may have been swept away since: then there are too many.
    return index.countAt(version) === members ? index : null;
  };
  const forget = (topicNo: number): void => {
    total -= counted.get(topicNo) ?? 0;
    counted.delete(topicNo);
    kept.delete(topicNo);
  };
  /** Keeps an index as the one used last; those not used for longest make room. */
  const keep = (topicNo: number, index: MemberIndex): void => {
    forget(topicNo);
    kept.set(topicNo, index);
    counted.set(topicNo, index.size + 1);
    total += index.size + 1;
    for (const no of kept.keys()) {
      if (total <= MOST_KEPT || no === topicNo) break;
      forget(no);
    }
  };
  const evaluate = async (index: MemberIndex, notification: Addressed): Promise<MemberRow[]> => {
    const reached: MemberRow[] = [];
    const atOnce = Math.max(1, Math.min(EVALUATIONS, Math.floor(EVALUATED_BYTES / (notification.message.length + 1))));
    let evaluated = 0;
    for (const member of index.walk(notification, notification.version)) {
      if (member !== null) reached.push(member);
      evaluated += 1;
      if (evaluated % atOnce === 0) await setImmediate();
    }
    return reached.sort((a, b) => a.subscriptionNo - b.subscriptionNo);
  };
  const find = async (notification: Addressed): Promise<MemberRow[]> => {
    const { topicNo, version } = notification;
    const known = await fromMemory(notification);
    const index = known ?? (await readAll(notification));
    // what had to be read for an older version is for this notification alone
    if (version >= (kept.get(topicNo)?.version ?? 0) || known !== null) keep(topicNo, index);
    return evaluate(index, notification);
  };

  return {
    async reached(notification) {
      const { topicNo } = notification;
      // One after the other per topic: who waits finds what the one before has read.
      const turn = (turns.get(topicNo) ?? Promise.resolve()).catch(() => {}).then(() => find(notification));
      turns.set(topicNo, turn);
      try {
        return await turn;
      } finally {
        if (turns.get(topicNo) === turn) turns.delete(topicNo);
      }
    },
  };
}
