/**
 * Puts the rooms together over one store: who knows whom, and in which order they start and stop. Whoever runs them, a server or the tests
 * of the front door, brings the store, the time, the network and what is told where.
 */
import { randomBytes } from "node:crypto";
import type { Registry } from "prom-client";
import { uuidv7 } from "uuidv7";
import type { VirtualClock } from "./clock.ts";
import type { Changes } from "./cluster/changes.ts";
import { createDuties } from "./cluster/duties.ts";
import type { Ownership } from "./cluster/ownership.ts";
import { ownershipOver } from "./cluster/several.ts";
import { createConsumers } from "./consumer/consumer.ts";
import { createDispatcher } from "./delivery/dispatcher.ts";
import type { DeliveryLog } from "./delivery/endpoint-lane.ts";
import { createPressure } from "./delivery/pressure.ts";
import type { Attempt, EgressPolicy } from "./delivery/types.ts";
import { createDeployments } from "./deployment/deployment.ts";
import { createEnvironments } from "./deployment/environment.ts";
import type { AppDeps } from "./http/app.ts";
import { auditHandlers } from "./http/audit.ts";
import { basalticHandlers } from "./http/basaltic/handlers.ts";
import { messageHandlers } from "./http/ezgh/messages.ts";
import { queueHandlers } from "./http/ezgh/queues.ts";
import { subscriptionHandlers } from "./http/ezgh/subscriptions.ts";
import { gigadriveHandlers } from "./http/gigadrive/handlers.ts";
import type { Handlers } from "./http/handler.ts";
import { identityHandlers } from "./http/identity.ts";
import type { Logger } from "./http/problem.ts";
import { workflowHandlers } from "./http/workflows/handlers.ts";
import { auditChore, createAudit } from "./identity/audit.ts";
import { createAuthenticator } from "./identity/authenticate.ts";
import { createAccess } from "./identity/resolve.ts";
import { createTenancy } from "./identity/tenancy.ts";
import type { Vault } from "./identity/vault.ts";
import { placedQueueChore, queueChores } from "./queue/chores.ts";
import { createHousekeeping, type Housekeeping } from "./queue/housekeeping.ts";
import { createQueueRoom } from "./queue/room.ts";
import { createSchedules, scheduleChore } from "./schedule/schedule.ts";
import type { OpenStore } from "./store/open.ts";
import { createSubscriptions } from "./subscription/subscription.ts";
import { createDeliveryRoom } from "./topic/delivery-room.ts";
import { createExplainer } from "./topic/explain.ts";
import { createTopicRoom } from "./topic/room.ts";
import { createApps } from "./workflow/app.ts";
import { RUN_REMOVAL, workflowChores } from "./workflow/chores.ts";
import { createWorkflowEngine } from "./workflow/engine.ts";
import { placedResultChore } from "./workflow/placed-results.ts";
import { createRuns } from "./workflow/run.ts";

/** What the rooms are made of. */
export interface Parts {
  store: OpenStore;
  clock: VirtualClock;
  vault: Vault;
  attempt: Attempt;
  policy: EgressPolicy;
  registry: Registry;
  /** Which lanes and duties of a database are this node's, by the database's number, and how it hears of what other nodes change. */
  owned: (databaseNo: number) => Ownership;
  changes?: Changes | undefined;
  log: DeliveryLog & Logger;
  version: string;
  region: string;
  maxMessageBytes: number;
  /** Where this server is reached from outside. */
  publicUrl: () => string;
  /** The text of a key that was given from outside, and whether attempts are kept where a subscription does not say. */
  givenKey?: string | undefined;
  recordAttempts?: boolean;
  /** Which chores run: all unless given. */
  chores?: (name: string) => boolean;
}

export interface Rooms {
  handlers: Handlers;
  /** What the HTTP server needs of them. */
  doors: Pick<AppDeps, "authenticator" | "audit" | "links" | "executions">;
  housekeeping: Pick<Housekeeping, "settled">;
  /** Builds the lanes of queues. */
  start(): Promise<void>;
  /** Builds the lanes whose requests say where this server is reached: once it listens. */
  listening(): Promise<void>;
  /** No new work; open deliveries get `graceMs`. The doors may close meanwhile. */
  stop(graceMs: number): Promise<void>;
  /** Ends what no call needs any more. */
  close(): Promise<void>;
}

