/** Figure 10: topics. Publications with 0, 1, 10 and 1,000 matches, until all of them are fanned out; deliveries of a fan-out to webhooks. */
import { body } from "../parts/bodies.mjs";
import { median, until } from "../parts/machine.mjs";
import { inParallel } from "../parts/product.mjs";

export const number = 10;
export const method =
  "64 connections publish 1 KB on a topic, one request in flight on each; the clock runs until every subscribed queue has every notification. The limit is the same publications on bare node:http. Where nothing matches, the topic has a thousand subscriptions whose filters fit nothing. Then 20 webhooks (10 requests in flight each) get what is published; the rate is taken at the endpoint between 10 % and 95 % of the deliveries, and the limit is undici's Pool.request alone with one such body, 50 in flight: that of figure 3.";

const publication = JSON.stringify({ message: body, attributes: { kind: "order" } });
/** Publications of one round by their matches. */
const PUBLICATIONS = new Map([
  [0, 4_000],
  [1, 4_000],
  [10, 1_500],
  [1_000, 30],
]);
const WEBHOOKS = 20;
const MOST_MS = 180_000;

const publishOn = (product, topic) => ({
  method: "POST",
  path: `/v1/topics/${topic}/publish`,
  headers: product.headers,
  body: publication,
});

/** A topic and the queues that its notifications go to. */
async function topicOf(product, matches) {
  const topic = `matches-${matches}`;
  await product.api("POST", "/v1/topics", { name: topic });
  const names = Array.from({ length: matches === 0 ? 1_000 : matches }, (_, i) => `${topic}-${i}`);
  const filter = matches === 0 ? { filter_policy: { kind: ["nothing"] } } : {};
  await inParallel(names.length, 16, async (i) => {
    await product.createQueue(names[i]);
    await product.api("POST", `/v1/topics/${topic}/subscriptions`, { protocol: "queue", endpoint: names[i], ...filter });
  });
  return { topic, queues: matches === 0 ? [] : [names[0], names.at(-1)] };
}

async function publications(bench, product, matches) {
  const total = PUBLICATIONS.get(matches);
  const { topic, queues } = await topicOf(product, matches);
  let published = 0;
  const rounds = await bench.rounds(async () => {
    const limit = await bench.bare(publishOn(product, topic), 64);
    const start = performance.now();
    const sent = await bench.load.call("fixed", { port: product.port, connections: 64, requests: [publishOn(product, topic)], total });
    bench.check("publications", sent);
    const accepted = performance.now() - start;
    published += total;
    for (const queue of queues) {
      const fannedOut = async () => (await product.stats(queue)).ready >= published;
      await until(`the fan-out of ${matches}`, fannedOut, { everyMs: 20, mostMs: MOST_MS });
    }
    return { limit: limit.perSecond, own: (total * 1000) / (performance.now() - start), accepted: (total * 1000) / accepted };
  });
  const own = median(rounds.map((round) => round.own));
  return {
    what: `publications with ${matches.toLocaleString("en")} matches, fanned out`,
    unit: "publications/s",
    limit: median(rounds.map((round) => round.limit)),
    limitUnit: "requests/s",
    measured: own,
    ratio: median(rounds.map((round) => round.own / round.limit)),
    target: "",
    met: null,
    note: `accepted ${Math.round(median(rounds.map((round) => round.accepted))).toLocaleString("en")}/s; ${Math.round(own * matches).toLocaleString("en")} records/s`,
  };
}

/** Subscribes the endpoint and opens the link of its handshake. */
async function webhook(bench, product, topic, n) {
  await bench.sink.call("reset");
  await product.api("POST", `/v1/topics/${topic}/subscriptions`, { protocol: "webhook", endpoint: `${bench.sinkUrl}/${n}` });
  if ((await bench.sink.call("until", { messages: 1, withinMs: 10_000 })) === null) throw new Error("a handshake did not come");
  const { token } = JSON.parse(await bench.sink.call("sample"));
  await fetch(`http://127.0.0.1:${product.port}/v1/confirm?token=${token}`);
}

async function deliveries(bench, product) {
  const topic = "webhooks";
  await product.api("POST", "/v1/topics", { name: topic });
  for (let n = 0; n < WEBHOOKS; n += 1) await webhook(bench, product, topic, n);
  const total = 1_000;
  const count = total * WEBHOOKS;
  const rounds = await bench.rounds(async () => {
    await bench.sink.call("reset");
    const publishing = bench.load.call("fixed", { port: product.port, connections: 16, requests: [publishOn(product, topic)], total });
    const from = await bench.sink.call("until", { messages: count * 0.1, withinMs: MOST_MS });
    const to = from && (await bench.sink.call("until", { messages: count * 0.95, withinMs: MOST_MS }));
    if (!to) throw new Error(`the notifications were not delivered: ${JSON.stringify(await bench.sink.call("counts"))}`);
    bench.check("publications", await publishing);
    await bench.sink.call("until", { messages: count, withinMs: 20_000 });
    const text = await bench.sink.call("sample");
    await bench.sink.call("reset");
    const limit = await bench.pusher.call("run", { port: bench.sinkPort, text, connections: 50, seconds: bench.seconds });
    return { limit: limit.perSecond, own: ((to.messages - from.messages) * 1000) / (to.now - from.now) };
  });
  return {
    what: `deliveries of a fan-out to ${WEBHOOKS} webhooks`,
    unit: "deliveries/s",
    limit: median(rounds.map((round) => round.limit)),
    measured: median(rounds.map((round) => round.own)),
    ratio: median(rounds.map((round) => round.own / round.limit)),
    target: "≥ 0.25",
    met: median(rounds.map((round) => round.own / round.limit)) >= 0.25,
    note: "",
  };
}

export async function run(bench) {
  const product = await bench.product();
  const rows = [];
  for (const matches of PUBLICATIONS.keys()) rows.push(await publications(bench, product, matches));
  rows.push(await deliveries(bench, product));
  return rows;
}
