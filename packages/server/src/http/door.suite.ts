/**
 * A whole server for the tests of the front door: real store, real handlers, real sockets; only time stands still but for `advance`.
 * `request` speaks plain HTTP, so that tests see exactly what a client sees.
 */
import { randomBytes } from "node:crypto";
import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { postgres, scratch } from "@millrace/testkit";
import type { FastifyInstance } from "fastify";
import { Registry } from "prom-client";
import { uuidv7 } from "uuidv7";
import { createClock, type VirtualClock } from "../clock.ts";
import { ownsEverything } from "../cluster/ownership.ts";
import { ensureInstallation } from "../identity/installation.ts";
import { createVault, type Vault } from "../identity/vault.ts";
import type { Housekeeping } from "../queue/housekeeping.ts";
import { openRooms } from "../rooms.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { type AppLimits, createApp } from "./app.ts";
import type { Handlers } from "./handler.ts";
import { createLoad, type Load } from "./load.ts";

export type Engine = "sqlite" | "postgres";

export interface Answered {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The body as JSON; `undefined` when it is not. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  json: any;
}

export interface Asked {
  method?: string;
  headers?: Record<string, string | string[]>;
  /** Sent as it is. */
  raw?: string | Uint8Array;
  /** Sent as JSON. */
  json?: unknown;
  /** The key to call with; the installation's by default, `null` for none. */
  key?: string | null;
}

export interface Door {
  readonly app: FastifyInstance;
  readonly store: Store;
  readonly vault: Vault;
  readonly clock: VirtualClock;
  readonly housekeeping: Pick<Housekeeping, "settled">;
  /** The database, for other stores on it. */
  readonly url: string;
  readonly port: number;
  readonly apiKey: string;
  /** What was logged as an error. */
  readonly logged: Record<string, unknown>[];
  /** Cold verbs that were run, by name, in order. */
  readonly verbs: string[];
  request(path: string, asked?: Asked): Promise<Answered>;
  /** Under `/v1/organizations/acme/projects/shop`. */
  shop(path: string, asked?: Asked): Promise<Answered>;
  /** Starts a request whose socket can be cut. */
  open(path: string, asked?: Asked): ClientRequest;
  close(): Promise<void>;
}

const PROJECT = "/v1/organizations/acme/projects/shop";

/** Opens a server on an engine of its own (or on the data at `url`). */
export async function openDoor(
  engine: Engine,
  options: {
    limits?: Partial<AppLimits>;
    handlers?: (real: Handlers) => Partial<Handlers>;
    load?: Load;
    ready?: () => Promise<boolean>;
    url?: string;
    /** The names of further databases. */
    databases?: readonly string[];
  } = {},
): Promise<Door> {
  const folder = options.url === undefined && engine === "sqlite" ? scratch("door") : null;
  const url = options.url ?? (folder === null ? await (await postgres()).fresh() : join(folder.path, "millrace.db"));
  const clock = createClock({ frozen: true });
  const databases: Record<string, string> = {};
  for (const name of options.databases ?? []) databases[name] = await (await postgres()).fresh();
  const opened = await openStore({ url, databases, clock });
  const verbs: string[] = [];
  const store: typeof opened = {
    ...opened,
    engine: opened.engine,
    run(verb, ...args) {
      // What is kept of a call says nothing of how it was answered.
      if (verb !== "addAudit") verbs.push(verb);
      return opened.run(verb, ...args);
    },
    once(key, verb, ...args) {
      verbs.push(verb);
      return opened.once(key, verb, ...args);
    },
  };
  const logged: Record<string, unknown>[] = [];
  const vault = createVault([Buffer.alloc(32, 9).toString("base64")]);
  const random = (bytes: number): Uint8Array => new Uint8Array(randomBytes(bytes));
  const installed = await ensureInstallation(store, {
    organization: "acme",
    project: "shop",
    key: { name: "root" },
    newId: uuidv7,
    random,
  });
  const registry = new Registry();
  const told = (fields: object): void => void logged.push({ ...fields });
  const rooms = openRooms({
    store,
    clock,
    vault,
    attempt: async () => ({ kind: "failure", class: "refused", message: "nothing is delivered in this test", durationMs: 1 }),
    policy: { allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: [] },
    registry,
    owned: () => ownsEverything,
    log: { debug: () => {}, info: () => {}, warn: told, error: told },
    version: "0.0.0",
    region: "local",
    maxMessageBytes: 262_144,
    publicUrl: () => "https://millrace.example.com",
    // Of the chores only the schedules': the others have suites of their own.
    chores: (name) => name === "schedules",
  });
  const app = createApp({
    handlers: { ...rooms.handlers, ...options.handlers?.(rooms.handlers) },
    ...rooms.doors,
    vault,
    clock,
    load: options.load ?? createLoad({ memoryCapBytes: 4 * 1024 ** 3, maxLoopDelayMs: 60_000 }),
    registry,
    logger: { error: told },
    ready: options.ready ?? (async () => true),
    limits: options.limits,
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const agent = new HttpAgent({ keepAlive: true, maxSockets: 64 });
  const apiKey = installed.apiKey ?? "";

  const open = (path: string, asked: Asked = {}): ClientRequest => {
    const body = asked.raw ?? (asked.json === undefined ? undefined : JSON.stringify(asked.json));
    const key = asked.key === undefined ? apiKey : asked.key;
    const headers = {
      ...(body === undefined ? {} : { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...asked.headers,
    };
    const method = asked.method ?? (body === undefined ? "GET" : "POST");
    const request = httpRequest({ host: "127.0.0.1", port, path, method, headers, agent });
    request.end(body);
    return request;
  };
  const request = (path: string, asked: Asked = {}): Promise<Answered> =>
    new Promise((resolve, reject) => {
      const sent = open(path, asked);
      sent.on("error", reject);
      sent.on("response", (response) => {
        const chunks: string[] = [];
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = chunks.join("");
          let json: unknown;
          try {
            json = JSON.parse(text);
          } catch {}
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json });
        });
      });
    });

  return {
    app,
    store,
    vault,
    clock,
    housekeeping: rooms.housekeeping,
    url,
    port,
    apiKey,
    logged,
    verbs,
    request,
    shop: (path, asked) => request(PROJECT + path, asked),
    open,
    async close() {
      agent.destroy();
      await Promise.all([rooms.stop(0), app.close()]);
      await rooms.close();
      await store.close();
      folder?.remove();
    },
  };
}
