/**
 * The lanes of topic subscriptions. A lane is made when its internal queue has something and put away when it has had nothing for a while,
 * so that a hundred thousand subscriptions cost what they deliver. What a process has looked up is right for ever: a queue that is no
 * subscription's internal queue never becomes one, and one whose subscription ended stays so.
 */

import type { Cancel } from "../clock.ts";
import type { Changes } from "../cluster/changes.ts";
import { slotOf } from "../cluster/slots.ts";
import { laneKey } from "../cluster/tenure.ts";
import type { Dispatcher } from "../delivery/dispatcher.ts";
import type { Lane } from "../delivery/lane.ts";
import type { TopicLaneRow } from "../store/topic-lane.ts";
import { createQueueLane } from "./queue-lane.ts";
import { createWebhookLane, type TopicLaneDeps } from "./webhook-lane.ts";

/** Subscriptions that are looked up or walked over at once. */
const PAGE = 100;
const WALK = 2_000;
/** How often lanes are looked after, and when one without work is put away. */
const LOOK_MS = 20_000;
const IDLE_MS = 60_000;
/** Queue numbers known to be none of ours; beyond it all are looked up anew. */
const MOST_FOREIGN = 1_000_000;

export interface TopicLanes {
  /** Makes the lanes of all subscriptions for which something waits. */
  start(): Promise<void>;
  /** Puts in force what the store says now of the subscription of an internal queue, or of all of a topic: it was changed, or has ended. */
  changed(no: number): Promise<void>;
  /** Starts nothing more, and gives back what is held ready; the dispatcher's stop ends what is open. */
  stop(): Promise<void>;
  /** Resolves once no subscription is being looked up. For tests and the virtual clock. */
  rest(): Promise<void>;
  /** Lanes that there are, for figures and tests. */
  readonly count: number;
}

interface Running {
  row: TopicLaneRow;
  ended: boolean;
  lane: Lane;
  /** Puts the row in force. */
  set(): void;
  /** Since when it had nothing to do; `null`: it has. */
  idleSince: number | null;
}

