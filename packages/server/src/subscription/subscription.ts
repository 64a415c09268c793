/**
 * What can be done with subscriptions (P1 to P5, P15 to P17), and their lanes: every active subscription has one. A change is committed
 * first and then put in force here, before it is answered; so after an answered pause no request starts.
 */
import { randomBytes, randomInt } from "node:crypto";
import { Fault, invalid } from "@millrace/contract";
import { generateSecret } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Cancel, Clock } from "../clock.ts";
import type { Changes } from "../cluster/changes.ts";
import { type Ownership, ownsEverything } from "../cluster/ownership.ts";
import { slotOf } from "../cluster/slots.ts";
import { laneKey } from "../cluster/tenure.ts";
import type { Dispatcher } from "../delivery/dispatcher.ts";
import type { DeliveryLog } from "../delivery/endpoint-lane.ts";
import type { Lane } from "../delivery/lane.ts";
import type { Pressure } from "../delivery/pressure.ts";
import { checkTarget } from "../delivery/target.ts";
import type { Attempt, EgressPolicy } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import { databaseOf } from "../store/database-numbers.ts";
import { MISSED, type Store } from "../store/store.ts";
import type { HttpsTarget, LaneRow, SubscriptionChange, SubscriptionRow, Target, WorkflowTarget } from "../store/subscription.ts";
import type { IdempotencyKey, QueueRow } from "../store/types.ts";
import { createCalls } from "../workflow/calls.ts";
import { createPush, type Push, type PushDeps } from "./push.ts";
import { createRecords } from "./records.ts";
import { atRest, type Live, type WireAttempts, type WireSubscription, wireAttempts, wireSubscription } from "./wire.ts";
import { createWorkflowLane, type WorkflowLaneDeps } from "./workflow-lane.ts";

export type { SubscriptionRow } from "../store/subscription.ts";

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";
const PAGE = 50;
/** How many subscriptions outside the key's reach one page may walk over. */
const WALK = 2_000;
/** How many are read at once at the start. */
const START_PAGE = 500;
/** How often a node asks for work that it was not woken for: other nodes' wake-ups can be lost, a process's own can't. */
const NET_MS = 20_000;

/** What a subscription is made of, as the contract's shape has it. */
export interface GivenSubscription {
  target: { kind: "https"; url: string; timeoutSeconds?: number | undefined } | WorkflowTarget;
  batchSize?: number | undefined;
  maxConcurrency?: number | undefined;
  state?: "active" | "paused" | undefined;
  recordAttempts?: boolean | undefined;
}

export interface SubscriptionDeps {
  store: Store;
  clock: Clock;
  vault: Vault;
  attempt: Attempt;
  /** Decides when lanes claim: one for the whole server. */
  dispatcher: Dispatcher;
  /** The endpoint rules that targets are checked by (P18). */
  policy: EgressPolicy;
  /** Tells of changed and deleted queues: their lanes follow. */
  directory: { onChange(listener: (queueNo: number) => void): () => void };
  /** Goes out as `User-Agent`. */
  version: string;
  log: DeliveryLog;
  /** `recordAttempts` where a creation does not say: true in `millrace dev`. */
  recordAttempts?: boolean;
  random?: () => number;
  /** Slows sending down while deliveries fall behind: one for the whole server. */
  pressure: Pressure;
  /** Which lanes are this node's, and what other nodes changed; a node alone needs neither. */
  ownership?: Ownership;
  changes?: Changes;
}

