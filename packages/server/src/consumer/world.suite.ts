/**
 * What the suites of push consumers share: the queues' world (a real store, time that stands still), all lanes over one dispatcher, and
 * real HTTPS endpoints. A request's deadline is the test's to end; tests wait for requests and for rest, never for time.
 */
import { createHash, createHmac } from "node:crypto";
import { type Answer, type Operations, operations } from "@millrace/contract";
import { certificates, type ReceivedRequest, type Receiver, receiver, resolver } from "@millrace/testkit";
import { type Attempts, createAttempt } from "../delivery/attempt.ts";
import { createDispatcher } from "../delivery/dispatcher.ts";
import { createPressure } from "../delivery/pressure.ts";
import type { DeliveryRequest } from "../delivery/types.ts";
import { createDeployments } from "../deployment/deployment.ts";
import { createEnvironments } from "../deployment/environment.ts";
import { subscriptionHandlers } from "../http/ezgh/subscriptions.ts";
import { gigadriveHandlers } from "../http/gigadrive/handlers.ts";
import type { Call, Handlers } from "../http/handler.ts";
import type { Caller } from "../identity/caller.ts";
import { createAccess } from "../identity/resolve.ts";
import { createVault } from "../identity/vault.ts";
import { createQueueRoom } from "../queue/room.ts";
import { everyone, type Ground, openWorld, type World } from "../queue/world.suite.ts";
import { createSchedules } from "../schedule/schedule.ts";
import type { Store } from "../store/store.ts";
import { createSubscriptions } from "../subscription/subscription.ts";
import { type Consumers, createConsumers } from "./consumer.ts";

type Name = keyof (ReturnType<typeof gigadriveHandlers> & ReturnType<typeof subscriptionHandlers>);
type MessageRecord = Answer<Operations["GigadriveGetMessage"]>;

export interface ConsumerWorld {
  readonly world: World;
  readonly endpoint: Receiver;
  readonly other: Receiver;
  readonly consumers: Consumers;
  /** Requests that were started, as the engine was given them. */
  readonly started: readonly DeliveryRequest[];
  /** Lets the deadlines of all open requests pass. */
  timeOut(): void;
  base(endpoint?: Receiver): string;
  call<N extends Name>(
    name: N,
    params: Record<string, string>,
    body?: unknown,
    options?: { query?: Record<string, unknown>; caller?: Caller },
  ): Promise<Answer<Operations[N]>>;
  /** Registers a deployment and promotes it. */
  deploy(id: string, endpoint?: Receiver, environment?: string): Promise<void>;
  /** Makes `emails`, a push queue with these settings. */
  push(settings?: Record<string, unknown>): Promise<void>;
  /** Sends one message to `emails`; answers its id. */
  send(message: Record<string, unknown>): Promise<string>;
  /** A message of `emails`, or `null` when it is gone. */
  message(id: string): Promise<MessageRecord | null>;
  stats(): Promise<Answer<Operations["GigadriveGetQueue"]>["stats"]>;
  secret(): Promise<string>;
  /** Waits until nothing is under way. */
  rest(): Promise<void>;
  /** Waits until nothing is under way, then advances the clock. */
  pass(ms: number): Promise<void>;
  /** Ends this process's lanes and builds new ones from the store, as a restart does. */
  restart(): Promise<void>;
  /** Starts another node's lanes on the same database. */
  node(): Promise<{ store: Store; consumers: Consumers; close: () => Promise<void> }>;
  close(): Promise<void>;
}

