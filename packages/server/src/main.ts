/**
 * The composition root: the only file that knows every room. It opens them from the store upwards and closes them in the opposite
 * order, so that nothing is asked of a room that is gone.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { collectDefaultMetrics, Registry } from "prom-client";
import { uuidv7 } from "uuidv7";
import { createClock, type VirtualClock } from "./clock.ts";
import { followChanges } from "./cluster/changes.ts";
import { createDuties } from "./cluster/duties.ts";
import { meterCluster } from "./cluster/metrics.ts";
import { createNode } from "./cluster/node.ts";
import { ownsEverything } from "./cluster/ownership.ts";
import { type Config, egressPolicy } from "./config.ts";
import { createConsumers } from "./consumer/consumer.ts";
import { createAttempt } from "./delivery/attempt.ts";
import { createDispatcher } from "./delivery/dispatcher.ts";
import type { Resolve } from "./delivery/egress.ts";
import { meterAttempts } from "./delivery/meter.ts";
import { createPressure } from "./delivery/pressure.ts";
import { createDeployments } from "./deployment/deployment.ts";
import { createEnvironments } from "./deployment/environment.ts";
import { createApp } from "./http/app.ts";
import { auditHandlers } from "./http/audit.ts";
import { basalticHandlers } from "./http/basaltic/handlers.ts";
import { closeApp } from "./http/close.ts";
import { addDevClock } from "./http/dev-clock.ts";
import { messageHandlers } from "./http/ezgh/messages.ts";
import { queueHandlers } from "./http/ezgh/queues.ts";
import { subscriptionHandlers } from "./http/ezgh/subscriptions.ts";
import { gigadriveHandlers } from "./http/gigadrive/handlers.ts";
import type { Handlers } from "./http/handler.ts";
import { identityHandlers } from "./http/identity.ts";
import { createLoad } from "./http/load.ts";
import { workflowHandlers } from "./http/workflows/handlers.ts";
import { auditChore, createAudit } from "./identity/audit.ts";
import { createAuthenticator } from "./identity/authenticate.ts";
import { ensureInstallation } from "./identity/installation.ts";
import { createAccess } from "./identity/resolve.ts";
import { createTenancy } from "./identity/tenancy.ts";
import { openVault } from "./identity/vault.ts";
import { createHousekeeping } from "./queue/housekeeping.ts";
import { createQueueRoom } from "./queue/room.ts";
import { createSchedules, scheduleChore } from "./schedule/schedule.ts";
import { openStore } from "./store/open.ts";
import type { Store } from "./store/store.ts";
import { createSubscriptions } from "./subscription/subscription.ts";
import { createDeliveryRoom } from "./topic/delivery-room.ts";
import { createExplainer } from "./topic/explain.ts";
import { createTopicRoom } from "./topic/room.ts";
import { version } from "./version.ts";
import { createApps } from "./workflow/app.ts";
import { RUN_REMOVAL, workflowChores } from "./workflow/chores.ts";
import { createWorkflowEngine } from "./workflow/engine.ts";
import { createRuns } from "./workflow/run.ts";

const MiB = 1024 * 1024;
/** How long `/readyz` waits for the store, in real milliseconds. */
const READY_MS = 2_000;

export interface ServerOptions {
  config: Config;
  /** What must be there at a first start: an organization, a project in it, and a key that may do everything. */
  install: { organization: string; project: string; key: { name: string; text?: string } };
  clock?: VirtualClock;
  /** Given, `POST /dev/clock/advance` moves the clock, and every new offset is told here before it is in force. */
  virtualClock?: ((offsetMs: number) => void) | undefined;
  /** The name service and certificate authorities of deliveries; the machine's unless given. */
  resolve?: Resolve;
  ca?: readonly string[];
}

export interface RunningServer {
  url: string;
  store: Store;
  clock: VirtualClock;
  /** The key's text when this start made it, else `null`. */
  apiKey: string | null;
  /** Stops gracefully (P25): no new work, open deliveries get `graceMs`, then everything closes. */
  close(graceMs?: number): Promise<void>;
}

