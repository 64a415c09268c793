/**
 * What can be done with apps (W1, W2). A change is committed first and then put in force in this process, before it is answered. A new
 * push app is asked for its workflows at once, without anybody waiting for that.
 */
import { randomBytes, randomInt } from "node:crypto";
import { Fault } from "@millrace/contract";
import { generateSecret } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Clock } from "../clock.ts";
import { checkTarget } from "../delivery/target.ts";
import type { EgressPolicy } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import { ezghDefaults } from "../queue/settings.ts";
import { APP_ENVIRONMENT, type AppChange, type AppReference, type AppRow } from "../store/app.ts";
import type { Notifications } from "../store/run-result.ts";
import type { EndStatus } from "../store/run-rows.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey, QueueRow } from "../store/types.ts";
import type { WorkflowRow } from "../store/workflow.ts";
import { type AppIdentity, createAppMemory } from "./app-memory.ts";
import { coalesce } from "./coalesce.ts";
import { checkMode, MAX_CONCURRENCY } from "./rules.ts";
import { type WireApp, wireApp } from "./wire.ts";

export type { AppIdentity, AppRow };

/** How look-ups that come at the same time travel to the store. */
const FINDS = { most: 100, width: 2 };

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";

/** `notifications` as given, and the queue that it names. `null` turns them off. */
export interface GivenNotifications {
  queue: QueueRow;
  on: EndStatus[];
  workflows?: string[] | null | undefined;
  groupBy?: "run" | "workflow" | undefined;
}

/** What an app is made of. */
export interface GivenApp {
  name: string;
  mode: "push" | "pull";
  url?: string | undefined;
  maxConcurrency?: number | undefined;
  notifications: GivenNotifications | null;
}

/** What an update changes; what is `undefined` stays. */
export interface GivenAppChange {
  url?: string | undefined;
  maxConcurrency?: number | undefined;
  state?: "active" | "paused" | undefined;
  notifications?: GivenNotifications | null | undefined;
}

/** What executes an app's runs and asks it for its workflows. */
export interface Engine {
  /** Puts what the store says of an app in force, or ends its lane when it is gone. */
  refresh(appNo: number): Promise<void>;
  /** Asks a push app for its workflows and stores the answer, or why there is none. Never rejects for the endpoint's sake. */
  sync(appNo: number): Promise<unknown>;
}

export interface AppDeps {
  store: Store;
  clock: Pick<Clock, "now">;
  vault: Pick<Vault, "seal">;
  /** The endpoint rules that URLs are checked by (P18). */
  policy: EgressPolicy;
  engine: Engine;
  /** Hears of a sync in the background that failed for this server's sake. */
  report: (error: unknown) => void;
  /** Tells housekeeping of runs to remove. */
  onDelete: () => void;
}

export interface Apps {
  create(projectNo: number, given: GivenApp, key: IdempotencyKey | null): Promise<WireApp>;
  /** By id, resource name or name; `null` when there is none. */
  find(projectNo: number, reference: string): Promise<AppRow | null>;
  /** The same, of what never changes: one that another node deleted may be found two seconds longer. */
  identify(projectNo: number, reference: string): Promise<AppIdentity | null>;
  /** Up to `limit` apps by name after `after`. */
  list(projectNo: number, after: string | null, limit: number): Promise<AppRow[]>;
  update(app: AppRow, given: GivenAppChange): Promise<WireApp>;
  /** Throws `not_signed` for a pull app. */
  rotate(app: AppRow, key: IdempotencyKey | null): Promise<WireApp>;
  sync(app: AppRow): Promise<WireApp>;
  delete(app: AppRow): Promise<void>;
  /** Up to `limit` workflows by name after `after`. */
  workflows(app: AppRow, after: string | null, limit: number): Promise<WorkflowRow[]>;
}

