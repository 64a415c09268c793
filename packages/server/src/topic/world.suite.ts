/**
 * What the suites of topics share: the queues' world (a real store, time that stands still), topics and their deliveries over it, called
 * through the Basaltic handlers, and real HTTPS endpoints under a certificate authority of the test's own.
 */
import { type Answer, type Operations, operations } from "@millrace/contract";
import { certificates, type Receiver, receiver, resolver } from "@millrace/testkit";
import { Registry } from "prom-client";
import { createClock } from "../clock.ts";
import { type Changes, followChanges } from "../cluster/changes.ts";
import { type Ownership, ownsEverything } from "../cluster/ownership.ts";
import { createAttempt } from "../delivery/attempt.ts";
import { createDispatcher } from "../delivery/dispatcher.ts";
import { createPressure } from "../delivery/pressure.ts";
import { basalticHandlers } from "../http/basaltic/handlers.ts";
import type { Call } from "../http/handler.ts";
import { createAccess } from "../identity/resolve.ts";
import { createVault } from "../identity/vault.ts";
import { type Engine, everyone, openWorld, type World } from "../queue/world.suite.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey } from "../store/types.ts";
import { createDeliveryRoom, type DeliveryRoom } from "./delivery-room.ts";
import { createExplainer } from "./explain.ts";
import { createTopicRoom, type TopicRoom } from "./room.ts";

type Name = keyof ReturnType<typeof basalticHandlers>;
type Subscription = Answer<Operations["GetTopicSubscription"]>["subscription"];
type Delivery = Answer<Operations["GetDelivery"]>["delivery"];

/** A node beside the world's own. */
export interface Peer {
  deliveries: DeliveryRoom;
  rest(): Promise<void>;
  close(): Promise<void>;
}

