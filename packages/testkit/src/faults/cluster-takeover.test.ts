/** Three server processes on one PostgreSQL: who delivers when one of them dies, stops, leaves or stands still. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Receiver, receiver } from "../receiver.ts";
import { postgres } from "../shared-postgres.ts";
import { type Api, api } from "./api.ts";
import { type Cluster, startCluster, until } from "./cluster.ts";
import type { MillraceProcess } from "./millrace-process.ts";

let cluster: Cluster;
let client: Api;
beforeAll(async () => {
  cluster = await startCluster(await (await postgres()).fresh(), 3);
  client = api(cluster.server);
  await balanced();
}, 180_000);
afterAll(() => cluster.end());

/** Until every node has its share of the slots and takes calls: one that stood still refuses them until its event loop keeps time again. */
async function balanced(): Promise<void> {
  await until(async () => Math.min(...(await cluster.slots())) >= 85);
  for (const { url } of cluster.nodes) {
    const { call } = api({ url, apiKey: cluster.server.apiKey });
    await until(() =>
      call("GET", "/queues").then(
        () => true,
        () => false,
      ),
    );
  }
}

async function pushed(
  name: string,
  endpoint: Receiver,
  subscription: Record<string, unknown> = {},
): Promise<{ id: string; subscription: string }> {
  const queue = await client.createQueue({ name, visibilityTimeoutSeconds: 2 });
  const made = await client.call<{ id: string }>("POST", "/subscriptions", {
    queueId: queue.id,
    batchSize: 1,
    target: { kind: "https", url: `${endpoint.url}/hook`, timeoutSeconds: 1 },
    ...subscription,
  });
  return { id: queue.id, subscription: made.id };
}
const ownerOf = async (queue: string): Promise<MillraceProcess> => {
  let owner: MillraceProcess | undefined;
  await until(async () => {
    owner = await cluster.owner(queue);
    return owner !== undefined;
  });
  return owner as MillraceProcess;
};
async function back(node: MillraceProcess): Promise<void> {
  await node.start();
  cluster.up(node);
  await balanced();
}

it("A13: sends and receives go to any node, and a waiting receive wakes within 50 ms of a send to another one", {
  timeout: 60_000,
}, async () => {
  const [here, there] = cluster.nodes.map((node) => api({ url: node.url, apiKey: cluster.server.apiKey })) as [Api, Api];
  await client.createQueue({ name: "anywhere" });
  const lags: number[] = [];
  for (let i = 0; i < 20; i++) {
    const waiting = here.receive("anywhere", 10).then((messages) => ({ messages, at: performance.now() }));
    await new Promise((resolve) => setTimeout(resolve, 30));
    await there.send("anywhere", [{ body: `${i}` }]);
    const sentAt = performance.now();
    const { messages, at } = await waiting;
    expect(messages.map(({ body }) => body)).toEqual([`${i}`]);
    lags.push(at - sentAt);
    await there.ack(
      "anywhere",
      messages.map(({ receipt }) => receipt),
    );
  }
  // From the send's answer on. The machine has other things to do at times: the half of them says what the road takes.
  expect(lags.sort((a, b) => a - b)[lags.length / 2]).toBeLessThan(50);
});

it("A13, P24: when the owner dies its subscriptions are another node's within 15 s, and an idle one's next message arrives", {
  timeout: 120_000,
}, async () => {
  const endpoint = await receiver();
  const { id } = await pushed("orphaned", endpoint);
  await client.send(id, [{ body: "before" }]);
  await endpoint.received(1);
  const dead = await ownerOf("orphaned");
  cluster.down(dead);
  await dead.kill("SIGKILL");
  const from = performance.now();
  await client.send(id, [{ body: "after" }]);
  await endpoint.received(2);
  expect(performance.now() - from).toBeLessThan(15_000);
  expect((await cluster.slots()).filter((n) => n === 0)).toHaveLength(1);
  await back(dead);
  await endpoint.close();
});

