/** Figure 6: what ten thousand idle subscriptions cost. */
import { cpuMs, rssBytes, sleep } from "../parts/machine.mjs";
import { inParallel } from "../parts/product.mjs";

export const number = 6;
export const method =
  "10,000 queues with an active subscription each are made over HTTP, the server is started anew on them and left alone for 50 s; CPU time of its process (all threads) over the last 20 s, when the start-up's garbage is collected, then its resident memory. The limit is the bare node:http process, idle as well.";

const COUNT = 10_000;
const SETTLING_SECONDS = 30;
const IDLE_SECONDS = 20;

export async function run(bench) {
  const product = await bench.product();
  const start = performance.now();
  await inParallel(COUNT, 32, async (n) => {
    const name = `idle-${n}`;
    await product.createQueue(name);
    await product.subscribe(name, bench.sinkUrl, { batchSize: 10, maxConcurrency: 10, recordAttempts: false });
  });
  const made = (2 * COUNT * 1000) / (performance.now() - start);
  const rssAfterMaking = product.rssBytes();
  await product.restart();
  await sleep(SETTLING_SECONDS * 1000);
  const before = { own: product.cpuMs(), bare: cpuMs(bench.barePid), at: performance.now() };
  await sleep(IDLE_SECONDS * 1000);
  const elapsed = performance.now() - before.at;
  const own = ((product.cpuMs() - before.own) * 100) / elapsed;
  const bare = ((cpuMs(bench.barePid) - before.bare) * 100) / elapsed;
  const rss = product.rssBytes() / 1e6;
  return [
    {
      what: "10,000 idle subscriptions: CPU of one core",
      unit: "%",
      limit: bare,
      measured: own,
      ratio: null,
      target: "< 1 %",
      met: own < 1,
      note: `made at ${made.toFixed(0)} calls/s`,
    },
    {
      what: "10,000 idle subscriptions: resident memory",
      unit: "MB",
      limit: rssBytes(bench.barePid) / 1e6,
      measured: rss,
      ratio: null,
      target: "< 200 MB",
      met: rss < 200,
      note: `${(rssAfterMaking / 1e6).toFixed(0)} MB just after making them, before the restart`,
    },
  ];
}
