/**
 * The server as a process has it: settings in, a listening address out. It opens everything from the store upwards, puts the rooms on it
 * (`rooms.ts`), and closes in the opposite order, so that nothing is asked of what is gone.
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
import { meterCluster } from "./cluster/metrics.ts";
import { createNode } from "./cluster/node.ts";
import { ownsEverything } from "./cluster/ownership.ts";
import { changesOver } from "./cluster/several.ts";
import { type Config, egressPolicy } from "./config.ts";
import { createAttempt } from "./delivery/attempt.ts";
import type { Resolve } from "./delivery/egress.ts";
import { meterAttempts } from "./delivery/meter.ts";
import { createApp } from "./http/app.ts";
import { closeApp } from "./http/close.ts";
import { addDevClock } from "./http/dev-clock.ts";
import { createLoad } from "./http/load.ts";
import { ensureInstallation } from "./identity/installation.ts";
import { openVault } from "./identity/vault.ts";
import { openRooms } from "./rooms.ts";
import { openStore } from "./store/open.ts";
import type { Store } from "./store/store.ts";
import { version } from "./version.ts";

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
  const store = await openStore({
    url: config.databaseUrl ?? join(config.data, "millrace.db"),
    databases: config.databases,
    clock,
    poolSize: config.poolSize,
  });

  try {
    vault.check(await store.run("sealedUnder"));
    const policy = egressPolicy(config);
    const registry = new Registry();
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
    const attempts = createAttempt({ policy, resolve: options.resolve, ca: options.ca });
    const attempt = meterAttempts(attempts, registry);
    const at = { id: uuidv7(), name: `${hostname()}:${config.port === 0 ? process.pid : config.port}`, version };
    // A node of each database: what is shared out there, it takes part in there.
    const nodes = (onSqlite ? [] : store.databases).map((database) => ({
      ...database,
      node: createNode({
        ...at,
        store: database.store,
        clock: createClock(),
        monotonic: () => performance.now(),
        log: logger.child({ database: database.name }),
      }),
    }));
    const owners = new Map(nodes.map(({ no, node }) => [no, node]));
    if (!onSqlite) meterCluster({ registry, seen: nodes });
    const changes = changesOver(
      store.databases.map((database) =>
        followChanges({ store: database.store, clock: createClock(), log: logger, missed: !database.opened }),
      ),
    );
    let url = "";
    const rooms = openRooms({
      store,
      clock,
      vault,
      attempt,
      policy,
      registry,
      owned: (databaseNo) => owners.get(databaseNo) ?? ownsEverything,
      changes,
      log: logger,
      version,
      region: config.region,
      maxMessageBytes: config.messageSizeLimitBytes,
      publicUrl: () => config.publicUrl ?? url,
      givenKey: options.install.key.text,
      recordAttempts: config.recordAttempts,
    });
    const load = createLoad({ memoryCapBytes: config.memoryCapMegabytes * MiB });
    const app = createApp({
      handlers: rooms.handlers,
      ...rooms.doors,
      vault,
      clock,
      load,
      registry,
      logger,
      ready: () => answers(store),
      backup: { copy: store.backup, folder: config.data, random },
    });
    if (options.virtualClock !== undefined) addDevClock(app, clock, options.virtualClock);

    const { apiKey } = await ensureInstallation(store, { ...options.install, newId: uuidv7, random });
    await rooms.start();
    url = await app.listen({ host: config.host, port: config.port });
    await rooms.listening();
    // Not before: a start that fails must take no work from those that run.
    await Promise.all(nodes.map(({ node }) => node.start()));
    logger.info({ url, version, engine: store.engine }, "the server listens");

    let closing: Promise<void> | undefined;
    const close = async (graceMs: number): Promise<void> => {
      changes.close();
      await Promise.all([...nodes.map(({ node }) => node.leave()), rooms.stop(graceMs), closeApp(app, graceMs)]);
      attempts.close();
      load.close();
      await rooms.close();
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
