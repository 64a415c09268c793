/** Two server processes over two PostgreSQL servers: queues on either, and what goes on while one of them is away. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type PostgresServer, startPostgres } from "../postgres.ts";
import { type Receiver, receiver } from "../receiver.ts";
import { postgres } from "../shared-postgres.ts";
import { type Api, api } from "./api.ts";
import { type Cluster, startCluster, until } from "./cluster.ts";

let beside: PostgresServer;
let cluster: Cluster;
let client: Api;
let endpoint: Receiver;
beforeAll(async () => {
  beside = await startPostgres();
  const [url, eu] = await Promise.all([(await postgres()).fresh(), beside.fresh()]);
  cluster = await startCluster(url, 2, { env: { MILLRACE_DATABASES: `eu=${eu}` } });
  client = api(cluster.server);
  endpoint = await receiver();
}, 180_000);
afterAll(async () => {
  await cluster?.end();
  await endpoint?.close();
  await beside?.stop();
});

const call = <Answer>(method: string, path: string, body?: unknown): Promise<Answer> => client.call<Answer>(method, path, body);
const place = (name: string, database: string, more: object = {}) =>
  call<{ id: string; database: string }>("POST", "/queues", { name, database, ...more });
const push = (queueId: string, path: string) =>
  call<{ id: string }>("POST", "/subscriptions", {
    queueId,
    batchSize: 1,
    maxConcurrency: 4,
    target: { kind: "https", url: `${endpoint.url}/${path}`, timeoutSeconds: 2 },
  });
const pushed = (path: string): string[] =>
  endpoint.requests
    .filter((request) => request.path === `/${path}`)
    .map((request) => request.json<{ messages: { body: string }[] }>().messages[0]?.body ?? "");
const send = (queue: string, body: string) => client.send(queue, [{ body }]);

it("A14, A13: two nodes deliver from two databases, and while one is away its queues are refused by its name and the others go on", {
  timeout: 180_000,
}, async () => {
  const here = await place("here", "default");
  const there = await place("there", "eu");
  await place("pulled", "eu");
  const hook = await push(here.id, "here");
  const other = await push(there.id, "there");
  expect(
    (await call<{ queues: { name: string; database: string }[] }>("GET", "/queues")).queues.map(({ name, database }) => [name, database]),
  ).toEqual([
    ["here", "default"],
    ["pulled", "eu"],
    ["there", "eu"],
  ]);
  // Every node finds both.
  for (let i = 0; i < 2; i++)
    for (const { id } of [hook, other]) expect((await call<{ id: string }>("GET", `/subscriptions/${id}`)).id).toBe(id);
  for (let i = 0; i < 10; i++) {
    await send("here", `here ${i}`);
    await send("there", `there ${i}`);
    await send("pulled", `pulled ${i}`);
  }
  await until(() => new Set(pushed("here")).size === 10 && new Set(pushed("there")).size === 10);
  expect((await client.receive("pulled")).length).toBeGreaterThan(0);

  await beside.halt("immediate");
  await expect(send("there", "lost")).rejects.toThrow(/503.*The database eu can't be reached/);
  await expect(call("POST", "/queues", { name: "new", database: "eu" })).rejects.toThrow(/503.*The database eu can't be reached/);
  await expect(call("GET", "/queues")).rejects.toThrow(/503.*The database eu can't be reached/);
  await expect(call("GET", "/subscriptions")).rejects.toThrow(/503.*The database eu can't be reached/);
  await expect(call("GET", "/queues/nowhere")).rejects.toThrow(/404/);
  for (let i = 0; i < 2; i++) {
    expect((await call<{ id: string }>("GET", `/subscriptions/${hook.id}`)).id).toBe(hook.id);
    expect(await call("GET", `/subscriptions/${hook.id}/attempts`)).toMatchObject({ nextCursor: null });
  }
  for (const { url } of cluster.nodes) expect((await fetch(`${url}/readyz`)).status).toBe(200);
  for (let i = 10; i < 20; i++) await send("here", `here ${i}`);
  await until(() => new Set(pushed("here")).size === 20);
  expect((await place("new", "default")).database).toBe("default");
  // A node that starts meanwhile works on what it reaches.
  const [first] = cluster.nodes;
  if (first === undefined) throw new Error("there are two nodes");
  cluster.down(first);
  await first.kill("SIGTERM");
  await first.start();
  cluster.up(first);
  for (let i = 20; i < 30; i++) await send("here", `here ${i}`);
  await until(() => new Set(pushed("here")).size === 30);
  // Nor is a list shorter on the node that never reached the database.
  for (let i = 0; i < 2; i++) await expect(call("GET", "/subscriptions")).rejects.toThrow(/503.*The database eu can't be reached/);

  await beside.resume();
  await until(() =>
    send("there", "back").then(
      () => true,
      () => false,
    ),
  );
  await until(() => pushed("there").includes("back"));
  // Of the node that was there all along, and of the one that started without the database.
  for (const node of cluster.nodes) {
    const { url } = node;
    await until(() =>
      api({ url, apiKey: cluster.server.apiKey })
        .send("there", [{ body: `by ${url}` }])
        .then(
          () => true,
          () => false,
        ),
    );
  }
  await until(() => cluster.nodes.every(({ url }) => pushed("there").includes(`by ${url}`)));
  // The node that is left delivers alone: the lanes of both databases are its own.
  cluster.down(first);
  await first.kill("SIGTERM");
  await send("here", "alone");
  await send("there", "alone");
  await until(() => pushed("here").includes("alone") && pushed("there").includes("alone"));
  await first.start();
  cluster.up(first);
  const second = cluster.nodes[1];
  if (second === undefined) throw new Error("there are two nodes");
  cluster.down(second);
  await second.kill("SIGTERM");
  await send("there", "the other alone");
  await until(() => pushed("there").includes("the other alone"));
});
