/**
 * Workers that pull (W6): a poll waits for wake-ups of its app's runs, begins their executions and answers the tasks. Its lease lasts from
 * heartbeat to heartbeat; what a worker that vanished was given is handed out again when it ends. A wake-up for a workflow that this worker
 * does not have is left to others, and what is beyond the app's `maxConcurrency` waits for an end.
 */
import { createHash } from "node:crypto";
import { Fault } from "@millrace/contract";
import { type Announcement, protocolVersion, speaks, type Task } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
import { createWaiting } from "../queue/waiting.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { createAppPlaces } from "./app-places.ts";
import { type Executions, PULL_LEASE_MS } from "./executions.ts";
import { announcementOf, wakeBlocked } from "./sync.ts";

/** How many claims a poll that does not wait makes which bring it nothing. */
const PASSES = 20;
/** How long an announcement is not repeated to the store: workers of another build may meanwhile have spoken to another node. */
const ANNOUNCED_MS = 10_000;

/** What a worker asks for. */
export interface Poll {
  announcement: Announcement;
  app: { id: string; queueNo: number };
  max: number;
  waitMs: number;
  /** Asked for only when the poll starts to wait. */
  gone: () => AbortSignal;
}

export interface Polling {
  /** Throws `protocol_unsupported`. */
  poll(appNo: number, poll: Poll): Promise<Task[]>;
  /** Ends all waits empty. */
  close(): void;
}

/** Makes the polling of one server. */
export function createPolling({ store, clock, executions }: { store: Store; clock: Clock; executions: Executions }): Polling {
  const release = (queueNo: number, messages: readonly ClaimedMessage[], delayMs: number): Promise<unknown> =>
    store.settle(messages.map(({ seq, receipt }) => ({ queueNo, seq, receipt, outcome: "release", delayMs })));
  const waiting = createWaiting({
    store,
    clock,
    // What can't be given back comes back when its lease ends.
    release: (queueNo, messages) => void release(queueNo, messages, 0).catch(() => {}),
  });
  const places = createAppPlaces(clock);
  executions.onEnd(places.end);
  let closed = false;
  /** What workers said of late, and until when that is not written down again. */
  const announced = new Map<string, number>();

  const announce = async (appNo: number, announcement: Announcement): Promise<void> => {
    // Each build for itself: where workers of two take turns, neither wakes what is blocked with every poll.
    const said = `${appNo} ${createHash("sha256").update(JSON.stringify(announcement)).digest("base64")}`;
    const now = clock.now();
    if (now < (announced.get(said) ?? 0)) return;
    const stored = await store.run("announce", appNo, announcementOf(announcement, false));
    if (stored === null) throw new Fault("app_not_found", "the app was deleted");
    for (const [earlier, until] of announced) if (until <= now) announced.delete(earlier);
    announced.set(said, now + ANNOUNCED_MS);
    if (stored.otherBuild) await wakeBlocked(store, appNo);
  };

  /** Begins the execution of one run by the first of its wake-ups that asks for one; that one takes the others back. */
  const beginOne = async (
    { id: appId, queueNo }: Poll["app"],
    messages: readonly ClaimedMessage[],
    workflows: readonly string[],
  ): Promise<Task | "full" | null> => {
    let found: "full" | null = null;
    for (const message of messages) {
      const begun = await executions.beginPulled(queueNo, message, { appId, leaseMs: PULL_LEASE_MS }, workflows);
      if (begun !== null && begun !== "full") return begun;
      found ??= begun;
    }
    return found;
  };

  return {
    async poll(appNo, { announcement, app, max, waitMs, gone }) {
      const { protocol, workflows } = announcement;
      if (!speaks(protocol))
        throw new Fault("protocol_unsupported", `the worker speaks protocol ${protocol}, this server ${protocolVersion}`);
      await announce(appNo, announcement);
      const names = workflows.map(({ name }) => name);
      const { queueNo } = app;
      const until = clock.now() + waitMs;
      for (let pass = 1; ; pass++) {
        const leftMs = Math.max(0, until - clock.now());
        const free = places.free(queueNo);
        if (free <= 0) {
          if (leftMs === 0 || closed || gone().aborted) return [];
          await places.freed(queueNo, leftMs);
          continue;
        }
        const before = places.ended(queueNo);
        const messages = await waiting.receive({
          ...{ queueNo, gone, waitMs: leftMs },
          batchSize: Math.min(max, free),
          leaseMs: PULL_LEASE_MS,
        });
        if (messages.length === 0) return [];
        const begun = await Promise.all([...byRun(messages).values()].map((some) => beginOne(app, some, names)));
        const tasks = begun.filter((one) => one !== null && one !== "full");
        places.taken(queueNo, tasks.length);
        if (begun.includes("full")) places.full(queueNo, before);
        if (tasks.length > 0 || (leftMs === 0 && pass >= PASSES)) return tasks;
      }
    },
    close() {
      closed = true;
      waiting.close();
    },
  };
}

/** A claim's wake-ups by the run that they wake, in order. */
function byRun(messages: readonly ClaimedMessage[]): Map<string, ClaimedMessage[]> {
  const runs = new Map<string, ClaimedMessage[]>();
  for (const message of messages) {
    const key = message.groupKey ?? "";
    const some = runs.get(key);
    if (some === undefined) runs.set(key, [message]);
    else some.push(message);
  }
  return runs;
}
