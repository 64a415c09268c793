/**
 * The executing side of all apps (W5): every push app is a lane of the one dispatcher, every pull app a line of waiting workers over the
 * same queue. Which app is on which lane follows the store: a change is committed first, then put in force here.
 */
import type { Task } from "@millrace/contract/wire";
import type { Cancel, Clock } from "../clock.ts";
import type { Changes } from "../cluster/changes.ts";
import { type Ownership, ownsEverything } from "../cluster/ownership.ts";
import { slotOf } from "../cluster/slots.ts";
import { laneKey } from "../cluster/tenure.ts";
import type { Dispatcher } from "../delivery/dispatcher.ts";
import type { DeliveryLog } from "../delivery/endpoint-lane.ts";
import type { Lane } from "../delivery/lane.ts";
import type { Pressure } from "../delivery/pressure.ts";
import type { Attempt } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import type { AppLane } from "../store/app.ts";
import type { Store } from "../store/store.ts";
import { createExecutions, type Executions } from "./executions.ts";
import { createPolling, type Poll } from "./polling.ts";
import { createPushLane, type PushLane } from "./push-lane.ts";
import { type Synced, syncApp } from "./sync.ts";

/** How many lanes are read at once, and how often it is asked which have work, should wake-ups have been lost. */
const PAGE = 500;
const NET_MS = 20_000;
/** How long an app that never answered a sync is left alone before it is asked again, doubling. */
const UNSYNCED_MS = { first: 5_000, most: 300_000 };

export interface EngineDeps {
  store: Store;
  clock: Clock;
  vault: Vault;
  dispatcher: Dispatcher;
  pressure: Pressure;
  attempt: Attempt;
  version: string;
  log: DeliveryLog;
  /** Where executors report: `<this server>/v1/workflow-executions`. Asked for when tasks are made. */
  callbackUrl: () => string;
  random?: () => number;
  /** Which lanes are this node's, and what other nodes changed; a node alone needs neither. */
  ownership?: Ownership;
  changes?: Changes;
}

export interface WorkflowEngine {
  /** Builds the lanes of all push apps from the store. */
  start(): Promise<void>;
  /** P25. It stops the dispatcher, whoever else uses it. */
  stop(graceMs: number): Promise<void>;
  /** Puts what the store says of an app in force. To be called after every change of one. */
  refresh(appNo: number): Promise<void>;
  /** Asks a push app what it has and wakes its blocked runs (W2). A failure is stored on the app and answered. */
  sync(appNo: number): Promise<Synced>;
  /** Hands tasks of a pull app to a worker. Throws `protocol_unsupported`. */
  poll(appNo: number, poll: Poll): Promise<Task[]>;
  executions: Executions;
  /** Resolves once nothing is under way. For tests and the virtual clock. */
  rest(): Promise<void>;
}

interface Running {
  appNo: number;
  source: PushLane;
  lane: Lane;
}

