/**
 * The whole way under kill -9: a message starts a run, which waits for another message, sends a third and ends with a fourth, while the
 * server is killed again and again. In the end every order has gone every step of the way exactly once.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type MillraceProcess, millrace, postgres, scratch } from "@millrace/testkit";
import { afterEach, expect, it } from "vitest";
import type { PushHandler } from "../handler.ts";
import { QueuesClient, serve, toNodeHandler, type WorkflowMessage, workflow } from "./index.ts";

const ORDERS = 24;
const KILLS = 3;

const closers: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Shown {
  id: string;
  status: string;
  executions: number;
}

/** Calls of the API that outlive a server: asked again, under the same key, until somebody answers. */
function caller(server: MillraceProcess) {
  return async <T>(method: string, path: string, body?: unknown, key?: string): Promise<T> => {
    for (;;) {
      try {
        const response = await fetch(`${server.url}/v1/organizations/default/projects/default${path}`, {
          method,
          headers: {
            authorization: `Bearer ${server.apiKey}`,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...(key === undefined ? {} : { "idempotency-key": key }),
          },
          body: body === undefined ? undefined : JSON.stringify(body),
        });
        const text = await response.text();
        if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
        if (response.status < 500) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
}

async function survives(server: MillraceProcess): Promise<void> {
  const call = caller(server);
  const queues = new Map<string, string>();
  for (const name of ["orders", "payments", "shipped", "results"]) {
    const { id } = await call<{ id: string }>("POST", "/queues", { name, visibilityTimeoutSeconds: 5 });
    queues.set(name, id);
  }
  const client = new QueuesClient({ apiKey: server.apiKey, organizationId: "default", projectId: "default", baseUrl: server.url });

  const beyond = new Set<string>();
  const twice: string[] = [];
  const order = workflow<WorkflowMessage, number>("order", async ({ input, step }) => {
    const { n } = JSON.parse(input.body) as { n: number };
    await step.run("place", () => {
      // Once its record was answered, and only then, the code beyond it runs.
      if (beyond.has(String(n))) twice.push(`place of ${n}`);
    });
    beyond.add(String(n));
    const paid = await step.waitForMessage("paid", {
      queueId: queues.get("payments") as string,
      key: `order:${n}`,
      timeoutSeconds: 3600,
    });
    await step.sendToQueue("ship", client, queues.get("shipped") as string, [{ body: JSON.stringify({ n, paid: paid?.body }) }]);
    return n;
  });

  // The app is asked for its workflows while it is made, before its secret is known: what comes then is refused.
  let handle: PushHandler = async () => new Response(null, { status: 503 });
  const listener = toNodeHandler((request) => handle(request));
  const http = createServer((request, response) => void listener(request, response)).listen(0, "127.0.0.1");
  await once(http, "listening");
  closers.push(() => {
    http.close();
    http.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const notifications = { queueId: "results", on: ["completed", "failed", "cancelled", "timedOut"] };
  const { signingSecret } = await call<{ signingSecret: string }>("POST", "/apps", { name: "shop", mode: "push", url, notifications });
  handle = serve([order], { signingSecret });
  await call("POST", "/apps/shop/sync");
  const target = { kind: "workflow", appId: "shop", workflow: "order" };
  await call("POST", "/subscriptions", { queueId: "orders", target: { ...target, mode: "start" } });
  await call("POST", "/subscriptions", { queueId: "payments", target: { ...target, mode: "resume", correlationAttribute: "orderKey" } });

  const runs = async (): Promise<Shown[]> => (await call<{ runs: Shown[] }>("GET", "/apps/shop/runs?limit=100")).runs;
  const ended = async (): Promise<number> => (await runs()).filter(({ status }) => status === "completed").length;
  let kills = 0;
  const kill = async (): Promise<void> => {
    kills++;
    await server.kill("SIGKILL");
    await server.start();
  };

  for (let n = 0; n < ORDERS; n++) {
    await call("POST", "/queues/orders/messages", { messages: [{ body: JSON.stringify({ n }) }] }, `order-${n}`);
    const paid = { body: `paid ${n}`, attributes: { orderKey: `order:${n}` } };
    await call("POST", "/queues/payments/messages", { messages: [paid] }, `payment-${n}`);
    if (n % (ORDERS / KILLS) === ORDERS / KILLS - 1) await kill();
  }
  while ((await ended()) < ORDERS) await new Promise((resolve) => setTimeout(resolve, 200));

  const all = await runs();
  expect(all.map(({ status }) => status)).toEqual(Array(ORDERS).fill("completed"));
  expect(kills).toBe(KILLS);
  expect(twice).toEqual([]);
  const drain = async (queue: string): Promise<string[]> => {
    const bodies: string[] = [];
    for (;;) {
      const { messages } = await call<{ messages: { body: string; receipt: string; messageId: string }[] }>(
        "POST",
        `/queues/${queue}/messages/receive`,
        { maxMessages: 10, visibilityTimeoutSeconds: 600 },
      );
      if (messages.length === 0) return bodies;
      bodies.push(...messages.map(({ body }) => body));
    }
  };
  const shipped = (await drain("shipped")).map((body) => JSON.parse(body) as { n: number; paid: string });
  expect(shipped.map(({ n, paid }) => [n, paid]).sort(([a], [b]) => Number(a) - Number(b))).toEqual(
    Array.from({ length: ORDERS }, (_, n) => [n, `paid ${n}`]),
  );
  const results = (await drain("results")).map((body) => JSON.parse(body) as { runId: string; status: string; attempt: number });
  expect(results.map(({ runId }) => runId).sort()).toEqual(all.map(({ id }) => id).sort());
  expect(new Set(results.map(({ status, attempt }) => `${status} ${attempt}`))).toEqual(new Set(["completed 1"]));
  for (const queue of ["orders", "payments"])
    expect(await call("GET", `/queues/${queue}/stats`)).toMatchObject({ ready: 0, inflight: 0, dead: 0, acknowledged: ORDERS });
}

it("W5, W9, W12, W14, W16, W17: on SQLite every order goes its whole way once, however often the server is killed", {
  timeout: 300_000,
}, async () => {
  const folder = scratch("kill-workflows");
  const server = await millrace({ data: join(folder.path, "data") });
  closers.push(() => folder.remove());
  await server.start();
  closers.push(() => server.kill());
  await survives(server);
});

it("W5, W9, W12, W14, W16, W17: on PostgreSQL every order goes its whole way once, however often the server is killed", {
  timeout: 300_000,
}, async () => {
  const server = await millrace({ databaseUrl: await (await postgres()).fresh() });
  await server.start();
  closers.push(() => server.kill());
  await survives(server);
});
