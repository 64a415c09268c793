import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Language, serve } from "../foreign-verifier.ts";
import { freePort } from "../free-port.ts";
import { scratch } from "../scratch.ts";
import { lacks } from "../tools.ts";
import { type Api, api } from "./api.ts";
import { type MillraceProcess, millrace } from "./millrace-process.ts";

let server: MillraceProcess;
let client: Api;
beforeAll(async () => {
  server = await millrace({ data: join(scratch("live").path, "data") });
  await server.start();
  client = api(server);
});
afterAll(() => server.kill());

const samples: [Language, boolean][] = [
  ["node", false],
  ["go", lacks("go", "version")],
  ["python", lacks("python3")],
];
const bodies = ["", "a", "\u{1f680} e\u0301 \u2028", "line\n", '{"a": 1}'];

/** Resolves once nothing is left in the queue: every answer reached the server. */
async function acknowledged(queue: string): Promise<void> {
  for (;;) {
    const { ready, inflight, scheduled } = await client.stats(queue);
    if (ready + inflight + scheduled === 0) return;
  }
}

for (const [language, skipped] of samples) {
  it.skipIf(skipped)(
    `P4, SIG-01, SIG-02: the ${language} sample accepts real deliveries, with the old and the new secret after a rotation`,
    {
      timeout: 180_000,
    },
    async () => {
      const port = await freePort();
      const queue = await client.createQueue({ name: `to-${language}` });
      const subscription = await client.call<{ id: string; signingSecret: string }>("POST", "/subscriptions", {
        queueId: queue.id,
        state: "paused",
        target: { kind: "https", url: `http://127.0.0.1:${port}/hook` },
      });
      const sendAll = async (): Promise<string[]> =>
        (
          await client.send(
            queue.id,
            bodies.map((body) => ({ body })),
          )
        ).map(({ messageId }) => messageId);
      const ids = await sendAll();
      const first = await serve(language, [subscription.signingSecret], port);
      try {
        await client.call("POST", `/subscriptions/${subscription.id}/resume`);
        await first.handledAtLeast(ids.length);
        expect([...first.handled].sort()).toEqual([...ids].sort());

        const { signingSecret } = await client.call<{ signingSecret: string }>("POST", `/subscriptions/${subscription.id}/rotate-secret`);
        const more = await sendAll();
        await first.handledAtLeast(ids.length + more.length);
        await acknowledged(queue.id);
        await first.stop();

        const second = await serve(language, [signingSecret], port);
        try {
          const last = await sendAll();
          await second.handledAtLeast(last.length);
          expect([...second.handled].sort()).toEqual([...last].sort());
        } finally {
          await second.stop();
        }
      } finally {
        await first.stop();
      }
    },
  );
}

it.skipIf(lacks("python3"))(
  "C2, C3, SIG-02: the Python consumer accepts real deliveries, is tried again after a failure, and dead-letters what it refuses",
  { timeout: 180_000 },
  async () => {
    const port = await freePort();
    const root = `${server.url}/applications/default`;
    const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
      const headers = { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) };
      const answer = await fetch(root + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      if (!answer.ok) throw new Error(await answer.text());
      return (await answer.json()) as T;
    };
    const { secret } = await call<{ secret: string }>("GET", "/environments/production/signing-secret");
    await call("PUT", "/deployments/live", { url: `http://127.0.0.1:${port}` });
    const settings = { consumerPath: "/api/queues/live", retryBackoffMinSeconds: 1, retryBackoffMaxSeconds: 1 };
    await call("PUT", "/queues/live", settings);
    const messages = [...bodies, "fail", "refuse"].map((body) => ({ body }));
    const { results } = await call<{ results: { messageId: string }[] }>("POST", "/queues/live/messages", { messages });
    const ids = results.map(({ messageId }) => messageId);
    const consumer = await serve("python", [secret], port, "queue_receiver");
    try {
      await call("POST", "/deployments/live/promote", {});
      await consumer.handledAtLeast(ids.length - 1);
      expect([...consumer.handled].sort()).toEqual(ids.slice(0, -1).sort());
      await acknowledged("live");
      const { items } = await call<{ items: object[] }>("GET", "/queues/live/messages?state=dead");
      expect(items).toMatchObject([{ id: ids.at(-1), body: "refuse", lastError: "told to refuse", attempts: 1 }]);
    } finally {
      await consumer.stop();
    }
  },
);