/** Makes the engine of one server. */
export function createWorkflowEngine(deps: EngineDeps): WorkflowEngine {
  const { store, clock, dispatcher, log, ownership = ownsEverything } = deps;
  const executions = createExecutions(deps);
  const polling = createPolling({ store, clock, executions });
  const running = new Map<number, Running>();
  const queueOf = new Map<number, number>();
  const stops: (() => void)[] = [];
  const syncing = new Map<number, Promise<Synced>>();
  const background = new Set<Promise<unknown>>();
  const retries = new Map<number, { cancel: Cancel }>();
  const abort = new AbortController();
  let timer: Cancel = () => {};
  let stopped = false;
  let last: Promise<unknown> = Promise.resolve();

  /** What a stop waits for, whoever else does. */
  const keep = (work: Promise<unknown>): void => {
    const done: Promise<unknown> = work.catch(() => {}).finally(() => background.delete(done));
    background.add(done);
  };
  const aside = (work: Promise<unknown>, failed: string): void => keep(work.catch((err) => log.warn({ err }, failed)));
  /** One after the other, so that the last word is the store's. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
  const sync = (appNo: number, always: boolean): Promise<Synced> => {
    const known = syncing.get(appNo);
    if (known !== undefined && !always) return known;
    const turn = (known ?? Promise.resolve())
      .then(() => syncApp(deps, appNo, always, abort.signal))
      .finally(() => {
        if (syncing.get(appNo) === turn) syncing.delete(appNo);
      });
    syncing.set(appNo, turn);
    const whole = turn.then(async (synced) => {
      if (synced.ok) await refresh(appNo);
      return synced;
    });
    keep(whole);
    return whole;
  };
  const pushDeps = {
    ...deps,
    executions,
    ownership,
    random: deps.random ?? Math.random,
    otherBuild: (appNo: number): void => {
      if (!syncing.has(appNo)) aside(sync(appNo, false), "an app could not be asked for its workflows");
    },
  };

  /** Asks an app that was away when it was made, until it has answered once. On several nodes its owner does. */
  const askAgain = ({ app }: AppLane): void => {
    const known = retries.get(app.no);
    if (app.syncedAt !== null || app.url === null || stopped) {
      known?.cancel();
      retries.delete(app.no);
    } else if (known === undefined) waitForSync(app.no, app.queueNo, UNSYNCED_MS.first);
  };
  const waitForSync = (appNo: number, queueNo: number, waitMs: number): void => {
    const cancel = clock.after(waitMs, () => {
      if (stopped || !running.has(queueNo)) return;
      waitForSync(appNo, queueNo, Math.min(waitMs * 2, UNSYNCED_MS.most));
      if (ownership.fence(laneKey(queueNo)) !== null && !syncing.has(appNo))
        aside(sync(appNo, false), "an app could not be asked for its workflows");
    });
    retries.set(appNo, { cancel });
  };
  const end = (queueNo: number): void => {
    const known = running.get(queueNo);
    if (known === undefined) return;
    running.delete(queueNo);
    known.source.set(null);
    // Open executions finish and settle by themselves.
    void known.lane.close();
  };
  const place = (row: AppLane): void => {
    const { no, queueNo, mode } = row.app;
    queueOf.set(no, queueNo);
    if (mode !== "push") {
      end(queueNo);
      return;
    }
    const known = running.get(queueNo);
    if (known !== undefined) known.source.set(row);
    else if (!stopped) {
      const source = createPushLane(pushDeps, row);
      running.set(queueNo, { appNo: no, source, lane: dispatcher.add(source, true) });
    }
    if (row.nextInMs !== null) running.get(queueNo)?.lane.wake(row.nextInMs);
    askAgain(row);
  };
  const readAll = async (): Promise<void> => {
    const left = new Set(running.keys());
    for (let after: number | null = 0; after !== null; ) {
      const page: { lanes: AppLane[]; next: number | null } = await store.run("appLanes", after, PAGE);
      for (const row of page.lanes) {
        left.delete(row.app.queueNo);
        place(row);
      }
      after = page.next;
    }
    for (const queueNo of left) end(queueNo);
  };
  const refresh = (appNo: number): Promise<void> =>
    inTurn(async () => {
      const row = await store.run("appLane", appNo);
      const queueNo = row?.app.queueNo ?? queueOf.get(appNo);
      if (queueNo === undefined) return;
      if (row === null) {
        queueOf.delete(appNo);
        end(queueNo);
        return;
      }
      place(row);
      running.get(queueNo)?.lane.wake();
    });
  /** Another node changed what belongs to a queue: perhaps an app. */
  const reread = async (queueNo: number): Promise<void> => {
    const appNo = running.get(queueNo)?.appNo ?? (await store.run("appOfQueue", queueNo));
    if (appNo !== null) await refresh(appNo);
  };
  const wakeDue = async (): Promise<void> => {
    for (const appNo of await store.run("dueApps")) running.get(queueOf.get(appNo) ?? -1)?.lane.wake();
  };
  const net = (): void => {
    timer = clock.after(NET_MS, () => {
      aside(
        wakeDue().finally(() => stopped || net()),
        "work without a wake-up could not be looked for",
      );
    });
  };

  return {
    async start() {
      stops.push(
        store.onReady((queueNo, inMs) => running.get(queueNo)?.lane.wake(inMs)),
        deps.changes?.onChange((queueNo) => aside(reread(queueNo), "a changed app could not be read")) ?? (() => {}),
        ownership.onChange((slots) => {
          for (const [queueNo, { lane }] of running) if (slots.has(slotOf(laneKey(queueNo)))) lane.wake();
        }),
      );
      await inTurn(readAll);
      // What became ready between the reading and now told nobody.
      for (const { lane } of running.values()) lane.wake();
      if (store.engine === "postgres") net();
    },
    async stop(graceMs) {
      stopped = true;
      timer();
      for (const { cancel } of retries.values()) cancel();
      for (const stop of stops) stop();
      abort.abort();
      polling.close();
      await dispatcher.stop(graceMs);
      for (const { source } of running.values()) source.stop();
      await last;
      await Promise.all(background);
    },
    refresh,
    sync: (appNo) => sync(appNo, true),
    poll: polling.poll,
    executions,
    async rest() {
      await dispatcher.rest();
      await Promise.all(background);
    },
  };
}