/** Makes the lanes of one server. */
export function createTopicLanes(deps: TopicLaneDeps & { dispatcher: Dispatcher; changes?: Changes | undefined }): TopicLanes {
  const { store, clock, dispatcher, ownership, log } = deps;
  const running = new Map<number, Running>();
  const foreign = new Set<number>();
  const unknown = new Map<number, number>();
  const stops: (() => void)[] = [];
  let timer: Cancel | undefined;
  let reading: Promise<void> = Promise.resolve();
  let looking = false;
  /** Subscriptions and topics that changed during a look-up. */
  const missed = new Set<number>();
  const resting: (() => void)[] = [];
  let stopped = false;

  const report = (err: unknown): void => log.warn({ err }, "topic subscriptions could not be read; they are tried again");
  const make = (row: TopicLaneRow): Running => {
    const state = { row, ended: false };
    const rowNow = (): TopicLaneRow => state.row;
    const alive = (): boolean => !state.ended && !stopped;
    const webhook = row.subscription.protocol === "webhook" ? createWebhookLane(deps, rowNow, alive) : null;
    const lane = webhook === null ? dispatcher.add(createQueueLane(deps, rowNow, alive), true) : dispatcher.add(webhook, true);
    return Object.assign(state, { lane, set: () => webhook?.refresh(), idleSince: null });
  };
  const end = (queueNo: number, held: Running): void => {
    held.ended = true;
    running.delete(queueNo);
    // What is open ends and settles by itself.
    void held.lane.close();
  };
  const isForeign = (queueNo: number): void => {
    if (foreign.size >= MOST_FOREIGN) foreign.clear();
    foreign.add(queueNo);
  };
  const readNow = async (queueNos: readonly number[]): Promise<void> => {
    const rows = new Map((await store.run("topicLanes", queueNos)).map((row) => [row.subscription.queueNo, row]));
    for (const queueNo of queueNos) {
      const held = running.get(queueNo);
      const row = rows.get(queueNo);
      if (row === undefined) {
        isForeign(queueNo);
        if (held !== undefined) end(queueNo, held);
      } else if (held !== undefined) {
        held.row = row;
        held.set();
      } else if (!stopped) running.set(queueNo, make(row));
    }
  };
  /** Reads subscriptions and puts them in force: one reading after the other, so that the last word is the store's. */
  const read = (queueNos: readonly number[]): Promise<void> => {
    reading = reading.catch(() => {}).then(() => readNow(queueNos));
    return reading;
  };
  /** Looks up queues that had work and that nobody here knows. */
  const lookUp = async (): Promise<void> => {
    looking = true;
    while (unknown.size > 0 && !stopped) {
      const asked = [...unknown].slice(0, PAGE);
      for (const [queueNo] of asked) unknown.delete(queueNo);
      try {
        await read(asked.map(([queueNo]) => queueNo));
        // Their lanes were not there yet to hear of these changes.
        for (const no of [...missed]) {
          missed.delete(no);
          await changed(no);
        }
        for (const [queueNo, inMs] of asked) running.get(queueNo)?.lane.wake(inMs);
      } catch (error) {
        report(error);
        for (const [queueNo] of asked) unknown.set(queueNo, 0);
        // Tried again with the next look.
        break;
      }
    }
    looking = false;
    for (const resolve of resting.splice(0)) resolve();
  };
  const ready = (queueNo: number, inMs: number): void => {
    const held = running.get(queueNo);
    if (held !== undefined) {
      held.idleSince = null;
      held.lane.wake(inMs);
    } else if (queueNo > 0 && !foreign.has(queueNo)) {
      unknown.set(queueNo, Math.min(inMs, unknown.get(queueNo) ?? inMs));
      if (!looking) void lookUp();
    }
  };
  /** Makes lanes for whatever waits, of the slots in question. */
  const walk = async (concerns: (queueNo: number) => boolean): Promise<void> => {
    for (let after: number | null = 0; after !== null && !stopped; ) {
      const page: { queueNos: number[]; next: number | null } = await store.run("waitingTopicQueues", after, WALK);
      for (const queueNo of page.queueNos) if (concerns(queueNo)) ready(queueNo, 0);
      after = page.next;
    }
  };
  /** Puts away the lanes that had nothing to do for a while. */
  const putAway = async (): Promise<void> => {
    const now = clock.now();
    const quiet = [...running].filter(([, { lane, idleSince }]) => lane.inFlight === 0 && idleSince !== null && now - idleSince > IDLE_MS);
    const nos = quiet.map(([queueNo]) => queueNo);
    const waiting = new Set(await store.run("queuesWithMessages", nos));
    for (const [queueNo, held] of quiet) {
      // A lane that fails remembers how slow to be; one with work that is due later has to wake up for it.
      if (!waiting.has(queueNo) && !held.row.subscription.failing && held.idleSince !== null) end(queueNo, held);
    }
    for (const held of running.values()) held.idleSince ??= now;
    if (unknown.size > 0 && !looking) void lookUp();
  };
  /** A number is a subscription's internal queue's, or a topic's: then it means all its subscriptions. */
  const changed = async (no: number): Promise<void> => {
    if (looking) missed.add(no);
    const nos = running.has(no) ? [no] : [...running].filter(([, { row }]) => row.topic.no === no).map(([queueNo]) => queueNo);
    for (let from = 0; from < nos.length; from += PAGE) await read(nos.slice(from, from + PAGE));
  };
  const isMine = (queueNo: number): boolean => ownership.fence(laneKey(queueNo)) !== null;
  const look = async (): Promise<void> => {
    await putAway();
    // Wake-ups by other nodes can be lost.
    if (store.engine === "postgres") await walk(isMine);
  };
  const arm = (): void => {
    timer = clock.after(LOOK_MS, () => {
      look()
        .catch(report)
        .finally(() => !stopped && arm());
    });
  };

  return {
    async start() {
      stops.push(
        store.onReady(ready),
        deps.changes?.onChange((no) => void changed(no).catch(report)) ?? (() => {}),
        ownership.onChange((slots) => {
          // What waits in slots that were won; lanes of slots that were left give back what they hold ready.
          for (const [queueNo, { lane }] of running) if (slots.has(slotOf(laneKey(queueNo)))) lane.wake();
          walk((queueNo) => slots.has(slotOf(laneKey(queueNo)))).catch(report);
        }),
      );
      await walk(() => true);
      arm();
    },
    changed,
    rest: () => (looking ? new Promise((resolve) => resting.push(resolve)) : Promise.resolve()),
    async stop() {
      stopped = true;
      timer?.();
      for (const stop of stops) stop();
      await Promise.all([...running.values()].map(({ lane }) => lane.close()));
    },
    get count() {
      return running.size;
    },
  };
}