export interface TopicWorld {
  readonly world: World;
  readonly endpoint: Receiver;
  /** Two more endpoints. */
  readonly others: readonly [Receiver, Receiver];
  readonly rooms: { topics: TopicRoom; deliveries: DeliveryRoom };
  /** Warnings that were logged. */
  readonly warned: object[];
  /** Figures as `/metrics` would show them. */
  metrics(): Promise<string>;
  call<N extends Name>(
    name: N,
    params: Record<string, string>,
    body?: unknown,
    options?: { query?: Record<string, unknown>; key?: IdempotencyKey; traceparent?: string },
  ): Promise<Answer<Operations[N]>>;
  /** Makes a topic; answers its name. */
  topic(given?: Record<string, unknown>): Promise<string>;
  /** The URL of a path at the endpoint, or at another one. */
  url(path: string, at?: Receiver): string;
  /** Subscribes a path and confirms it by the link of its handshake. */
  webhook(topic: string, path: string, given?: Record<string, unknown>, at?: Receiver): Promise<Subscription>;
  /** Makes a queue and subscribes it; answers the subscription and the queue's id. */
  queue(
    topic: string,
    queue: Record<string, unknown>,
    given?: Record<string, unknown>,
  ): Promise<{ subscription: Subscription; queueId: string }>;
  /** Publishes text, or a whole body; answers the message id. */
  publish(topic: string, message: string | Record<string, unknown>): Promise<string>;
  /** The records of a subscription, oldest first. */
  records(subscriptionId: string): Promise<Delivery[]>;
  /** Resolves once nothing is under way. */
  rest(): Promise<void>;
  /** Waits until nothing is under way, advances the clock, and waits again. */
  pass(ms: number): Promise<void>;
  chore(name: string): Promise<number | null>;
  /** Another node on the same database. */
  peer(ownership: Ownership): Promise<Peer>;
  /** Ends this process's deliveries and opens them anew over the same store, as a restart does. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** Opens a world of its own on an engine. inside.example.com is a name that leads to a private address. */
export async function openTopicWorld(engine: Engine, ownership: Ownership = ownsEverything): Promise<TopicWorld> {
  const world = await openWorld(engine);
  await world.fresh();
  const project = world.within.split("/")[1] as string;
  const authority = certificates();
  const tls = authority.issue(["hooks.example.com"]);
  const endpoint = await receiver({ tls });
  const others = [await receiver({ tls }), await receiver({ tls })] as const;
  const policy = {
    allowHosts: ["hooks.example.com"],
    allowCidrs: [],
    allowHttp: false,
    allowPorts: [endpoint, ...others].map(({ port }) => port),
    ownHosts: ["millrace.example.com"],
  };
  const vault = createVault([Buffer.alloc(32, 7).toString("base64")]);
  const warned: object[] = [];
  let made = 0;

  const open = async (store: Store = world.store, ownership: Ownership = ownsEverything, changes?: Changes) => {
    const { clock, room } = world;
    const attempts = createAttempt({
      policy,
      ca: [authority.ca],
      resolve: resolver({ "hooks.example.com": "127.0.0.1", "inside.example.com": "10.0.0.1" }),
    });
    const dispatcher = createDispatcher({ clock, report: (err, lane) => warned.push({ err, lane }) });
    const registry = new Registry();
    const topics = createTopicRoom({ store, vault, policy, publicUrl: () => "https://millrace.example.com" });
    const deliveries = createDeliveryRoom({
      store,
      clock,
      vault,
      topics,
      dispatcher,
      pressure: createPressure(clock, () => {}),
      attempt: attempts.attempt,
      ownership,
      ...(changes === undefined ? {} : { changes }),
      registry,
      region: "local",
      version: "0.0.0-test",
      log: { debug: () => {}, info: () => {}, warn: (fields) => warned.push(fields) },
      // Delays are exactly 1, 2, 4 … seconds: the top of the jitter.
      random: () => 1,
    });
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    const explainer = createExplainer({ store, directory: room.directory, vault });
    const handlers = basalticHandlers({ access, ...room, ...topics, ...deliveries, explainer, region: "local" });
    await deliveries.start();
    return { attempts, dispatcher, registry, topics, deliveries, handlers };
  };
  let state = await open(world.store, ownership);
  const shut = async (node = state): Promise<void> => {
    const stopping = node.deliveries.stop();
    await node.dispatcher.stop(0);
    await stopping;
    node.attempts.close();
  };

  const topicWorld: TopicWorld = {
    world,
    endpoint,
    others,
    warned,
    get rooms() {
      return { topics: state.topics, deliveries: state.deliveries };
    },
    metrics: () => state.registry.metrics(),
    async call(name, params, body, given = {}) {
      const operation = operations[name];
      const input = {
        params: operation.params.parse(params),
        query: operation.query.parse(given.query ?? {}),
        body: operation.body.parse(body),
      };
      const call: Call = {
        caller: everyone,
        requestId: "r",
        idempotency: given.key ?? null,
        traceparent: given.traceparent,
        account: project,
        gone: new AbortController().signal,
        undelivered: () => {},
      };
      return (state.handlers[name] as (call: Call, input: unknown) => Promise<never>)(call, input);
    },
    async topic(given = {}) {
      const name = `topic-${++made}`;
      await topicWorld.call("CreateTopic", {}, { name, ...given });
      return name;
    },
    url: (path, at = endpoint) => `https://hooks.example.com:${at.port}/${path}`,
    async webhook(topic, path, given = {}, at = endpoint) {
      const body = { protocol: "webhook", endpoint: topicWorld.url(path, at), ...given };
      const { subscription } = await topicWorld.call("CreateTopicSubscription", { topic }, body);
      await topicWorld.rest();
      const { confirmable_until: until } = subscription;
      await state.topics.topicSubscriptions.confirm(state.topics.tokens.confirmation(subscription.id, Date.parse(until as string)).token);
      return (await topicWorld.call("GetTopicSubscription", { subscriptionId: subscription.id })).subscription;
    },
    async queue(topic, queue, given = {}) {
      const { id } = await world.call("CreateQueue", {}, queue);
      const { subscription } = await topicWorld.call("CreateTopicSubscription", { topic }, { protocol: "queue", endpoint: id, ...given });
      return { subscription, queueId: id };
    },
    async publish(topic, message) {
      const body = typeof message === "string" ? { message } : message;
      return (await topicWorld.call("Publish", { topic }, body)).notification.message_id;
    },
    async records(subscriptionId) {
      return (await topicWorld.call("ListDeliveries", { subscriptionId }, undefined, { query: { limit: 200 } })).deliveries.reverse();
    },
    async rest() {
      await state.deliveries.rest();
      await state.dispatcher.rest();
    },
    async pass(ms) {
      await topicWorld.rest();
      await world.pass(ms);
      await topicWorld.rest();
    },
    async chore(name) {
      const chore = [...state.topics.chores, ...state.deliveries.chores].find((each) => each.name === name);
      if (chore === undefined) throw new Error(`there is no chore ${name}`);
      return chore.run();
    },
    async peer(owned) {
      const store = await world.peer();
      // Changes are looked for in real time, which goes on here.
      const changes = followChanges({ store, clock: createClock(), log: { warn: (fields) => warned.push(fields) } });
      const node = await open(store, owned, changes);
      return {
        deliveries: node.deliveries,
        async rest() {
          await node.deliveries.rest();
          await node.dispatcher.rest();
        },
        async close() {
          changes.close();
          await shut(node);
          await store.close();
        },
      };
    },
    async restart() {
      await shut();
      await world.restart();
      state = await open(world.store, ownership);
    },
    async close() {
      await Promise.all([endpoint, ...others].map((each) => each.close()));
      await shut();
      await world.close();
    },
  };
  return topicWorld;
}