/** Opens the rooms; nothing starts yet but the chores. */
export function openRooms(parts: Parts): Rooms {
  const { store, clock, vault, policy, registry, log, region, maxMessageBytes, publicUrl } = parts;
  const random = (bytes: number): Uint8Array => new Uint8Array(randomBytes(bytes));
  const room = createQueueRoom({ store, clock, maxMessageBytes });
  const { directory } = room;
  const topicRoom = createTopicRoom({ store, vault, policy, publicUrl });
  const pressure = createPressure(clock, store.setSendShare);
  const dispatcher = createDispatcher({
    clock,
    report: (err, lane) => log.warn({ err, lane }, "a delivery lane failed; it goes on"),
  });
  const ownership = ownershipOver(new Map(store.databases.map(({ no }) => [no, parts.owned(no)])));
  const lanes = { ...parts, ownership, dispatcher, pressure };
  const deliveryRoom = createDeliveryRoom({ ...lanes, topics: topicRoom, registry });
  const installationChores = [
    ...topicRoom.chores,
    ...deliveryRoom.chores,
    ...workflowChores(store),
    auditChore(store),
    ...(store.databases.length > 1 ? [placedQueueChore(store), placedResultChore(store)] : []),
  ];
  // What is done for queues is done on each database, by whoever owns the duty there.
  const housekeepings = store.databases.map((database) => {
    const chores = [...queueChores(database.store), scheduleChore(database.store), ...(database.no === 0 ? installationChores : [])];
    return createHousekeeping({
      clock,
      chores: chores.filter(({ name }) => parts.chores?.(name) ?? true),
      failed: (chore, err) => log.error({ err, chore, database: database.name }, "a chore failed and will be tried again"),
      duties: createDuties({ store: database.store, ownership: parts.owned(database.no) }),
    });
  });
  const work = (chore: string): void => {
    for (const housekeeping of housekeepings) housekeeping.nudge(chore);
  };
  room.onWork(work);
  topicRoom.onWork(work);
  const schedules = createSchedules({ store, maxMessageBytes, work });
  const subscriptions = createSubscriptions({ ...lanes, directory });
  const served = (environmentNo: number): Promise<void> => consumers.served(environmentNo);
  const environments = createEnvironments({ store, vault, served });
  const deployments = createDeployments({ store, policy, served });
  const consumers = createConsumers({ ...lanes, directory, environments });
  const engine = createWorkflowEngine({ ...lanes, callbackUrl: () => `${publicUrl()}/v1/workflow-executions` });
  const apps = createApps({
    store,
    clock,
    vault,
    policy,
    engine,
    report: (err) => log.warn({ err }, "an app could not be asked for its workflows"),
    onDelete: () => work(RUN_REMOVAL),
  });
  const runs = createRuns({ store });
  const access = createAccess({ store, clock, findQueue: room.findQueue });
  const authenticator = createAuthenticator({
    store,
    clock,
    vault,
    onError: (err) => log.warn({ err }, "a key's last use was not stored"),
    given: parts.givenKey,
  });
  const tenancy = createTenancy({ store, authenticator, access, newId: uuidv7, random });
  const audit = createAudit({ store, failed: (err, calls) => log.error({ err, calls }, "management calls could not be kept") });
  const explainer = createExplainer({ store, directory, vault });

  return {
    handlers: {
      ...auditHandlers({ access, audit }),
      ...identityHandlers({ access, tenancy }),
      ...queueHandlers({ access, ...room }),
      ...messageHandlers({ access, ...room }),
      ...subscriptionHandlers({ access, subscriptions, findApp: apps.find }),
      ...basalticHandlers({ access, ...room, ...topicRoom, ...deliveryRoom, explainer, region }),
      ...workflowHandlers({ access, apps, runs, engine }),
      ...gigadriveHandlers({ access, ...room, consumers, schedules, environments, deployments }),
    },
    doors: { authenticator, audit, links: topicRoom.topicSubscriptions, executions: engine.executions },
    housekeeping: {
      async settled() {
        await Promise.all(housekeepings.map((each) => each.settled()));
      },
    },
    async start() {
      await subscriptions.start();
      await consumers.start();
    },
    async listening() {
      await engine.start();
      await deliveryRoom.start();
    },
    async stop(graceMs) {
      room.close();
      await Promise.all([subscriptions.stop(graceMs), consumers.stop(graceMs), engine.stop(graceMs), deliveryRoom.stop()]);
    },
    async close() {
      pressure.close();
      await Promise.all(housekeepings.map((housekeeping) => housekeeping.close()));
    },
  };
}