/** Opens a world with two endpoints, both reached as app.example.com on ports of their own. */
export async function openConsumerWorld(engine: Ground): Promise<ConsumerWorld> {
  const world = await openWorld(engine);
  await world.fresh();
  const [organizationId, projectId] = world.within.split("/") as [string, string];
  const authority = certificates();
  const tls = authority.issue(["app.example.com"]);
  const [endpoint, other] = [await receiver({ tls }), await receiver({ tls })];
  const policy = { allowHosts: ["app.example.com"], allowCidrs: [], allowHttp: false, allowPorts: [] as number[], ownHosts: [] };
  // A port where nobody listens is opened too: refused connections are among the answers.
  policy.allowPorts.push(endpoint.port, other.port, 1);
  const vault = createVault([Buffer.alloc(32, 7).toString("base64")]);
  const started: DeliveryRequest[] = [];
  const deadlines = new Set<() => void>();
  const log = { debug: () => {}, info: () => {}, warn: () => {} };

  const open = async (
    of: Pick<World, "store" | "room"> = world,
  ): Promise<{ attempts: Attempts; consumers: Consumers; handlers: Pick<Handlers, Name> }> => {
    const { clock } = world;
    const { store, room } = of;
    const attempts = createAttempt({
      policy,
      ca: [authority.ca],
      resolve: resolver({ "app.example.com": "127.0.0.1" }),
      after: (_ms, call) => {
        deadlines.add(call);
        return () => deadlines.delete(call);
      },
    });
    const attempt: typeof attempts.attempt = (request, signal) => {
      started.push(request);
      return attempts.attempt(request, signal);
    };
    const dispatcher = createDispatcher({ clock, report: () => {} });
    const served = (environmentNo: number): Promise<void> => consumers.served(environmentNo);
    const environments = createEnvironments({ store, vault, served });
    const deployments = createDeployments({ store, policy, served });
    const version = "0.0.0-test";
    // The middle of the jitter: delays are exactly 5, 10, 20 … seconds.
    const pressure = createPressure(clock, () => {});
    const shared = { pressure, store, clock, vault, dispatcher, attempt, directory: room.directory, version, log, random: () => 0.5 };
    const consumers = createConsumers({ ...shared, environments });
    const subscriptions = createSubscriptions({ ...shared, policy });
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    const schedules = createSchedules({ store, maxMessageBytes: 262_144, work: () => {} });
    await consumers.start();
    const handlers = {
      ...gigadriveHandlers({ access, ...room, schedules, consumers, environments, deployments }),
      ...subscriptionHandlers({
        access,
        subscriptions,
        findApp: async (projectNo, reference) => (await world.store.run("findApps", [{ projectNo, reference }]))[0] ?? null,
      }),
    };
    return { attempts, consumers, handlers };
  };
  let state = await open();
  const shut = async (): Promise<void> => {
    await state.consumers.stop(0);
    state.attempts.close();
  };
  const emails = { queueName: "emails" };

  const push: ConsumerWorld = {
    world,
    endpoint,
    other,
    started,
    get consumers() {
      return state.consumers;
    },
    timeOut() {
      for (const call of [...deadlines]) call();
    },
    base: (of = endpoint) => `https://app.example.com:${of.port}`,
    async call(name, params, body, given = {}) {
      const operation = operations[name];
      const input = {
        params: operation.params.parse({
          ...(name.includes("Subscription") ? { organizationId, projectId } : { applicationId: projectId }),
          ...params,
        }),
        query: operation.query.parse(given.query ?? {}),
        body: operation.body.parse(body),
      };
      const call: Call = {
        caller: given.caller ?? everyone,
        requestId: "r",
        idempotency: null,
        traceparent: undefined,
        gone: new AbortController().signal,
        undelivered: () => {},
      };
      return (state.handlers[name] as (call: Call, input: unknown) => Promise<never>)(call, input);
    },
    async deploy(deploymentId, to = endpoint, environment = "production") {
      await push.call("PutDeployment", { deploymentId }, { url: push.base(to), environment });
      await push.call("PromoteDeployment", { deploymentId });
    },
    async push(settings = {}) {
      await push.call("GigadriveCreateQueue", {}, { name: "emails", consumerPath: "/api/emails?x=1", ...world.placed, ...settings });
    },
    async send(message) {
      const sent = await push.call("GigadriveSend", emails, message);
      if (!("messageId" in sent) || sent.messageId === null) throw new Error(`refused: ${JSON.stringify(sent)}`);
      return sent.messageId;
    },
    async message(messageId) {
      try {
        return await push.call("GigadriveGetMessage", { ...emails, messageId });
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "message_not_found") return null;
        throw error;
      }
    },
    stats: async () => (await push.call("GigadriveGetQueue", emails)).stats,
    secret: async () => (await push.call("GetSigningSecret", { environmentId: "production" })).secret,
    rest: () => state.consumers.rest(),
    async pass(ms) {
      await state.consumers.rest();
      await world.pass(ms);
    },
    async restart() {
      await shut();
      await world.restart();
      state = await open();
    },
    async node() {
      const store = await world.peer();
      const room = createQueueRoom({ store, clock: world.clock });
      const { attempts, consumers } = await open({ store, room });
      const close = async (): Promise<void> => {
        await consumers.stop(0);
        attempts.close();
        room.close();
        await store.close();
      };
      return { store, consumers, close };
    },
    async close() {
      await Promise.all([endpoint.close(), other.close()]);
      await shut();
      await world.close();
    },
  };
  return push;
}

/** A header of the platform's, without its prefix. */
export const own = (request: ReceivedRequest, name: string): string | undefined => request.headers[`x-gigadrive-queue-${name}`]?.toString();

/** Whether the signature is genuine, checked as the source's page tells receivers to. */
export function genuine(request: ReceivedRequest, secret: string): boolean {
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(own(request, "signature") ?? "") ?? [];
  if (t === undefined || Math.abs(Date.now() - Number(t)) > 300_000) return false;
  const hash = createHash("sha256").update(request.body).digest("hex");
  const text = [t, own(request, "name"), own(request, "message-id"), own(request, "attempt"), hash].join(".");
  return createHmac("sha256", secret).update(text).digest("hex") === v1;
}
