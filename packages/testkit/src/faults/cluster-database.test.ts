/** Server processes whose database fails them: lines that are cut, slow or dead, sessions that are ended, connections that run out. */
import pg from "pg";
import { afterEach, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { receiver } from "../receiver.ts";
import { COMMITTED, type TcpProxy, tcpProxy } from "../tcp-proxy.ts";
import { api, type Refused } from "./api.ts";
import { seed } from "./chance.ts";
import { type Cluster, startCluster, until } from "./cluster.ts";
import { rounds, struck } from "./strike.ts";

const ends: (() => Promise<unknown> | undefined)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function behindProxies(size: number, settings: Record<string, string>, env: Record<string, string> = {}) {
  const database: PostgresServer = await startPostgres(settings);
  ends.push(() => database.stop());
  const url = await database.fresh();
  const proxies = await Promise.all(Array.from({ length: size }, () => tcpProxy(url)));
  ends.push(() => Promise.all(proxies.map((proxy) => proxy.close())));
  const cluster = await startCluster(url, size, { urlOf: (node) => (proxies[node] as TcpProxy).urlOf(url), env });
  ends.push(() => cluster.end());
  return { url, proxies: proxies as [TcpProxy, ...TcpProxy[]], cluster };
}

/** Lasts a moment of the load's, not of the clock's. */
const moment = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const ready = async (cluster: Cluster): Promise<void> => {
  for (const { url } of cluster.nodes) await until(async () => (await fetch(`${url}/readyz`)).status === 200);
};

it("A13, Q6, Q7: cut, slowed and swallowed lines, cuts after the commit, and ended sessions lose nothing and double nothing", {
  timeout: 3_600_000,
}, async () => {
  const { proxies, cluster } = await behindProxies(2, {});
  const strikes: ((proxy: TcpProxy, random: () => number) => Promise<unknown>)[] = [
    async (proxy) => proxy.cutBefore(COMMITTED),
    async (proxy, random) => proxy.cutAfterBytes(Math.floor(random() * 20_000)),
    async () =>
      cluster.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
      ),
    async (proxy, random) => {
      proxy.delay(20 + random() * 200);
      await moment(1_000);
      proxy.heal();
    },
    async (proxy) => {
      proxy.refuse();
      await moment(1_000);
      proxy.heal();
    },
    async (proxy) => {
      proxy.blackHole();
      await moment(2_000);
      proxy.heal();
    },
  ];
  const { violations, oddities, answered } = await struck({
    server: cluster.server,
    rounds: rounds(2 * strikes.length),
    seed: seed(),
    callsDuring: true,
    countsSurvive: true,
    waitForPushes: true,
    async strike(round, random) {
      const proxy = proxies[Math.floor(random() * proxies.length)] as TcpProxy;
      await strikes[(round - 1) % strikes.length]?.(proxy, random);
      await ready(cluster);
    },
  });
  expect(violations).toEqual([]);
  expect(oddities).toEqual([]);
  expect(answered).toBeGreaterThan(200);
});

it("STORE-06: with four connections, a slow line and a hundred open deliveries none is held by a delivery, and when they run out calls fail fast", {
  timeout: 240_000,
}, async () => {
  const { url, proxies, cluster } = await behindProxies(1, { max_connections: "20" }, { MILLRACE_POOL_SIZE: "4" });
  const client = api(cluster.server);
  let answer = (): void => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const endpoint = await receiver({ answer: { after: held } });
  ends.push(() => endpoint.close());
  proxies[0].delay(10);
  const queue = await client.createQueue({ name: "busy" });
  await client.createQueue({ name: "other" });
  await client.call("POST", "/subscriptions", {
    queueId: queue.id,
    batchSize: 1,
    maxConcurrency: 100,
    target: { kind: "https", url: endpoint.url, timeoutSeconds: 60 },
  });
  for (let i = 0; i < 10; i++)
    await client.send(
      queue.id,
      Array.from({ length: 10 }, (_, n) => ({ body: `${i}${n}` })),
    );
  await endpoint.opened(100);
  const sessions = await cluster.query<{ all: number; working: number }>(
    `SELECT count(*)::int AS all, count(*) FILTER (WHERE state LIKE 'idle in transaction%' AND state_change < now() - interval '1 second')::int AS working
     FROM pg_stat_activity WHERE application_name = '' AND datname = current_database() AND pid <> pg_backend_pid()`,
  );
  expect(sessions[0]?.working).toBe(0);
  // One client begins and never ends; the others take what connections are left.
  const idler = new pg.Client(url);
  await idler.connect();
  await idler.query("BEGIN; SELECT 1");
  const crowd: pg.Client[] = [idler];
  ends.push(() => Promise.all(crowd.splice(0).map((each) => each.end())));
  for (let full = false; !full; ) {
    const one = new pg.Client(url);
    one.on("error", () => {});
    await one.connect().then(
      () => crowd.push(one),
      () => {
        full = true;
      },
    );
  }
  // With what it has the node goes on; whatever it must refuse it refuses soon.
  proxies[0].cut();
  const from = performance.now();
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      client.send("other", [{ body: `${i}` }]).then(
        () => 200,
        (error) => (error as Refused).status,
      ),
    ),
  );
  expect(performance.now() - from).toBeLessThan(15_000);
  expect(outcomes.every((status) => status === 200 || status === 503)).toBe(true);
  for (const each of crowd.splice(0)) await each.end();
  await until(() =>
    client.send("other", [{ body: "again" }]).then(
      () => true,
      () => false,
    ),
  );
  answer();
  await until(async () => {
    const { ready: left, inflight, scheduled } = await client.stats("busy");
    return left + inflight + scheduled === 0;
  });
  expect(endpoint.highWater).toBe(100);
  expect(endpoint.requests).toHaveLength(100);
});