it("A13, P25: a node that is stopped cleanly hands its work over within 2 s", { timeout: 120_000 }, async () => {
  const endpoint = await receiver();
  const { id } = await pushed("left", endpoint);
  await client.send(id, [{ body: "before" }]);
  await endpoint.received(1);
  const leaving = await ownerOf("left");
  cluster.down(leaving);
  const gone = leaving.kill("SIGTERM");
  const from = performance.now();
  await until(async () => {
    const owner = await cluster.owner("left");
    return owner !== undefined && owner !== leaving;
  });
  await client.send(id, [{ body: "after" }]);
  await endpoint.received(2);
  expect(performance.now() - from).toBeLessThan(2_000);
  expect(await gone).toBe(0);
  await back(leaving);
  await endpoint.close();
});

it("P16: a pause answered by one node holds on the owner within a second, and so does a change of the target", {
  timeout: 60_000,
}, async () => {
  const before = await receiver();
  const after = await receiver();
  const { id, subscription } = await pushed("changed", before);
  const owner = await ownerOf("changed");
  const other = api({ url: (cluster.nodes.find((node) => node !== owner) as MillraceProcess).url, apiKey: cluster.server.apiKey });
  await other.call("POST", `/subscriptions/${subscription}/pause`);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await client.send(id, [{ body: "held" }]);
  await other.call("PATCH", `/subscriptions/${subscription}`, { target: { kind: "https", url: `${after.url}/hook` } });
  await other.call("POST", `/subscriptions/${subscription}/resume`);
  const [request] = await after.received(1);
  expect(request?.text).toContain("held");
  expect(before.requests).toHaveLength(0);
  await Promise.all([before.close(), after.close()]);
});

it("P13, A13: the limit holds while the owner stands still, moves on and comes back; what was open counts for the next owner", {
  timeout: 180_000,
}, async () => {
  const open: (() => void)[] = [];
  const endpoint = await receiver({ answer: () => ({ after: new Promise<void>((resolve) => open.push(resolve)) }) });
  const { id } = await pushed("limited", endpoint, {
    maxConcurrency: 2,
    target: { kind: "https", url: `${endpoint.url}/hook`, timeoutSeconds: 20 },
  });
  await client.send(
    id,
    Array.from({ length: 9 }, (_, i) => ({ body: `${i}` })),
  );
  await endpoint.opened(2);
  const owner = await ownerOf("limited");
  cluster.down(owner);
  process.kill(owner.pid as number, "SIGSTOP");
  await until(async () => ![undefined, owner].includes(await cluster.owner("limited")));
  // The next owner sees two messages leased whose requests may be open, and so they are. One more would be one too many.
  await until(async () => (await client.stats("limited")).inflight === 2);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(endpoint.highWater).toBe(2);
  // They are answered, but the process that asked does not hear it: for the new owner they are still open.
  process.kill(owner.pid as number, "SIGCONT");
  for (const answer of open.splice(0)) answer();
  await until(() => {
    for (const answer of open.splice(0)) answer();
    return endpoint.requests.length >= 9;
  });
  for (const answer of open.splice(0)) answer();
  await until(async () => {
    for (const answer of open.splice(0)) answer();
    const { ready, inflight, scheduled } = await client.stats("limited");
    return ready + inflight + scheduled === 0;
  });
  expect(endpoint.highWater).toBe(2);
  cluster.up(owner);
  await balanced();
  await endpoint.close();
});

it("CTRL-09, A13: whichever node stands still, another has its duties within 15 s: a lapsed last attempt is dead-lettered, once", {
  timeout: 120_000,
}, async () => {
  const queue = await client.createQueue({ name: "dying", visibilityTimeoutSeconds: 1 });
  const graveyard = await client.createQueue({ name: "dead" });
  await client.call("PATCH", `/queues/${queue.id}`, { redrivePolicy: { deadLetterQueueId: graveyard.id, maxReceiveCount: 1 } });
  // A lapse of the last attempt is found by the one that sweeps, wherever that is.
  for (const node of cluster.nodes) {
    cluster.down(node);
    process.kill(node.pid as number, "SIGSTOP");
    try {
      const before = (await client.stats(graveyard.id)).ready;
      await client.send(queue.id, [{ body: "once" }]);
      let received = 0;
      await until(async () => {
        received += (await client.receive(queue.id, 1)).length;
        return received === 1;
      });
      const took = await until(async () => (await client.stats(graveyard.id)).ready === before + 1);
      expect(took).toBeLessThan(17_000);
    } finally {
      process.kill(node.pid as number, "SIGCONT");
      cluster.up(node);
    }
    await balanced();
  }
});
