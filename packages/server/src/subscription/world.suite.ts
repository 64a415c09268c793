/**
 * What the suites of subscriptions share: the queues' world (a real store, time that stands still), lanes over it, and real HTTPS
 * endpoints under a certificate authority of the test's own. Tests wait for requests and for rest, never for time.
 */
import { createHmac } from "node:crypto";
import { type Answer, type Operations, operations } from "@millrace/contract";
import { certificates, type ReceivedRequest, type Receiver, receiver, resolver } from "@millrace/testkit";
import { type Attempts, createAttempt } from "../delivery/attempt.ts";
import { createDispatcher } from "../delivery/dispatcher.ts";
import { createPressure } from "../delivery/pressure.ts";
import { subscriptionHandlers } from "../http/ezgh/subscriptions.ts";
import type { Call, Handlers } from "../http/handler.ts";
import type { Caller } from "../identity/caller.ts";
import { createAccess } from "../identity/resolve.ts";
import { createVault } from "../identity/vault.ts";
import { everyone, type Ground, openWorld, type World } from "../queue/world.suite.ts";
import type { IdempotencyKey } from "../store/types.ts";
import { createSubscriptions, type SubscriptionDeps, type Subscriptions } from "./subscription.ts";
import type { WireSubscription } from "./wire.ts";

type Name = keyof ReturnType<typeof subscriptionHandlers>;

/** A message as an endpoint gets it. */
export interface Pushed {
  messageId: string;
  body: string;
  receiveCount: number;
  groupId?: string;
  seq?: string;
}

export interface PushWorld {
  readonly world: World;
  readonly endpoint: Receiver;
  readonly other: Receiver;
  readonly subscriptions: Subscriptions;
  /** Requests that were started so far. */
  readonly started: number;
  /** Log lines of failures and warnings, as their fields. */
  readonly logged: object[];
  url(endpoint?: Receiver, path?: string): string;
  call<N extends Name>(
    name: N,
    params: Record<string, string>,
    body?: unknown,
    options?: { query?: Record<string, unknown>; caller?: Caller; key?: IdempotencyKey },
  ): Promise<Answer<Operations[N]>>;
  /** Makes a queue and a subscription on it that calls `endpoint`. */
  subscribe(
    queue: { name: string; type?: "standard" | "fifo" } & Record<string, unknown>,
    given?: Record<string, unknown>,
  ): Promise<WireSubscription & { signingSecret: string }>;
  /** Sends one message per body; `body@group` carries a group. Answers their ids. */
  send(queueId: string, ...bodies: string[]): Promise<string[]>;
  /** Waits until nothing is under way, then advances the clock. */
  pass(ms: number): Promise<void>;
  /** Ends this process's lanes after `graceMs` and builds new ones from the store, as a restart does. */
  restart(graceMs?: number): Promise<void>;
  status(id: string): Promise<WireSubscription["status"]>;
  stats(queueId: string): Promise<Answer<Operations["GetQueueStats"]>>;
  close(): Promise<void>;
}

export type PushWorldOptions = Partial<Pick<SubscriptionDeps, "random" | "recordAttempts">>;

