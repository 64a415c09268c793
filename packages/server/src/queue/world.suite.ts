/**
 * What the suites of queues share: a real store on either engine, the queue noun over it, and every operation callable through its
 * handler and the contract's own validation. Time stands still but for `clock.advance`.
 */
import { join } from "node:path";
import { type Answer, type Fault, type Operations, operations } from "@millrace/contract";
import { postgres, scratch } from "@millrace/testkit";
import Database from "better-sqlite3";
import pg from "pg";
import { createClock, type VirtualClock } from "../clock.ts";
import { messageHandlers } from "../http/ezgh/messages.ts";
import { queueHandlers } from "../http/ezgh/queues.ts";
import type { Call, Handlers } from "../http/handler.ts";
import type { Caller } from "../identity/caller.ts";
import { createAccess } from "../identity/resolve.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey } from "../store/types.ts";
import { queueChores } from "./chores.ts";
import { type Chore, createHousekeeping, type Housekeeping } from "./housekeeping.ts";
import { createQueueRoom, type QueueRoom } from "./room.ts";

export type Engine = "sqlite" | "postgres";
/** What a world stands on: an engine, or two PostgreSQL databases, with all queues on the one that is not the default. */
export type Ground = Engine | "databases";
export const engines: readonly Engine[] = ["sqlite", "postgres"];

type QueueHandlers = ReturnType<typeof queueHandlers> & ReturnType<typeof messageHandlers>;
export type Received = Answer<Operations["ReceiveMessages"]>;
type Name = keyof QueueHandlers;

/** A caller who may do everything, unless told otherwise. */
export const everyone: Caller = { keyId: "k", keyName: "all", projectNo: null, within: null, statements: [{ allow: ["*"], on: ["*"] }] };

export interface CallOptions {
  query?: Record<string, unknown>;
  caller?: Caller;
  key?: IdempotencyKey;
  gone?: () => AbortSignal;
  /** Collects what the handler registered for a lost answer. */
  undo?: (undo: () => unknown) => unknown;
  traceparent?: string;
}

