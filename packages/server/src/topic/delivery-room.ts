/**
 * Publishing and delivering put together over one store: what doors call, what housekeeping runs, and the lanes. Opens after the topic room,
 * whose changes it follows.
 */
import type { Registry } from "prom-client";
import type { Clock } from "../clock.ts";
import type { Changes } from "../cluster/changes.ts";
import type { Ownership } from "../cluster/ownership.ts";
import type { Dispatcher } from "../delivery/dispatcher.ts";
import type { DeliveryLog } from "../delivery/endpoint-lane.ts";
import type { Pressure } from "../delivery/pressure.ts";
import type { Attempt } from "../delivery/types.ts";
import type { Vault } from "../identity/vault.ts";
import type { Chore } from "../queue/housekeeping.ts";
import type { DeliverySettle, DeliverySettled } from "../store/delivery.ts";
import type { Store } from "../store/store.ts";
import { createDeliveryRecords, type DeliveryRecords } from "./deliveries.ts";
import { deliveryChores } from "./delivery-chores.ts";
import { createFanOut } from "./fan-out.ts";
import { createGather } from "./gather.ts";
import { createTopicHealth } from "./health.ts";
import { createTopicLanes } from "./lanes.ts";
import { createTopicMeter } from "./meter.ts";
import { createNotificationMemory } from "./notification-memory.ts";
import { createPublications, type Publications } from "./publications.ts";
import type { TopicRoom } from "./room.ts";

export interface DeliveryRoom {
  publications: Publications;
  deliveries: DeliveryRecords;
  chores: readonly Chore[];
  /** Takes up what an earlier process left, and makes the lanes of whatever waits. */
  start(): Promise<void>;
  /** P25: nothing new is fanned out or delivered. It does not stop the dispatcher, which is everybody's. */
  stop(): Promise<void>;
  /** Resolves once no fan-out is in hand and every lane with work is there. For tests and the virtual clock. */
  rest(): Promise<void>;
  /** Lanes that there are. */
  readonly lanes: number;
}

export interface DeliveryRoomDeps {
  store: Store;
  clock: Clock;
  vault: Vault;
  topics: Pick<TopicRoom, "tokens" | "onChange" | "onTopicChange">;
  dispatcher: Dispatcher;
  pressure: Pressure;
  attempt: Attempt;
  ownership: Ownership;
  changes?: Changes;
  registry: Registry;
  region: string;
  version: string;
  log: DeliveryLog;
  random?: () => number;
}

/** Puts it together. */
export function createDeliveryRoom(deps: DeliveryRoomDeps): DeliveryRoom {
  const { store, clock, topics, region, log } = deps;
  const { tokens } = topics;
  const meter = createTopicMeter(deps.registry);
  const notifications = createNotificationMemory(store);
  const fanOut = createFanOut({
    store,
    tokens,
    region,
    listener: meter,
    clock,
    report: (err) => log.warn({ err }, "a notification was not fanned out yet; it will be"),
  });
  const health = createTopicHealth({
    store,
    clock,
    report: (err) => log.warn({ err }, "the status of topic subscriptions could not be stored"),
  });
  const settle = createGather<DeliverySettle, DeliverySettled>({
    run: (rows) => store.run("settleDeliveries", rows),
    rows: 200,
    bytes: 4 * 1024 * 1024,
    width: store.engine === "sqlite" ? 1 : 2,
    sizeOf: ({ content, deadLetter }) => 500 + (content?.body.length ?? 0) + (deadLetter?.body.length ?? 0),
    waitingBytes: Number.POSITIVE_INFINITY,
  });
  const lanes = createTopicLanes({ ...deps, tokens, notifications, settle, health, meter, random: deps.random ?? Math.random });
  topics.onChange(({ queueNo }) => lanes.changed(queueNo));
  topics.onTopicChange((topicNo) => lanes.changed(topicNo));

  return {
    publications: createPublications({ store, clock, fanOut, notifications, meter }),
    deliveries: createDeliveryRecords(store),
    chores: deliveryChores(store, fanOut),
    async start() {
      await lanes.start();
      await fanOut.recover(0);
    },
    async stop() {
      await Promise.all([fanOut.stop(), lanes.stop()]);
      await health.close();
    },
    async rest() {
      await fanOut.rest();
      await lanes.rest();
    },
    get lanes() {
      return lanes.count;
    },
  };
}
