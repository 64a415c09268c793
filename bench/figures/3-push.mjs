/** Figure 3: push, draining and while sends saturate the server. */
import { sendText } from "../parts/bodies.mjs";
import { median, sleep } from "../parts/machine.mjs";

export const number = 3;
export const method =
  "A queue is filled while its subscription (50 requests in flight) is paused, then resumed; the rate is taken at the endpoint between 10 % and 95 % of the messages. The limit is undici's Pool.request alone, 50 in flight, sending one such body with both HMACs made anew for each request, to the same endpoint; a consumer path of a deployment at that endpoint is measured likewise. Then the same subscription works while 64 connections make single sends (32 make sends of ten) without pause; the limit is its own draining rate, the backlog is read each second, and its growth is that of the second half.";

/** Fills the paused queue with so many messages. */
async function fill(bench, product, name, count) {
  const filled = await bench.load.call("fixed", {
    port: product.port,
    connections: 32,
    requests: [{ method: "POST", path: `${product.queuePath(name)}/messages`, headers: product.headers, body: sendText(10) }],
    total: Math.ceil(count / 10),
  });
  bench.check("filling", filled);
}

/** `pushing`: the path of what is paused and resumed. */
async function drain(bench, product, name, pushing, count) {
  await product.api("POST", `${pushing}/pause`, {});
  await fill(bench, product, name, count);
  await bench.sink.call("reset");
  await product.api("POST", `${pushing}/resume`, {});
  const from = await bench.sink.call("until", { messages: count * 0.1, withinMs: 60_000 });
  const to = from && (await bench.sink.call("until", { messages: count * 0.95, withinMs: 120_000 }));
  if (!to) throw new Error(`the queue did not drain: ${JSON.stringify(await bench.sink.call("counts"))}`);
  const counts = await bench.sink.call("counts");
  await bench.sink.call("until", { messages: count, withinMs: 20_000 });
  return { perSecond: ((to.messages - from.messages) * 1000) / (to.now - from.now), batch: counts.messages / counts.requests };
}

/** Backlog (ready, held and leased) each second while sends of `sendSize` messages come in as fast as they are taken. */
async function saturate(bench, product, name, seconds, sendSize) {
  await bench.sink.call("reset");
  const sending = bench.load.call("fixed", {
    port: product.port,
    connections: sendSize === 1 ? 64 : 32,
    requests: [{ method: "POST", path: `${product.queuePath(name)}/messages`, headers: product.headers, body: sendText(sendSize) }],
    seconds,
    warmupSeconds: 1,
  });
  await sleep(1000);
  const before = await bench.sink.call("counts");
  const backlogs = [];
  for (let second = 0; second < seconds; second += 1) {
    await sleep(1000);
    const stats = await product.stats(name);
    backlogs.push(stats.ready + stats.waiting + stats.inflight);
  }
  const after = await bench.sink.call("counts");
  const sent = await sending;
  bench.check("saturating sends", sent);
  const half = Math.floor(backlogs.length / 2);
  return {
    delivered: ((after.messages - before.messages) * 1000) / (after.now - before.now),
    sent: sent.perSecond * sendSize,
    refused: sent.refused,
    sendP99: sent.p99,
    peak: Math.max(...backlogs),
    growth: (backlogs.at(-1) - backlogs[half]) / (backlogs.length - 1 - half),
    batch: (after.messages - before.messages) / Math.max(1, after.requests - before.requests),
  };
}

/** Drains the queue again and again, beside undici alone with the same bodies. */
async function draining(bench, product, name, pushing, { batchSize, target, each }) {
  const probe = await drain(bench, product, name, pushing, 20_000);
  const text = await bench.sink.call("sample");
  const count = Math.max(20_000, Math.round((probe.perSecond * bench.seconds) / 10_000) * 10_000);
  const rounds = await bench.rounds(async () => {
    await bench.sink.call("reset");
    const limit = await bench.pusher.call("run", { port: bench.sinkPort, text, connections: 50, seconds: bench.seconds });
    const own = await drain(bench, product, name, pushing, count);
    return { limit: limit.perSecond, own: own.perSecond, batch: own.batch };
  });
  const ratio = median(rounds.map((round) => round.own / (round.limit * batchSize)));
  return {
    what: `push, draining, ${each}`,
    unit: "msgs/s",
    limit: median(rounds.map((round) => round.limit)) * batchSize,
    measured: median(rounds.map((round) => round.own)),
    ratio,
    target: `≥ ${target.toFixed(2)}`,
    met: ratio >= target,
    note: `${median(rounds.map((round) => round.batch)).toFixed(1)} messages a request`,
  };
}

/** A push subscription of a queue of its own. */
async function figure(bench, product, batchSize, target, sendSizes) {
  const name = `push-${batchSize}`;
  await product.createQueue(name);
  const subscription = await product.subscribe(name, bench.sinkUrl, { batchSize, maxConcurrency: 50, recordAttempts: false });
  const each = batchSize === 1 ? "one message a request" : `signed batches of ${batchSize}`;
  const row = await draining(bench, product, name, `/subscriptions/${subscription.id}`, { batchSize, target, each });
  const rows = [row];
  for (const sendSize of sendSizes) {
    rows.push(...besideSends(await saturate(bench, product, name, Math.max(8, bench.seconds * 3), sendSize), row.measured, each, sendSize));
    await product.api("POST", `/queues/${name}/purge`, {});
  }
  return rows;
}

/** Push that delivers all that comes in, with less than a second of it queued, cannot be faster: that meets the target too. */
function besideSends(busy, draining, each, sendSize) {
  const share = busy.delivered / draining;
  const keepsUp = busy.delivered >= 0.9 * busy.sent && busy.peak < busy.sent;
  const sends = sendSize === 1 ? "single sends" : `sends of ${sendSize}`;
  return [
    {
      what: `push beside ${sends}, ${each}`,
      unit: "msgs/s",
      limit: draining,
      measured: busy.delivered,
      ratio: share,
      target: "≥ 0.50 or all",
      met: share >= 0.5 || keepsUp,
      note: `${Math.round(busy.sent).toLocaleString("en")} msgs/s came in (p99 ${busy.sendP99?.toFixed(0)} ms, ${busy.refused} refused), ${busy.batch.toFixed(1)} messages a request`,
    },
    {
      what: `backlog's growth beside ${sends}, ${each}`,
      unit: "msgs/s",
      limit: busy.sent,
      measured: busy.growth,
      ratio: busy.growth / busy.sent,
      target: "≤ 0.05",
      met: busy.growth <= 0.05 * busy.sent,
      note: `at most ${busy.peak.toLocaleString("en")} queued`,
    },
  ];
}

/** A queue whose consumer path is called on a deployment. */
async function consumerFigure(bench, product) {
  const { origin, pathname } = new URL(bench.sinkUrl);
  const app = "/applications/default";
  await product.api("PUT", `${app}/deployments/bench`, { url: origin });
  await product.api("POST", `${app}/deployments/bench/promote`, {});
  await product.api("PUT", `${app}/queues/consumer`, { consumerPath: pathname, concurrency: 50 });
  const each = "one message a request to a consumer path";
  return [await draining(bench, product, "consumer", `${app}/queues/consumer`, { batchSize: 1, target: 0.4, each })];
}

export async function run(bench) {
  const product = await bench.product();
  return [
    ...(await figure(bench, product, 10, 0.3, [1, 10])),
    ...(await figure(bench, product, 1, 0.4, [1])),
    ...(await consumerFigure(bench, product)),
  ];
}
