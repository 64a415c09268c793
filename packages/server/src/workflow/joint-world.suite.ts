/** What the suites of queues and workflows together share: the engine's world, and over the same store the lanes of subscriptions. */
import { type Answer, type Operations, operations } from "@millrace/contract";
import { createDispatcher } from "../delivery/dispatcher.ts";
import { createPressure } from "../delivery/pressure.ts";
import { subscriptionHandlers } from "../http/ezgh/subscriptions.ts";
import type { Call, Handlers } from "../http/handler.ts";
import { workflowHandlers } from "../http/workflows/handlers.ts";
import type { Caller } from "../identity/caller.ts";
import { createAccess } from "../identity/resolve.ts";
import { createVault } from "../identity/vault.ts";
import { everyone, type Ground } from "../queue/world.suite.ts";
import type { IdempotencyKey } from "../store/types.ts";
import { createSubscriptions, type Subscriptions } from "../subscription/subscription.ts";
import { type EngineWorld, openEngineWorld } from "./engine-world.suite.ts";
import { placedResultChore } from "./placed-results.ts";

type Name = keyof ReturnType<typeof subscriptionHandlers> | keyof ReturnType<typeof workflowHandlers>;

/** A message to send. */
export interface Sending {
  body: string;
  attributes?: Record<string, string>;
  groupId?: string;
}

export interface JointWorld {
  readonly w: EngineWorld;
  readonly subscriptions: Subscriptions;
  call<N extends Name>(
    name: N,
    params: Record<string, string>,
    body?: unknown,
    options?: { query?: Record<string, unknown>; caller?: Caller; key?: IdempotencyKey },
  ): Promise<Answer<Operations[N]>>;
  /** Makes a queue; answers its id. */
  queue(name: string, settings?: Record<string, unknown>): Promise<string>;
  /** Sends messages; answers their ids. */
  send(queueId: string, ...messages: Sending[]): Promise<string[]>;
  stats(queueId: string): Promise<Answer<Operations["GetQueueStats"]>>;
  /** The bodies of all messages of a queue, parsed, in order. */
  contents(queueId: string): Promise<Record<string, unknown>[]>;
  /** Waits until no delivery and no execution is under way. */
  rest(): Promise<void>;
  /** Waits for rest, then advances the clock and waits again. */
  pass(ms: number): Promise<void>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a world on an engine. */
export async function openJointWorld(kind: Ground): Promise<JointWorld> {
  const w = await openEngineWorld(kind);
  const policy = { allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: [] };
  const vault = createVault([Buffer.alloc(32, 7).toString("base64")]);
  const log = { debug: () => {}, info: () => {}, warn: (fields: object) => w.logged.push(fields) };

  const open = async () => {
    const { store, clock, room } = w.world;
    const subscriptions = createSubscriptions({
      store,
      clock,
      vault,
      dispatcher: createDispatcher({ clock, report: (err, lane) => w.logged.push({ err, lane }) }),
      pressure: createPressure(clock, () => {}),
      attempt: async () => ({ kind: "failure", class: "refused", message: "no endpoint is called here", durationMs: 0 }),
      policy,
      directory: room.directory,
      version: "0.0.0-test",
      log,
      random: () => 0.5,
    });
    await subscriptions.start();
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    const { apps, runs, engine } = w;
    return {
      subscriptions,
      handlers: {
        ...subscriptionHandlers({ access, subscriptions, findApp: apps.find }),
        ...workflowHandlers({ access, apps, runs, engine }),
      },
    };
  };
  let state = await open();

  const it: JointWorld = {
    w,
    get subscriptions() {
      return state.subscriptions;
    },
    async call(name, params, body, given = {}) {
      const operation = operations[name];
      const [organizationId, projectId] = w.world.within.split("/");
      const input = {
        params: operation.params.parse({ organizationId, projectId, ...params }),
        query: operation.query.parse(given.query ?? {}),
        body: operation.body.parse(body),
      };
      const call: Call = {
        caller: given.caller ?? everyone,
        requestId: "r",
        idempotency: given.key ?? null,
        traceparent: undefined,
        gone: new AbortController().signal,
        undelivered: () => {},
      };
      return ((state.handlers as Pick<Handlers, Name>)[name] as (call: Call, input: unknown) => Promise<never>)(call, input);
    },
    async queue(name, settings = {}) {
      return (await w.world.call("CreateQueue", {}, { name, ...settings })).id;
    },
    async send(queueId, ...messages) {
      const ids: string[] = [];
      for (let from = 0; from < messages.length; from += 10) {
        const sent = await w.world.call("SendMessages", { queueId }, { messages: messages.slice(from, from + 10) });
        ids.push(...sent.messages.map(({ messageId }) => messageId));
      }
      return ids;
    },
    stats: (queueId) => w.world.call("GetQueueStats", { queueId }),
    async contents(queueId) {
      if (kind === "databases") await placedResultChore(w.world.store).run();
      const { messages } = await w.world.call("PeekMessages", { queueId }, undefined, { query: { limit: 200 } });
      return messages.map(({ body }) => JSON.parse(body ?? "null") as Record<string, unknown>);
    },
    async rest() {
      // What one side did may be work for the other.
      for (let round = 0; round < 3; round++) {
        await state.subscriptions.rest();
        await w.engine.rest();
      }
    },
    async pass(ms) {
      await it.rest();
      await w.world.pass(ms);
      await it.rest();
    },
    async restart() {
      await state.subscriptions.stop(0);
      await w.restart();
      state = await open();
    },
    async close() {
      await state.subscriptions.stop(0);
      await w.close();
    },
  };
  return it;
}
