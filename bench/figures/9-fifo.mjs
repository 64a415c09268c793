/** Figure 9: groups. */
import { body, sendText } from "../parts/bodies.mjs";
import { median, sleep } from "../parts/machine.mjs";

export const number = 9;
export const method =
  "Lives of messages over HTTP (send ten to random groups, receive ten, acknowledge ten) on 32 connections against FIFO queues of 100 and of 100,000 groups; the limit is a standard queue on the same server in alternating rounds. Then 8 consumers drain one group of 100,000 messages at full speed while 50 small groups get a message every 5 ms in turn, whose wait is taken from before its send to the answer that hands it out.";

async function seed(bench, product, name, bodies) {
  const seeded = await bench.load.call("fixed", {
    port: product.port,
    connections: 32,
    requests: bodies.map((text) => ({ method: "POST", path: `${product.queuePath(name)}/messages`, headers: product.headers, body: text })),
    total: bodies.length,
  });
  bench.check("seeding", seeded);
}

/** Requests of ten messages, one message for each of so many groups. */
function onePerGroup(groups) {
  return Array.from({ length: groups / 10 }, (_, n) =>
    JSON.stringify({ messages: Array.from({ length: 10 }, (_, at) => ({ body, groupId: `g${n * 10 + at}` })) }),
  );
}

async function rates(bench, product) {
  await product.createQueue("standard");
  await product.createQueue("fifo-few", { type: "fifo" });
  await product.createQueue("fifo-many", { type: "fifo" });
  await seed(
    bench,
    product,
    "standard",
    Array.from({ length: 100 }, () => sendText(10)),
  );
  for (let n = 0; n < 10; n += 1) await seed(bench, product, "fifo-few", onePerGroup(100));
  const many = onePerGroup(100_000);
  for (let at = 0; at < many.length; at += 1000) await seed(bench, product, "fifo-many", many.slice(at, at + 1000));
  const lives = async (name, groups) => {
    const result = await bench.load.call("lifecycle", {
      port: product.port,
      connections: 32,
      headers: product.headers,
      queues: [product.queuePath(name)],
      batch: 10,
      body,
      groups,
      seconds: bench.seconds,
      warmupSeconds: 0.5,
    });
    bench.check(name, result);
    return result;
  };
  return bench.rounds(async () => ({
    standard: await lives("standard", 0),
    few: await lives("fifo-few", 100),
    many: await lives("fifo-many", 100_000),
  }));
}

async function fairness(bench, product) {
  const seconds = Math.max(4, bench.seconds);
  await product.createQueue("hot", { type: "fifo" });
  await seed(
    bench,
    product,
    "hot",
    Array.from({ length: 10_000 }, () => sendText(10, { groupId: "hot" })),
  );
  const common = { port: product.port, headers: product.headers, path: product.queuePath("hot") };
  const consuming = bench.load.call("consume", { ...common, connections: 8, seconds: seconds + 1 });
  await sleep(500);
  const sender = bench.child("load.mjs");
  const sent = await sender.call("trickle", { ...common, path: `${common.path}/messages`, everyMs: 5, seconds, size: 1024, groups: 50 });
  const consumed = await consuming;
  await sender.stop();
  bench.check("small sends", sent);
  bench.check("consumers", consumed);
  return { ...consumed, sent: sent.requests };
}

export async function run(bench) {
  const product = await bench.product();
  const rounds = await rates(bench, product);
  const fair = await fairness(bench, await bench.product());
  const row = (what, key, target) => {
    const ratio = median(rounds.map((round) => round[key].perSecond / round.standard.perSecond));
    return {
      what,
      unit: "msgs/s",
      limit: median(rounds.map((round) => round.standard.perSecond)),
      measured: median(rounds.map((round) => round[key].perSecond)),
      ratio,
      target: `≥ ${target.toFixed(2)}`,
      met: ratio >= target,
      note: `receive p99 ${median(rounds.map((round) => round[key].receiveP99)).toFixed(0)} ms, ${rounds.reduce((sum, round) => sum + round[key].empty, 0)} empty`,
    };
  };
  return [
    row("FIFO lives, 100 groups", "few", 0.45),
    row("FIFO lives, 100,000 groups", "many", 0.25),
    {
      what: "p99 wait of small groups beside a hot one",
      unit: "ms",
      limit: null,
      measured: fair.p99,
      ratio: null,
      target: "< 20 ms",
      met: fair.p99 !== null && fair.p99 < 20 && fair.small >= fair.sent * 0.98,
      note: `p50 ${fair.p50?.toFixed(1)} ms; ${fair.small} of ${fair.sent} small ones, ${Math.round(fair.hotPerSecond).toLocaleString("en")} hot msgs/s`,
    },
  ];
}
