/** Figure 11: what a second and a third node on the same machine add, and which process is full. */
import { sendText } from "../parts/bodies.mjs";
import { cpuMs, median, postgresCpuMs, sleep } from "../parts/machine.mjs";
import { startNodes } from "../parts/nodes.mjs";

export const number = 11;
export const method =
  "Clusters of one, two and three nodes, each on a database of its own of one PostgreSQL, in turn. Sends: 96 connections in all, spread over the nodes, single messages. Push: 12 queues, each with a subscription (20 requests in flight, batches of 10), are filled while paused, then resumed; the rate is taken at the endpoint between 10 % and 95 %. The limit is the cluster of one node. The note tells the cores that nodes, PostgreSQL and the bench itself used: all share the machine's.";

const SIZES = [1, 2, 3];
const CONNECTIONS = 96;
const QUEUES = 12;
/** A pause that one node answered is in force on all of them after a second. */
const IN_FORCE_MS = 1_500;

/** Runs `job` and tells how many cores each kind of process used meanwhile. */
async function withCores(bench, { nodes, query }, job) {
  const used = async () => ({
    nodes: nodes.reduce((sum, node) => sum + node.cpuMs(), 0),
    PostgreSQL: await postgresCpuMs(query),
    bench: cpuMs(bench.load.pid) + cpuMs(bench.sink.pid),
    at: performance.now(),
  });
  const before = await used();
  const result = await job();
  const after = await used();
  const cores = (kind) => (after[kind] - before[kind]) / (after.at - before.at);
  return { result, cores: { nodes: cores("nodes"), PostgreSQL: cores("PostgreSQL"), bench: cores("bench") } };
}

/** The same requests over all nodes at once; answers of all nodes' answered requests a second. */
async function spread(bench, { nodes, first }, name, count, bounds) {
  const results = await Promise.all(
    nodes.map((node) =>
      bench.load.call("fixed", {
        port: node.port,
        connections: Math.round(CONNECTIONS / nodes.length),
        requests: [{ method: "POST", path: `${first.queuePath(name)}/messages`, headers: first.headers, body: sendText(count) }],
        ...bounds,
      }),
    ),
  );
  for (const result of results) bench.check("sends", result);
  return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
}

const queueName = (n) => `pushed-${n}`;

async function drain(bench, cluster, subscriptions, each) {
  const { first } = cluster;
  for (const { id } of subscriptions) await first.api("POST", `/subscriptions/${id}/pause`, {});
  await sleep(IN_FORCE_MS);
  for (let n = 0; n < QUEUES; n += 1) await spread(bench, cluster, queueName(n), 10, { total: each / 10 / cluster.nodes.length });
  await bench.sink.call("reset");
  const count = each * QUEUES;
  return withCores(bench, cluster, async () => {
    const resumed = Promise.all(subscriptions.map(({ id }) => first.api("POST", `/subscriptions/${id}/resume`, {})));
    const from = await bench.sink.call("until", { messages: count * 0.1, withinMs: 60_000 });
    const to = from && (await bench.sink.call("until", { messages: count * 0.95, withinMs: 120_000 }));
    if (!to) throw new Error(`the queues did not drain: ${JSON.stringify(await bench.sink.call("counts"))}`);
    await resumed;
    await bench.sink.call("until", { messages: count, withinMs: 20_000 });
    return ((to.messages - from.messages) * 1000) / (to.now - from.now);
  });
}

export async function run(bench) {
  const clusters = [];
  try {
    for (const size of SIZES) {
      const databaseUrl = await bench.freshDatabase();
      if (databaseUrl === null) return [];
      const cluster = await startNodes(databaseUrl, size);
      await cluster.shared();
      await cluster.first.createQueue("sends");
      const subscriptions = [];
      for (let n = 0; n < QUEUES; n += 1) {
        await cluster.first.createQueue(queueName(n));
        subscriptions.push(
          await cluster.first.subscribe(queueName(n), bench.sinkUrl, { batchSize: 10, maxConcurrency: 20, recordAttempts: false }),
        );
      }
      clusters.push({ size, cluster, subscriptions });
    }
    const each = Math.max(600, Math.round((bench.seconds * 1000) / 60) * 60);
    const rounds = await bench.rounds(async () => {
      const round = [];
      for (const { cluster, subscriptions } of clusters) {
        const sends = await withCores(bench, cluster, () =>
          spread(bench, cluster, "sends", 1, { seconds: bench.seconds, warmupSeconds: 0.5 }),
        );
        await cluster.first.api("POST", "/queues/sends/purge", {});
        round.push({ sends, push: await drain(bench, cluster, subscriptions, each) });
      }
      return round;
    });
    const row = (what, kind, at) => {
      const own = median(rounds.map((round) => round[at][kind].result));
      const cores = (name) => median(rounds.map((round) => round[at][kind].cores[name])).toFixed(2);
      return {
        what: `${what}, ${SIZES[at]} ${SIZES[at] === 1 ? "node" : "nodes"}`,
        unit: "msgs/s",
        limit: median(rounds.map((round) => round[0][kind].result)),
        measured: own,
        ratio: median(rounds.map((round) => round[at][kind].result / round[0][kind].result)),
        target: "–",
        met: null,
        note: `cores used: nodes ${cores("nodes")}, PostgreSQL ${cores("PostgreSQL")}, bench ${cores("bench")}`,
      };
    };
    return [...SIZES.keys()].flatMap((at) => [row("single sends", "sends", at), row("push, draining, batches of 10", "push", at)]);
  } finally {
    for (const { cluster } of clusters) await cluster.stop();
  }
}
