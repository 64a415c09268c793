/** A whole server in this process, on SQLite in a folder of its own, whose deliveries may go to loopback. Its clock moves on by hand. */

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { startServer } from "@millrace/server";
import { createClock } from "@millrace/server/clock";
import { loadConfig } from "@millrace/server/config";
import { scratch } from "@millrace/testkit";
import { Millrace } from "./index.ts";

export interface Live {
  url: string;
  apiKey: string;
  client: Millrace;
  /** The signing secret of the environment `production`. */
  secret: string;
  /** Moves the server's time. */
  advance(ms: number): void;
  /** One call of the API, relative to the application. */
  ask<T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T>;
  /** Asks again, for half a minute at most, until the answer is good: for what happens after an answer. */
  until<T>(ask: () => Promise<T>, good: (value: T) => boolean): Promise<T>;
  /** Makes an application that is served already the current deployment. */
  register(id: string, url: string): Promise<void>;
  /** Serves an application on loopback and makes it the current deployment. */
  deploy(id: string, listener: RequestListener): Promise<void>;
  close(): Promise<void>;
}

export async function live(): Promise<Live> {
  const folder = scratch("sdk");
  const clock = createClock();
  const { config } = loadConfig({
    env: {},
    fixed: { data: folder.path, host: "127.0.0.1", port: 0, logLevel: "silent" },
    defaults: {
      "egress.allowHosts": ["localhost"],
      "egress.allowCidrs": ["127.0.0.0/8"],
      "egress.allowHttp": true,
      "egress.allowPorts": ["1-65535"],
    },
  });
  const server = await startServer({ config, clock, install: { organization: "acme", project: "shop", key: { name: "test" } } });
  const apiKey = server.apiKey as string;
  const closers: (() => void)[] = [];
  const ask = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const answer = await fetch(`${server.url}/applications/shop${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as T;
  };
  const register = async (id: string, url: string): Promise<void> => {
    await ask("PUT", `/deployments/${id}`, { url, environment: "production" });
    await ask("POST", `/deployments/${id}/promote`);
  };
  const { secret } = await ask<{ secret: string }>("GET", "/environments/production/signing-secret");
  return {
    url: server.url,
    apiKey,
    client: new Millrace({ url: server.url, apiKey, project: "shop" }),
    secret,
    advance: (ms) => clock.advance(ms),
    ask,
    register,
    async until(question, good) {
      const end = performance.now() + 30_000;
      for (;;) {
        const value = await question();
        if (good(value) || performance.now() > end) return value;
      }
    },
    async deploy(id, listener) {
      const app = createServer(listener).listen(0, "127.0.0.1");
      await once(app, "listening");
      closers.push(() => {
        app.close();
        app.closeAllConnections();
      });
      await register(id, `http://127.0.0.1:${(app.address() as AddressInfo).port}`);
    },
    async close() {
      await server.close(0);
      for (const close of closers) close();
      folder.remove();
    },
  };
}