export interface Subscriptions {
  /** Builds the lanes of all active subscriptions from the store. */
  start(): Promise<void>;
  /** P25: no new delivery, open ones get `graceMs`, the rest is aborted and lapses. It stops the dispatcher, whoever else uses it. */
  stop(graceMs: number): Promise<void>;
  create(queue: QueueRow, given: GivenSubscription, key: IdempotencyKey | null): Promise<WireSubscription>;
  /** By id or resource name; throws `subscription_not_found`. */
  find(projectNo: number, ref: string): Promise<SubscriptionRow>;
  show(row: SubscriptionRow): Promise<WireSubscription>;
  /** A page in order of creation of those that `shows` lets through; a page may be short, only `nextCursor: null` ends the list. */
  list(
    projectNo: number,
    query: { queueNo: number | null; limit?: number | undefined; cursor?: string | undefined },
    shows: (queueName: string) => boolean,
  ): Promise<{ subscriptions: WireSubscription[]; nextCursor: string | null }>;
  update(row: SubscriptionRow, given: SubscriptionChange): Promise<WireSubscription>;
  pause(row: SubscriptionRow): Promise<WireSubscription>;
  resume(row: SubscriptionRow): Promise<WireSubscription>;
  rotate(row: SubscriptionRow, key: IdempotencyKey | null): Promise<WireSubscription>;
  delete(row: SubscriptionRow): Promise<void>;
  attempts(row: SubscriptionRow, query: { limit?: number | undefined; cursor?: string | undefined }): Promise<WireAttempts>;
  /** Wakes every lane, spread over `overMs`: after events may have been lost. */
  wakeAll(overMs: number): void;
  /** Resolves once nothing is under way: no delivery, no claim. For tests and the virtual clock. */
  rest(): Promise<void>;
  /** Deliveries under way, and lanes. */
  readonly open: number;
  readonly lanes: number;
}

interface Running {
  id: string;
  push: Pick<Push<Target>, "set" | "live">;
  lane: Lane;
}

function readCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const no = Number(Buffer.from(cursor, "base64url").toString("utf8"));
  if (!Number.isSafeInteger(no) || no < 0 || writeCursor(no) !== cursor)
    throw invalid("cursor", "must be a nextCursor of the same list", cursor);
  return no;
}
const writeCursor = (no: number): string => Buffer.from(String(no)).toString("base64url");

/** The lane that a subscription's target asks for. Its kind never changes, so neither does the lane's. */
function laneOf(deps: PushDeps & WorkflowLaneDeps, row: LaneRow): Push<Target> {
  return row.subscription.target.kind === "https"
    ? createPush(deps, row as LaneRow<HttpsTarget>)
    : createWorkflowLane(deps, row as LaneRow<WorkflowTarget>);
}

