/**
 * The fan-out: brings accepted notifications to their matches (T3). A notification that this process accepted is taken from memory; what
 * a crash or another node left is read back by `recover`. Nothing here is a promise: the cursor in the store says what is done, and a
 * stretch that somebody else did first is lost without harm.
 */
import type { Clock } from "../clock.ts";
import type { Match, MemberRow, Stretch, StretchResult } from "../store/fan-out.ts";
import type { Notification } from "../store/notification.ts";
import type { Store } from "../store/store.ts";
import { partsFor, subscribedContent, type TopicNames } from "./content.ts";
import { topicCrn } from "./crn.ts";
import { createGather } from "./gather.ts";
import { createMembers } from "./members.ts";
import type { TopicTokens } from "./tokens.ts";

/** Notifications in hand at once, and their bytes; more is left in the store and read when there is room. */
const MOST_IN_HAND = 256;
const BYTES_IN_HAND = 32 * 1024 * 1024;
/** Matches of one stretch, and bytes that it may carry to queues. */
const STRETCH_MATCHES = 500;
const STRETCH_BYTES = 4 * 1024 * 1024;
const PAGE = 100;
/** How long a FIFO topic's notification waits for one that is in other hands before it looks again, and how often. */
const WAIT_MS = 50;
const MOST_WAITS = 100;

/** Hears what stretches came to, for figures. `filtered` is of the whole notification, with its last stretch. */
export interface FanOutListener {
  moved(topic: TopicNames, counts: { matched: number; filtered: number; delivered: number }): void;
}

export interface FanOut {
  /** Takes a notification that was just accepted. */
  add(notification: Notification): void;
  /** Looks for what was accepted `olderThanMs` ago or before and is not complete; answers whether there was any. */
  recover(olderThanMs: number): Promise<boolean>;
  /** Resolves once nothing is in hand. */
  rest(): Promise<void>;
  /** Takes nothing more; resolves once what was under way has ended. */
  stop(): Promise<void>;
}

export interface FanOutDeps {
  store: Store;
  tokens: Pick<TopicTokens, "unsubscribeUrl">;
  region: string;
  listener: FanOutListener;
  report: (error: unknown) => void;
  clock: Pick<Clock, "after">;
}

/** Topics whose names are remembered. */
const MOST_TOPICS = 10_000;

interface InHand {
  notification: Notification;
  bytes: number;
}