export interface World {
  readonly clock: VirtualClock;
  readonly store: Store;
  /** Of the database that the queues are on, and how a queue is asked to be there. */
  readonly queueStore: Store;
  readonly placed: { database?: string };
  readonly room: QueueRoom;
  readonly housekeeping: Housekeeping;
  readonly handlers: Pick<Handlers, Name>;
  /** What chores failed with. */
  readonly failures: unknown[];
  /** `<organization>/<project>` that calls go to, and the project's number. */
  readonly within: string;
  readonly projectNo: number;
  /** How far the database's own clock may have run on beside the frozen one, in milliseconds: nothing on SQLite. */
  readonly slackMs: number;
  /** Goes on in a new, empty project: tests share a store, which is slow to open, and nothing else. */
  fresh(): Promise<void>;
  /** Calls an operation on a queue (or on none), with `body` as it came over the wire. */
  call<N extends Name>(name: N, params: Record<string, string>, body?: unknown, options?: CallOptions): Promise<Answer<Operations[N]>>;
  /** Starts a receive; resolves once it waits, with its answer to come. */
  wait(queueId: string, body: Record<string, unknown>, gone?: AbortSignal): Promise<{ answer: Promise<Received> }>;
  /** Another node's store on the same database. */
  peer(): Promise<Store>;
  /** The number that a query on the database itself answers as `n`. */
  count(sql: string): Promise<number>;
  /** Advances the clock and waits until all chores that became due have run. */
  pass(ms: number): Promise<void>;
  /** Closes the store and opens it again on the same data. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a world of its own. */
export async function openWorld(ground: Ground, extra: readonly Chore[] = []): Promise<World> {
  const folder = ground === "sqlite" ? scratch("queue") : null;
  const url = ground === "sqlite" ? join(folder?.path as string, "millrace.db") : await (await postgres()).fresh();
  const databases: Record<string, string> = ground === "databases" ? { eu: await (await postgres()).fresh() } : {};
  const clock = createClock({ frozen: true });
  const failures: unknown[] = [];

  const open = async () => {
    const store = await openStore({ url, databases, clock, relaxedSync: true });
    const room = createQueueRoom({ store, clock });
    const housekeeping = createHousekeeping({
      clock,
      // That of the database which the queues are on: nothing is due on the other one.
      chores: [...queueChores(store.databases.at(-1)?.store ?? store), ...extra],
      failed: (_, error) => failures.push(error),
    });
    room.onWork((chore) => housekeeping.nudge(chore));
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    const deps = { access, ...room };
    return { store, room, housekeeping, handlers: { ...queueHandlers(deps), ...messageHandlers(deps) } };
  };
  const shut = async (): Promise<void> => {
    state.room.close();
    await state.housekeeping.close();
    await state.store.close();
  };

  let state = await open();
  const names = { organizationId: "acme", projectId: "" };
  const organization = await state.store.run("createOrganization", { id: uuid(0), name: names.organizationId });
  let projectNo = 0;
  let projects = 0;
  const fresh = async (): Promise<void> => {
    projects += 1;
    names.projectId = `shop-${projects}`;
    const ids = { id: uuid(projects), environmentId: uuid(projects + 10_000) };
    projectNo = (await state.store.run("createProject", { ...ids, name: names.projectId, organizationNo: organization.no })).no;
  };

  const placed = ground === "databases" ? { database: "eu" } : {};

  const world: World = {
    placed,
    clock,
    failures,
    slackMs: ground === "sqlite" ? 0 : 120_000,
    get within() {
      return `${names.organizationId}/${names.projectId}`;
    },
    get projectNo() {
      return projectNo;
    },
    fresh,
    get store() {
      return state.store;
    },
    get queueStore() {
      return state.store.databases.at(-1)?.store ?? state.store;
    },
    get room() {
      return state.room;
    },
    get housekeeping() {
      return state.housekeeping;
    },
    get handlers() {
      return state.handlers;
    },
    async call(name, params, body, options = {}) {
      const operation = operations[name];
      const input = {
        params: operation.params.parse({ ...names, ...params }),
        query: operation.query.parse(options.query ?? {}),
        body: operation.body.parse(name === "CreateQueue" ? { ...placed, ...(body as object) } : body),
      };
      const call: Call = {
        caller: options.caller ?? everyone,
        requestId: "r",
        idempotency: options.key ?? null,
        traceparent: options.traceparent,
        get gone() {
          return options.gone?.() ?? new AbortController().signal;
        },
        undelivered: options.undo ?? (() => undefined),
      };
      const handler = state.handlers[name] as (call: Call, input: unknown) => Promise<never>;
      return handler(call, input);
    },
    wait(queueId, body, gone = new AbortController().signal) {
      return new Promise((resolve, reject) => {
        const answer: Promise<Received> = world.call("ReceiveMessages", { queueId }, body, {
          gone() {
            resolve({ answer });
            return gone;
          },
        });
        answer.catch(reject);
      });
    },
    peer: () => openStore({ url, databases, clock, relaxedSync: true }),
    async count(sql) {
      if (ground === "sqlite") {
        const raw = new Database(url, { readonly: true });
        const row = raw.prepare<[], { n: number }>(sql).get();
        raw.close();
        return row?.n ?? 0;
      }
      const client = new pg.Client({ connectionString: databases.eu ?? url });
      await client.connect();
      const { rows } = await client.query<{ n: string }>(sql);
      await client.end();
      return Number(rows[0]?.n ?? 0);
    },
    async pass(ms) {
      await state.housekeeping.settled();
      clock.advance(ms);
      await state.housekeeping.settled();
    },
    async restart() {
      await shut();
      state = await open();
    },
    async close() {
      await shut();
      folder?.remove();
    },
  };
  return world;
}

function uuid(n: number): string {
  return `01999f3c-7a1e-7b2a-9c4d-${n.toString(16).padStart(12, "0")}`;
}

/** The code and details of the Fault that a call ends with; fails the test when it doesn't. */
export async function faultOf(call: Promise<unknown>): Promise<Pick<Fault, "code" | "details" | "status">> {
  try {
    await call;
  } catch (error) {
    if (typeof error === "object" && error !== null && "code" in error && "status" in error) return error as Fault;
    throw error;
  }
  throw new Error("the call was not refused");
}