const storedNotifications = (given: GivenNotifications): Notifications => ({
  queueNo: given.queue.no,
  queueId: given.queue.id,
  fifo: given.queue.type === "fifo",
  on: [...new Set(given.on)],
  workflows: given.workflows ?? null,
  groupBy: given.groupBy ?? "run",
});

function drawnName(prefix: string): string {
  let name = prefix;
  for (let i = 0; i < 12; i++) name += LETTERS[randomInt(LETTERS.length)];
  return name;
}

/** Makes the verbs of apps. */
export function createApps(deps: AppDeps): Apps {
  const { store, vault, policy, engine } = deps;
  const find = coalesce<AppReference, AppRow | null>((asked) => store.run("findApps", asked), FINDS);
  const memory = createAppMemory(deps.clock, (projectNo, reference) => find({ projectNo, reference }));
  const newSecret = (id: string): { secret: string; sealed: string } => {
    const secret = generateSecret(randomBytes);
    return { secret, sealed: vault.seal(secret, id) };
  };
  const syncSoon = (app: AppRow): void => {
    if (app.mode === "push") engine.sync(app.no).catch(deps.report);
  };
  const shown = async (app: AppRow, secret: string | null = null): Promise<WireApp> => {
    await engine.refresh(app.no);
    return wireApp(app, secret);
  };

  return {
    async create(projectNo, given, key) {
      checkMode(given.mode, given.url);
      if (given.url !== undefined) checkTarget(given.url, policy, "url");
      const id = uuidv7();
      const made = given.mode === "push" ? newSecret(id) : null;
      const settings = { ...ezghDefaults, deduplicationWindowMs: 0, internal: true };
      const { result, replayed } = await store.once(key, "createApp", {
        id,
        resourceName: drawnName("wfa_"),
        projectNo,
        name: given.name,
        mode: given.mode,
        url: given.url ?? null,
        maxConcurrency: given.maxConcurrency ?? MAX_CONCURRENCY,
        notifications: given.notifications === null ? null : storedNotifications(given.notifications),
        secret: made?.sealed ?? null,
        queue: {
          id: uuidv7(),
          resourceName: drawnName("que_"),
          projectNo,
          environment: APP_ENVIRONMENT,
          name: id,
          type: "fifo",
          settings,
          source: "auto",
        },
      });
      const answer = await shown(result, replayed ? null : (made?.secret ?? null));
      if (!replayed) syncSoon(result);
      return answer;
    },
    find: (projectNo, reference) => find({ projectNo, reference }),
    identify: memory.find,
    list: (projectNo, after, limit) => store.run("listApps", projectNo, after, limit),
    async update(app, given) {
      if (given.url !== undefined) {
        checkMode(app.mode, given.url);
        checkTarget(given.url, policy, "url");
      }
      const { notifications, ...rest } = given;
      const change: AppChange = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
      if (notifications !== undefined) change.notifications = notifications === null ? null : storedNotifications(notifications);
      const changed = await store.run("updateApp", app.no, change);
      const answer = await shown(changed);
      if (given.url !== undefined && given.url !== app.url) syncSoon(changed);
      return answer;
    },
    async rotate(app, key) {
      if (app.mode === "pull") throw new Fault("not_signed", "a pull app is not called, so nothing is signed");
      const { secret, sealed } = newSecret(app.id);
      const { result, replayed } = await store.once(key, "rotateAppSecret", app.no, sealed);
      return shown(result, replayed ? null : secret);
    },
    async sync(app) {
      if (app.mode === "push") await engine.sync(app.no);
      // A pull app's workers announce what they have by themselves: there is nobody to ask.
      const synced = await store.run("getApp", app.no);
      if (synced === null) throw new Fault("app_not_found", "the app was deleted meanwhile");
      return wireApp(synced, null);
    },
    async delete(app) {
      await store.run("deleteApp", app.no);
      memory.forget(app.no);
      await engine.refresh(app.no);
      deps.onDelete();
    },
    workflows: (app, after, limit) => store.run("listWorkflows", app.no, after, limit),
  };
}