/** Makes the fan-out of one server. */
export function createFanOut(deps: FanOutDeps): FanOut {
  const { store, tokens, region, listener, clock } = deps;
  const members = createMembers(store);
  const topics = new Map<number, TopicNames>();
  const inHand = new Map<number, InHand>();
  /** FIFO topics that are being walked, with what waits for its turn, by number. */
  const lines = new Map<number, Notification[]>();
  const resting = new Set<() => void>();
  let bytes = 0;
  let left = false;
  let recovering: Promise<boolean> | undefined;
  let stopped = false;

  const write = createGather<Stretch, StretchResult>({
    run: (stretches) => store.run("fanOut", stretches),
    rows: 200,
    bytes: STRETCH_BYTES,
    width: store.engine === "sqlite" ? 1 : 2,
    sizeOf: ({ matches }) => matches.reduce((sum, { content }) => sum + 200 + (content?.body.length ?? 0), 100),
    waitingBytes: Number.POSITIVE_INFINITY,
  });

  const topicOf = async (no: number): Promise<TopicNames> => {
    const known = topics.get(no);
    if (known !== undefined) return known;
    const row = await store.run("fanOutTopic", no);
    if (row === null) throw new Error(`There is no topic ${no}.`);
    const { name, fifo, projectId: id } = row;
    const topic = { name, fifo, crn: topicCrn({ region, account: { id, name: id } }, name) };
    if (topics.size >= MOST_TOPICS) topics.clear();
    topics.set(no, topic);
    return topic;
  };
  const matchOf = (notification: Notification, topic: TopicNames, member: MemberRow): Match => {
    const { subscriptionNo, subscriptionId, queueNo, targetNo } = member;
    if (targetNo === null) return { subscriptionNo, queueNo, content: null };
    const parts = partsFor(notification, topic, {
      subscriptionId,
      protocol: "queue",
      unsubscribeUrl: tokens.unsubscribeUrl(subscriptionId),
    });
    return { subscriptionNo, queueNo, content: subscribedContent(notification, parts, { queueNo: targetNo, fifo: member.targetFifo }) };
  };

  /** The next stretch of members after `walked`, of all that the notification reaches. */
  const stretchOf = (notification: Notification, topic: TopicNames, reached: readonly MemberRow[], walked: number): Stretch => {
    const rest = reached.filter(({ subscriptionNo }) => subscriptionNo > walked);
    const matches: Match[] = [];
    let size = 0;
    for (const member of rest.slice(0, STRETCH_MATCHES)) {
      if (size > STRETCH_BYTES) break;
      const match = matchOf(notification, topic, member);
      size += match.content?.body.length ?? 0;
      matches.push(match);
    }
    const { no, topicNo, groupId } = notification;
    const upto = matches.at(-1)?.subscriptionNo ?? walked;
    return { no, topicNo, fifo: topic.fifo, groupId, walked, upto, last: matches.length === rest.length, matches };
  };
  /** Walks a notification to its end. Answers `waits` when an earlier one of its FIFO topic comes first. */
  const walk = async (notification: Notification): Promise<"done" | "waits"> => {
    const topic = await topicOf(notification.topicNo);
    const reached = await members.reached(notification);
    for (let { walked } = notification; ; ) {
      const stretch = stretchOf(notification, topic, reached, walked);
      const { result, delivered } = await write(stretch);
      if (result === "waits") return "waits";
      if (result === "lost") return "done";
      const filtered = stretch.last ? notification.members - reached.length : 0;
      listener.moved(topic, { matched: stretch.matches.length, filtered, delivered });
      if (stretch.last) return "done";
      walked = stretch.upto;
    }
  };

  const drop = (no: number): void => {
    bytes -= inHand.get(no)?.bytes ?? 0;
    inHand.delete(no);
    if (inHand.size > 0) return;
    if (left && !stopped) {
      left = false;
      recover(0).catch(deps.report);
    }
    tellRest();
  };
  const tellRest = (): void => {
    if (inHand.size > 0 || recovering !== undefined) return;
    for (const resolve of resting) resolve();
    resting.clear();
  };
  /** Walks a notification; what fails stays in the store, for `recover`. */
  const go = async (notification: Notification): Promise<void> => {
    try {
      await walk(notification);
    } catch (error) {
      deps.report(error);
    }
    drop(notification.no);
  };
  /** Walks a FIFO topic's notifications one after the other, in the order of their numbers. */
  const goInLine = async (topicNo: number, line: Notification[]): Promise<void> => {
    let waits = 0;
    for (let next = line[0]; next !== undefined; next = line[0]) {
      let result: "done" | "waits" | "failed" = "failed";
      try {
        result = await walk(next);
      } catch (error) {
        deps.report(error);
      }
      if (result === "waits" && line[0] !== next) continue;
      if (result === "waits" && !stopped && ++waits < MOST_WAITS) {
        // What comes first is another node's, or was accepted a moment ago and is not here yet.
        await new Promise<void>((resolve) => clock.after(WAIT_MS, resolve));
        continue;
      }
      waits = 0;
      const ended = result === "done" ? line.splice(line.indexOf(next), 1) : line.splice(0);
      for (const { no } of ended) drop(no);
    }
    lines.delete(topicNo);
  };

  const take = (notification: Notification): boolean => {
    if (inHand.has(notification.no)) return true;
    const size = notification.message.length + 1_000;
    if (stopped || inHand.size >= MOST_IN_HAND || (bytes > 0 && bytes + size > BYTES_IN_HAND)) return false;
    inHand.set(notification.no, { notification, bytes: size });
    bytes += size;
    if (notification.groupId === null) {
      void go(notification);
      return true;
    }
    const line = lines.get(notification.topicNo);
    if (line !== undefined) {
      line.push(notification);
      line.sort((a, b) => a.no - b.no);
      return true;
    }
    const fresh = [notification];
    lines.set(notification.topicNo, fresh);
    void goInLine(notification.topicNo, fresh);
    return true;
  };

  const readBack = async (olderThanMs: number): Promise<boolean> => {
    let any = false;
    for (let after = 0; !stopped; ) {
      const page = await store.run("openNotifications", after, PAGE, olderThanMs);
      any ||= page.length > 0;
      for (const notification of page) {
        if (take(notification)) continue;
        left = true;
        return any;
      }
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) break;
      after = last.no;
    }
    return any;
  };
  const recover = (olderThanMs: number): Promise<boolean> => {
    recovering ??= readBack(olderThanMs).finally(() => {
      recovering = undefined;
      tellRest();
    });
    return recovering;
  };

  return {
    add(notification) {
      if (!take(notification)) left = true;
    },
    recover,
    rest: () => (inHand.size === 0 && recovering === undefined ? Promise.resolve() : new Promise<void>((resolve) => resting.add(resolve))),
    async stop() {
      stopped = true;
      if (inHand.size > 0 || recovering !== undefined) await new Promise<void>((resolve) => resting.add(resolve));
    },
  };
}
