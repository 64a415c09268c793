/**
 * CTRL-06's other half: the line between a server and its PostgreSQL is cut while 50 messages a second are sent. The cut is real, and
 * so is its time: 3 seconds, times MILLRACE_TEST_STRIKES, so that 20 makes it the minute of the case.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { type Receiver, receiver } from "../receiver.ts";
import { type TcpProxy, tcpProxy } from "../tcp-proxy.ts";
import { type Api, api, Refused } from "./api.ts";
import { millrace } from "./millrace-process.ts";
import { rounds } from "./strike.ts";

const CUT_MS = rounds(3) * 1_000;
const SEND_EVERY_MS = 20;
/** How long after the line's return deliveries may take to resume. */
const RESUME_MS = 30_000;

let database: PostgresServer;
beforeAll(async () => {
  database = await startPostgres();
});
afterAll(() => database.stop());

const passed = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks for readiness until it is `status`; rejects when it took longer than `withinMs`. */
async function readiness(url: string, status: number, withinMs: number): Promise<void> {
  const until = performance.now() + withinMs;
  for (;;) {
    const answer = await fetch(`${url}/readyz`);
    await answer.text();
    if (answer.status === status) return;
    if (performance.now() > until) throw new Error(`/readyz still answers ${answer.status} after ${withinMs} ms`);
    await passed(50);
  }
}

/** Sends one message every 20 ms, whatever became of those before. Each send has 40 seconds to be answered. */
function sender(client: Api, queue: string) {
  const accepted = new Map<string, number>();
  const refusals = new Set<number | string>();
  const open = new Set<Promise<void>>();
  const send = async (): Promise<void> => {
    try {
      const [sent] = await client.send(queue, [{ body: "x" }]);
      accepted.set(sent?.messageId ?? "", performance.now());
    } catch (error) {
      refusals.add(error instanceof Refused ? error.status : String(error));
    }
  };
  const timer = setInterval(() => {
    const one = send().finally(() => open.delete(one));
    open.add(one);
  }, SEND_EVERY_MS);
  return {
    accepted,
    refusals,
    /** Ends sending; answers once every send was answered. */
    async end(): Promise<void> {
      clearInterval(timer);
      await Promise.all(open);
    },
  };
}

/** The messages that an endpoint has been given. */
function delivered(endpoint: Receiver): Set<string> {
  const ids = new Set<string>();
  for (const request of endpoint.requests)
    for (const { messageId } of request.json<{ messages: { messageId: string }[] }>().messages) ids.add(messageId);
  return ids;
}

const faults: [name: string, cut: (proxy: TcpProxy) => void][] = [
  ["cut and refused", (proxy) => proxy.refuse()],
  ["a black hole", (proxy) => proxy.blackHole()],
];
for (const [name, cut] of faults) {
  it(`CTRL-06, A13: while its database is ${name} a server says so; afterwards deliveries resume, and all that was accepted arrives`, {
    timeout: 240_000 + 2 * CUT_MS,
  }, async () => {
    const url = await database.fresh();
    const proxy = await tcpProxy(database.url);
    const server = await millrace({ databaseUrl: proxy.urlOf(url) });
    await server.start();
    const endpoint = await receiver();
    try {
      const client = api(server);
      await client.createQueue({ name: "orders", visibilityTimeoutSeconds: 1 });
      const target = { kind: "https", url: `${endpoint.url}/hook`, timeoutSeconds: 1 };
      await client.call("POST", "/subscriptions", { queueId: "orders", target });
      const load = sender(client, "orders");
      await endpoint.received(5);

      cut(proxy);
      await readiness(server.url, 503, 10_000);
      await passed(CUT_MS);
      await readiness(server.url, 503, 0);
      const before = endpoint.requests.length;
      proxy.heal();
      const healedAt = performance.now();
      await readiness(server.url, 200, RESUME_MS);
      await endpoint.received(before + 1);
      expect(performance.now() - healedAt).toBeLessThan(RESUME_MS);

      // Of those that are sent now, too.
      while (![...load.accepted.values()].some((at) => at > healedAt)) await passed(50);
      await load.end();
      expect([...load.refusals].filter((status) => status !== 503 && status !== 429)).toEqual([]);
      const missing = (): string[] => [...load.accepted.keys()].filter((id) => !delivered(endpoint).has(id));
      // What was claimed before the cut and never sent comes again when its lease ends: 31 seconds after its claim.
      for (const until = healedAt + RESUME_MS + 31_000; missing().length > 0 && performance.now() < until; ) await passed(250);
      expect(missing()).toEqual([]);
    } finally {
      await server.kill();
      await proxy.close();
      await endpoint.close();
    }
  });
}
