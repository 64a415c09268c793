/**
 * Workers that pull (W6): a poll waits for wake-ups of its app's runs, begins their executions and answers the tasks. Its lease lasts from
 * heartbeat to heartbeat; what a worker that vanished was given is handed out again when it ends. A task of a workflow that this worker
 * does not have goes back for another one.
 */
import { createHash } from "node:crypto";
import { Fault } from "@millrace/contract";
import { type Announcement, protocolVersion, speaks, type Task } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
import { createWaiting } from "../queue/waiting.ts";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { type Executions, PULL_LEASE_MS } from "./executions.ts";
import { announcementOf, wakeBlocked } from "./sync.ts";

/** How long a task waits for a worker that has its workflow, before somebody looks again. */
const ELSEWHERE_MS = 1_000;
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
    app: Poll["app"],
    messages: readonly ClaimedMessage[],
  ): Promise<{ task: Task; message: ClaimedMessage } | null> => {
    for (const message of messages) {
      const task = await executions.begin(app.queueNo, message, { appId: app.id, leaseMs: PULL_LEASE_MS, pull: true });
      if (task !== null) return { task, message };
    }
    return null;
  };

  return {
    async poll(appNo, { announcement, app, max, waitMs, gone }) {
      const { protocol, workflows } = announcement;
      if (!speaks(protocol))
        throw new Fault("protocol_unsupported", `the worker speaks protocol ${protocol}, this server ${protocolVersion}`);
      await announce(appNo, announcement);
      const has = new Set(workflows.map(({ name }) => name));
      const until = clock.now() + waitMs;
      for (;;) {
        const messages = await waiting.receive({
          queueNo: app.queueNo,
          batchSize: max,
          leaseMs: PULL_LEASE_MS,
          waitMs: Math.max(0, until - clock.now()),
          gone,
        });
        if (messages.length === 0) return [];
        const begun = await Promise.all([...byRun(messages).values()].map((some) => beginOne(app, some)));
        const all = begun.filter((one) => one !== null);
        const elsewhere = all.filter(({ task }) => !has.has(task.run.workflow)).map(({ message }) => message);
        if (elsewhere.length > 0) await release(app.queueNo, elsewhere, ELSEWHERE_MS);
        const tasks = all.map(({ task }) => task).filter((task) => has.has(task.run.workflow));
        if (tasks.length > 0) return tasks;
      }
    },
    close: () => waiting.close(),
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