/** Starts a server; rejects with what keeps it from starting. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config } = options;
  const clock = options.clock ?? createClock();
  const logger = pino({ level: config.logLevel, base: undefined }, pino.destination(2));
  const random = (bytes: number): Uint8Array => new Uint8Array(randomBytes(bytes));
  const onSqlite = config.databaseUrl === null;
  if (onSqlite) mkdirSync(config.data, { recursive: true, mode: 0o700 });
  const vault = openVault({ keys: config.encryptionKeys, keyFile: onSqlite ? join(config.data, "millrace.key") : null });
  const store = await openStore({ url: config.databaseUrl ?? join(config.data, "millrace.db"), clock, poolSize: config.poolSize });

  try {
    vault.check(await store.run("sealedUnder"));
    const policy = egressPolicy(config);
    const registry = new Registry();
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
    const attempts = createAttempt({ policy, resolve: options.resolve, ca: options.ca });
    const attempt = meterAttempts(attempts, registry);
    const node = onSqlite
      ? null
      : createNode({
          store,
          clock: createClock(),
          monotonic: () => performance.now(),
          id: uuidv7(),
          name: `${hostname()}:${config.port === 0 ? process.pid : config.port}`,
          version,
          log: logger,
        });
    const ownership = node ?? ownsEverything;
    if (node !== null) meterCluster({ registry, node, store });
    const changes = followChanges({ store, clock: createClock(), log: logger });
    const room = createQueueRoom({ store, clock, maxMessageBytes: config.messageSizeLimitBytes });
    let url = "";
    const topicRoom = createTopicRoom({ store, vault, policy, publicUrl: () => config.publicUrl ?? url });
    const pressure = createPressure(clock, store.setSendShare);
    const dispatcher = createDispatcher({
      clock,
      report: (err, lane) => logger.warn({ err, lane }, "a delivery lane failed; it goes on"),
    });
    const deliveryRoom = createDeliveryRoom({
      store,
      clock,
      vault,
      topics: topicRoom,
      dispatcher,
      pressure,
      attempt,
      ownership,
      changes,
      registry,
      region: config.region,
      version,
      log: logger,
    });
    const housekeeping = createHousekeeping({
      clock,
      chores: [
        ...room.chores,
        ...topicRoom.chores,
        ...deliveryRoom.chores,
        scheduleChore(store),
        ...workflowChores(store),
        auditChore(store),
      ],
      failed: (chore, error) => logger.error({ err: error, chore }, "a chore failed and will be tried again"),
      duties: createDuties({ store, ownership }),
    });
    room.onWork((chore) => housekeeping.nudge(chore));
    topicRoom.onWork((chore) => housekeeping.nudge(chore));
    const schedules = createSchedules({
      store,
      maxMessageBytes: config.messageSizeLimitBytes,
      work: (chore) => housekeeping.nudge(chore),
    });
    const subscriptions = createSubscriptions({
      store,
      clock,
      vault,
      dispatcher,
      pressure,
      attempt,
      policy,
      directory: room.directory,
      version,
      log: logger,
      recordAttempts: config.recordAttempts,
      ownership,
      changes,
    });
    const served = (environmentNo: number): Promise<void> => consumers.served(environmentNo);
    const environments = createEnvironments({ store, vault, served });
    const deployments = createDeployments({ store, policy, served });
    const consumers = createConsumers({
      store,
      clock,
      vault,
      dispatcher,
      pressure,
      attempt,
      directory: room.directory,
      environments,
      version,
      log: logger,
      ownership,
    });
    const engine = createWorkflowEngine({
      store,
      clock,
      vault,
      dispatcher,
      pressure,
      attempt,
      version,
      log: logger,
      callbackUrl: () => `${config.publicUrl ?? url}/v1/workflow-executions`,
      ownership,
      changes,
    });
    const apps = createApps({
      store,
      vault,
      policy,
      engine,
      report: (err) => logger.warn({ err }, "an app could not be asked for its workflows"),
      onDelete: () => housekeeping.nudge(RUN_REMOVAL),
    });
    const runs = createRuns({ store });
    const access = createAccess({ store, clock, findQueue: room.findQueue });
    const authenticator = createAuthenticator({
      store,
      clock,
      vault,
      onError: (error) => logger.warn({ err: error }, "a key's last use was not stored"),
      given: options.install.key.text,
    });
    const tenancy = createTenancy({ store, authenticator, access, newId: uuidv7, random });
    const audit = createAudit({ store, failed: (err, calls) => logger.error({ err, calls }, "management calls could not be kept") });
    const handlers: Handlers = {
      ...auditHandlers({ access, audit }),
      ...identityHandlers({ access, tenancy }),
      ...queueHandlers({ access, ...room }),
      ...messageHandlers({ access, ...room }),
      ...subscriptionHandlers({ access, subscriptions, findApp: apps.find }),
      ...basalticHandlers({
        access,
        ...room,
        ...topicRoom,
        ...deliveryRoom,
        explainer: createExplainer({ store, directory: room.directory, vault }),
        region: config.region,
      }),
      ...workflowHandlers({ access, apps, runs, engine }),
      ...gigadriveHandlers({ access, ...room, consumers, schedules, environments, deployments }),
    };
    const load = createLoad({ memoryCapBytes: config.memoryCapMegabytes * MiB });
    const app = createApp({
      handlers,
      authenticator,
      vault,
      clock,
      load,
      registry,
      audit,
      logger,
      ready: () => answers(store),
      backup: { copy: store.backup, folder: config.data, random },
      links: topicRoom.topicSubscriptions,
      executions: engine.executions,
    });
    if (options.virtualClock !== undefined) addDevClock(app, clock, options.virtualClock);

    const { apiKey } = await ensureInstallation(store, { ...options.install, newId: uuidv7, random });
    await subscriptions.start();
    await consumers.start();
    url = await app.listen({ host: config.host, port: config.port });
    // Tasks say where executors report.
    await engine.start();
    await deliveryRoom.start();
    // Not before: a start that fails must take no work from those that run.
    await node?.start();
    logger.info({ url, version, engine: store.engine }, "the server listens");

    let closing: Promise<void> | undefined;
    const close = async (graceMs: number): Promise<void> => {
      room.close();
      changes.close();
      await Promise.all([
        node?.leave(),
        subscriptions.stop(graceMs),
        consumers.stop(graceMs),
        engine.stop(graceMs),
        deliveryRoom.stop(),
        closeApp(app, graceMs),
      ]);
      pressure.close();
      attempts.close();
      load.close();
      await housekeeping.close();
      await store.close();
    };
    return {
      url,
      store,
      clock,
      apiKey,
      close: (graceMs = config.shutdownGraceSeconds * 1000) => {
        closing ??= close(graceMs);
        return closing;
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Whether the store answers within a moment. */
async function answers(store: Store): Promise<boolean> {
  const late = AbortSignal.timeout(READY_MS);
  return Promise.race([
    store.run("findOrganization", "-").then(() => true),
    new Promise<boolean>((resolve) => late.addEventListener("abort", () => resolve(false), { once: true })),
  ]);
}
