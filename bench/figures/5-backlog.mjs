/** Figure 5: what a backlog, many queues and scheduled messages cost. */
import { body, sendText } from "../parts/bodies.mjs";
import { median } from "../parts/machine.mjs";
import { inParallel } from "../parts/product.mjs";

export const number = 5;
export const method =
  "Lives of messages over HTTP (send ten, receive ten, acknowledge ten) on 32 connections, against servers of the same engine with 1,000 queued, with 1,000,000 queued, with 1,000 queues taking turns, and with 100,000 messages scheduled an hour ahead in the queue that is used; all messages 1 KB. The limit of each is the server with 1,000 queued in one queue, in alternating rounds.";

async function seed(bench, product, name, count, extra = {}) {
  const seeded = await bench.load.call("fixed", {
    port: product.port,
    connections: 32,
    requests: [{ method: "POST", path: `${product.queuePath(name)}/messages`, headers: product.headers, body: sendText(10, extra) }],
    total: count / 10,
  });
  bench.check("seeding", seeded);
}

export async function run(bench) {
  const few = await bench.product();
  await few.createQueue("one");
  await seed(bench, few, "one", 1000);
  const many = await bench.product();
  await many.createQueue("one");
  await seed(bench, many, "one", bench.backlog);
  const scheduled = await bench.product();
  await scheduled.createQueue("one");
  await seed(bench, scheduled, "one", 100_000, { delaySeconds: 3600 });
  await seed(bench, scheduled, "one", 1000);
  const wide = await bench.product();
  const names = Array.from({ length: 1000 }, (_, n) => `queue-${n}`);
  await inParallel(names.length, 16, (n) => wide.createQueue(names[n]));
  for (const name of names.slice(0, 100)) await seed(bench, wide, name, 10);

  const lives = async (product, queues) => {
    const result = await bench.load.call("lifecycle", {
      port: product.port,
      connections: 32,
      headers: product.headers,
      queues: queues.map((name) => product.queuePath(name)),
      batch: 10,
      body,
      seconds: bench.seconds,
      warmupSeconds: 0.5,
    });
    bench.check("lives of messages", result);
    return result;
  };
  const rounds = await bench.rounds(async () => ({
    few: await lives(few, ["one"]),
    many: await lives(many, ["one"]),
    scheduled: await lives(scheduled, ["one"]),
    wide: await lives(wide, names),
  }));
  const row = (what, key, most) => {
    const cost = median(rounds.map((round) => round.few.perSecond / round[key].perSecond));
    return {
      what,
      unit: "msgs/s",
      limit: median(rounds.map((round) => round.few.perSecond)),
      measured: median(rounds.map((round) => round[key].perSecond)),
      ratio: 1 / cost,
      target: `cost ≤ ${most}`,
      met: cost <= most,
      note: `costs ${cost.toFixed(2)} times; receive p99 ${median(rounds.map((round) => round[key].receiveP99)).toFixed(1)} ms (limit ${median(rounds.map((round) => round.few.receiveP99)).toFixed(1)} ms)`,
    };
  };
  return [
    row(`${bench.backlog.toLocaleString("en")} queued, beside 1,000`, "many", 1.3),
    row("1,000 busy queues, beside one", "wide", 2),
    row("100,000 scheduled beside", "scheduled", 1.1),
  ];
}