/** Opens a world with two endpoints, both reached as hooks.example.com on ports of their own. */
export async function openPushWorld(engine: Ground, options: PushWorldOptions = {}): Promise<PushWorld> {
  const world = await openWorld(engine);
  await world.fresh();
  const [organizationId, projectId] = world.within.split("/") as [string, string];
  const authority = certificates();
  const tls = authority.issue(["hooks.example.com"]);
  const [endpoint, other] = [await receiver({ tls }), await receiver({ tls })];
  const policy = {
    allowHosts: ["hooks.example.com"],
    allowCidrs: [],
    allowHttp: false,
    allowPorts: [endpoint.port, other.port],
    ownHosts: ["millrace.example.com"],
  };
  const vault = createVault([Buffer.alloc(32, 7).toString("base64")]);
  const logged: object[] = [];
  let started = 0;
  const log = { debug: () => {}, info: (fields: object) => logged.push(fields), warn: (fields: object) => logged.push(fields) };

  const open = async (): Promise<{ attempts: Attempts; subscriptions: Subscriptions; handlers: Pick<Handlers, Name> }> => {
    const { store, clock, room } = world;
    const attempts = createAttempt({ policy, ca: [authority.ca], resolve: resolver({ "hooks.example.com": "127.0.0.1" }) });
    const subscriptions = createSubscriptions({
      store,
      clock,
      vault,
      pressure: createPressure(clock, () => {}),
      dispatcher: createDispatcher({ clock, report: (err, subscription) => logged.push({ err, subscription }) }),
      attempt: (request, signal) => {
        started++;
        return attempts.attempt(request, signal);
      },
      policy,
      directory: room.directory,
      version: "0.0.0-test",
      log,
      // The middle of the jitter: delays are exactly 1, 2, 4 … seconds.
      random: options.random ?? (() => 0.5),
      recordAttempts: options.recordAttempts ?? false,
    });
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    await subscriptions.start();
    return {
      attempts,
      subscriptions,
      handlers: subscriptionHandlers({
        access,
        subscriptions,
        findApp: async (projectNo, reference) => (await world.store.run("findApps", [{ projectNo, reference }]))[0] ?? null,
      }),
    };
  };
  let state = await open();
  const shut = async (graceMs: number): Promise<void> => {
    await state.subscriptions.stop(graceMs);
    state.attempts.close();
  };

  const push: PushWorld = {
    world,
    endpoint,
    other,
    logged,
    get started() {
      return started;
    },
    get subscriptions() {
      return state.subscriptions;
    },
    url: (of = endpoint, path = "/hook") => `https://hooks.example.com:${of.port}${path}`,
    async call(name, params, body, given = {}) {
      const operation = operations[name];
      const names = { organizationId, projectId };
      const input = {
        params: operation.params.parse({ ...names, ...params }),
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
      return (state.handlers[name] as (call: Call, input: unknown) => Promise<never>)(call, input);
    },
    async subscribe(queue, given = {}) {
      await world.call("CreateQueue", {}, queue);
      const { target, ...rest } = given;
      const wanted = { kind: "https", url: push.url(), ...(target as object | undefined) };
      const made = await push.call("CreateSubscription", {}, { queueId: queue.name, target: wanted, ...rest });
      return { ...made, signingSecret: made.signingSecret as string };
    },
    async send(queueId, ...bodies) {
      const ids: string[] = [];
      for (let from = 0; from < bodies.length; from += 10) {
        const messages = bodies.slice(from, from + 10).map((each) => {
          const [body, groupId] = each.split("@");
          return { body, ...(groupId === undefined ? {} : { groupId }) };
        });
        const sent = await world.call("SendMessages", { queueId }, { messages });
        ids.push(...sent.messages.map(({ messageId }) => messageId));
      }
      return ids;
    },
    async pass(ms) {
      await state.subscriptions.rest();
      await world.pass(ms);
    },
    async restart(graceMs = 0) {
      await shut(graceMs);
      await world.restart();
      state = await open();
    },
    status: async (subscriptionId) => (await push.call("GetSubscription", { subscriptionId })).status,
    stats: (queueId) => world.call("GetQueueStats", { queueId }),
    async close() {
      await Promise.all([endpoint.close(), other.close()]);
      await shut(0);
      await world.close();
    },
  };
  return push;
}

/** The bodies of a delivery, in order. */
export const bodies = (request: ReceivedRequest): string[] => messages(request).map(({ body }) => body);
/** The messages of a delivery, in order. */
export const messages = (request: ReceivedRequest): Pushed[] => request.json<{ messages: Pushed[] }>().messages;

/** A promise that a test resolves: an answer that waits. */
export function gate(): { open: () => void; after: Promise<void> } {
  let open: () => void = () => {};
  const after = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, after };
}

/** How many of the header's signatures are genuine, checked as the format's documentation tells receivers to. */
export function genuine(request: ReceivedRequest, secret: string): boolean {
  const parts = String(request.headers["ezgh-signature"]).split(",");
  const t = parts.find((part) => part.startsWith("t="))?.slice(2) ?? "";
  if (Math.abs(Date.now() / 1000 - Number(t)) > 300) return false;
  const key = new Uint8Array(Buffer.from(secret.slice("whsec_".length), "base64url"));
  const expected = createHmac("sha256", key).update(`${t}.`).update(request.body).digest("hex");
  return parts.includes(`v1=${expected}`);
}