/** Makes the verbs and lanes of one server. */
export function createSubscriptions(deps: SubscriptionDeps): Subscriptions {
  const { store, clock, vault, policy, log } = deps;
  const { dispatcher, ownership = ownsEverything } = deps;
  const records = createRecords({
    store,
    clock,
    report: (err) => log.warn({ err }, "the status of subscriptions could not be stored yet"),
  });
  const pushDeps = { ...deps, calls: createCalls(store), records, ownership, random: deps.random ?? Math.random };
  const running = new Map<number, Running>();
  const refreshing = new Map<number, Promise<void>>();
  const stops: (() => void)[] = [];
  let stopped = false;
  let net: Cancel = () => {};

  const run = (row: LaneRow): void => {
    const { id, queueNo } = row.subscription;
    const push = laneOf(pushDeps, row);
    const lane = dispatcher.add(push, true);
    running.set(queueNo, { id, push, lane });
    if (row.nextInMs !== null) lane.wake(row.nextInMs);
  };
  /** Puts what the store says of a queue's subscription in force. One after the other per queue, so that the last word is the store's. */
  const refresh = (queueNo: number): Promise<void> => {
    const turn = (refreshing.get(queueNo) ?? Promise.resolve())
      .catch(() => {})
      .then(async () => {
        const row = await store.run("loadSubscription", queueNo);
        const known = running.get(queueNo);
        if (known !== undefined && known.id !== row?.subscription.id) {
          running.delete(queueNo);
          known.push.set(null);
          // Open deliveries finish and settle by themselves.
          void known.lane.close();
        } else if (known !== undefined && row !== null) {
          known.push.set(row);
          known.lane.wake();
          return;
        }
        if (row === null || row.subscription.state !== "active") return;
        run(row);
        // What became ready between the reading and now told nobody.
        running.get(queueNo)?.lane.wake();
      });
    refreshing.set(queueNo, turn);
    const done = (): void => {
      if (refreshing.get(queueNo) === turn) refreshing.delete(queueNo);
    };
    turn.then(done, done);
    return turn;
  };
  const reread = (queueNo: number): void => {
    refresh(queueNo).catch((err) => log.warn({ err }, "a changed queue could not be read"));
  };
  const live = (row: SubscriptionRow): Live => {
    const known = running.get(row.queueNo);
    return known?.id === row.id ? { inFlight: known.lane.inFlight, ...known.push.live() } : atRest(row);
  };
  const changed = async (row: SubscriptionRow, secret: string | null = null): Promise<WireSubscription> => {
    await refresh(row.queueNo);
    return wireSubscription(row, live(row), secret);
  };
  const setState = async (row: SubscriptionRow, state: "active" | "paused"): Promise<WireSubscription> =>
    changed(await store.run("setSubscriptionState", row.projectNo, row.id, state));
  /** Each database is asked on its own: one that does not answer holds up no other. */
  const wakeDue = async (): Promise<void> => {
    try {
      await Promise.all(
        store.databases.map(async (database) => {
          for (const queueNo of await database.store.run("dueSubscriptions")) running.get(queueNo)?.lane.wake();
        }),
      );
    } catch (err) {
      log.warn({ err }, "work without a wake-up could not be looked for");
    }
  };
  /** Until the stop: wake-ups may be lost between nodes. */
  const lookAgain = (): void => {
    if (!stopped) net = clock.after(NET_MS, () => void wakeDue().then(lookAgain));
  };
  /** Lanes of slots that were won or left: they look whether there is anything for them, or give back what they hold ready. */
  const moved = async (slots: ReadonlySet<number>): Promise<void> => {
    const won: number[] = [];
    for (const [queueNo, { lane }] of running) {
      const key = laneKey(queueNo);
      if (!slots.has(slotOf(key))) continue;
      if (ownership.fence(key) === null) lane.wake();
      else won.push(queueNo);
    }
    await Promise.all(
      store.databases.map(async (database) => {
        const nos = won.filter((queueNo) => databaseOf(queueNo) === database.no);
        for (let from = 0; from < nos.length; from += START_PAGE)
          for (const { queueNo, inMs } of await database.store.run("nextWork", nos.slice(from, from + START_PAGE)))
            running.get(queueNo)?.lane.wake(inMs);
      }),
    );
  };
  const newSecret = (id: string): { secret: string; sealed: string } => {
    const secret = generateSecret((bytes) => new Uint8Array(randomBytes(bytes)));
    return { secret, sealed: vault.seal(secret, id) };
  };

  return {
    async start() {
      // Wake-ups of queues whose lanes are being built just now: looked at again at the end.
      let early: Set<number> | undefined = new Set();
      stops.push(
        store.onReady((queueNo, inMs) => {
          if (queueNo === MISSED) void wakeDue();
          running.get(queueNo)?.lane.wake(inMs);
          early?.add(queueNo);
        }),
      );
      stops.push(
        deps.directory.onChange((queueNo) => {
          if (running.has(queueNo)) reread(queueNo);
        }),
      );
      stops.push(
        deps.changes?.onChange(reread) ?? (() => {}),
        ownership.onChange((slots) => {
          moved(slots).catch((err) => log.warn({ err }, "lanes that moved between nodes could not be read"));
        }),
      );
      for (let after: number | null = 0; after !== null; ) {
        const page: { lanes: LaneRow[]; next: number | null } = await store.run("activeSubscriptions", after, START_PAGE);
        for (const row of page.lanes) if (!running.has(row.subscription.queueNo)) run(row);
        after = page.next;
      }
      for (const queueNo of early) running.get(queueNo)?.lane.wake();
      early = undefined;
      if (store.engine === "postgres") lookAgain();
    },
    async stop(graceMs) {
      for (const stop of stops) stop();
      stopped = true;
      net();
      await dispatcher.stop(graceMs);
      await records.close();
    },

    async create(queue, given, key) {
      const { target } = given;
      if (target.kind === "https") checkTarget(target.url, policy);
      else if ((given.batchSize ?? 1) !== 1) throw invalid("batchSize", "1 for a workflow: one message, one call", given.batchSize);
      const id = uuidv7();
      // Calls of workflows stay within the server: nothing is signed.
      const { secret, sealed } = target.kind === "https" ? newSecret(id) : { secret: null, sealed: "" };
      let resourceName = "qsb_";
      for (let i = 0; i < 12; i++) resourceName += LETTERS[randomInt(LETTERS.length)];
      const { result, replayed } = await store.once(key, "createSubscription", {
        id,
        resourceName,
        projectNo: queue.projectNo,
        queueNo: queue.no,
        target: target.kind === "https" ? { ...target, timeoutSeconds: target.timeoutSeconds ?? 30 } : target,
        batchSize: given.batchSize ?? (target.kind === "https" ? 10 : 1),
        maxConcurrency: given.maxConcurrency ?? 10,
        state: given.state ?? "active",
        recordAttempts: given.recordAttempts ?? deps.recordAttempts ?? false,
        secret: sealed,
      });
      await refresh(queue.no);
      return wireSubscription(result, atRest(result), replayed ? null : secret);
    },
    find: (projectNo, ref) => store.run("getSubscription", projectNo, ref),
    async show(row) {
      // What this process knows is stored first: what is shown never runs ahead of the store, nor lags behind it.
      await records.flush();
      const fresh = await store.run("getSubscription", row.projectNo, row.id);
      return wireSubscription(fresh, live(fresh), null);
    },
    async list(projectNo, { queueNo, limit = PAGE, cursor }, shows) {
      const subscriptions: WireSubscription[] = [];
      await records.flush();
      let after = readCursor(cursor);
      for (let walked = 0; walked < WALK; ) {
        const { rows, next } = await store.run("listSubscriptions", { projectNo, queueNo, after: after ?? 0, limit: 200 });
        after = next;
        for (const { no, row } of rows) {
          walked++;
          if (shows(row.queueName)) subscriptions.push(wireSubscription(row, live(row), null));
          if (subscriptions.length < limit) continue;
          after = no === rows.at(-1)?.no ? next : no;
          break;
        }
        if (subscriptions.length === limit || after === null) break;
      }
      return { subscriptions, nextCursor: after === null ? null : writeCursor(after) };
    },
    async update(row, given) {
      if (given.target?.kind === "https") checkTarget(given.target.url, policy);
      if (row.target.kind === "workflow" && (given.batchSize ?? 1) !== 1)
        throw invalid("batchSize", "1 for a workflow: one message, one call", given.batchSize);
      return changed(await store.run("updateSubscription", row.projectNo, row.id, given));
    },
    pause: (row) => setState(row, "paused"),
    resume: (row) => setState(row, "active"),
    async rotate(row, key) {
      if (row.target.kind !== "https") throw new Fault("not_signed", "deliveries to a workflow are not signed");
      const { secret, sealed } = newSecret(row.id);
      const { result, replayed } = await store.once(key, "rotateSecret", row.projectNo, row.id, sealed);
      return changed(result, replayed ? null : secret);
    },
    async delete(row) {
      await store.run("deleteSubscription", row.projectNo, row.id);
      await refresh(row.queueNo);
    },
    async attempts(row, { limit = PAGE, cursor }) {
      await records.flush();
      const of = { subscriptionId: row.id, queueNo: row.queueNo };
      const { attempts, next } = await store.run("listAttempts", { ...of, before: readCursor(cursor), limit });
      return wireAttempts(attempts, next === null ? null : writeCursor(next));
    },
    wakeAll: (overMs) => dispatcher.wakeAll(overMs),
    rest: () => dispatcher.rest(),
    get open() {
      return dispatcher.open;
    },
    get lanes() {
      return running.size;
    },
  };
}
