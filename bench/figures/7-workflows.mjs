/** Figure 7: workflows, from the start of a run to its end. */
import { median, sleep } from "../parts/machine.mjs";

export const number = 7;
export const method =
  "Runs are started over HTTP on 64 connections and executed by the SDK's serve in a process of its own (a push app, 100 executions at once); the clock runs until the last of them has ended. Each step is recorded durably before the code after it runs. Runs of one step and of five steps that do nothing; steps per second count the recorded ones.";

const RUNS = 2_000;
const MOST_MS = 180_000;
const OPEN = ["queued", "running", "waiting"];

async function appOf(bench, product) {
  const executor = bench.child("executor.mjs");
  const { port } = await executor.call("listen");
  const { signingSecret } = await product.api("POST", "/apps", { name: "bench", mode: "push", url: `http://localhost:${port}/workflows` });
  await executor.call("trust", { signingSecret });
  await product.api("POST", "/apps/bench/sync");
}

async function ended(product) {
  const end = performance.now() + MOST_MS;
  for (const status of OPEN) {
    while ((await product.api("GET", `/apps/bench/runs?status=${status}&limit=1`)).runs.length > 0) {
      if (performance.now() > end) throw new Error(`the runs took longer than ${MOST_MS / 1000} s`);
      await sleep(20);
    }
  }
}

/** Starts so many runs and waits for all of them; answers runs per second. */
async function round(bench, product, workflow) {
  const start = performance.now();
  const request = {
    method: "POST",
    path: `${product.base}/apps/bench/runs`,
    headers: product.headers,
    body: JSON.stringify({ workflow, input: { n: 1 } }),
  };
  const started = await bench.load.call("fixed", { port: product.port, connections: 64, requests: [request], total: RUNS });
  bench.check("starts", started);
  await ended(product);
  return (RUNS * 1000) / (performance.now() - start);
}

export async function run(bench) {
  const product = await bench.product();
  await appOf(bench, product);
  await round(bench, product, "one");
  const rates = await bench.rounds(async () => ({
    one: await round(bench, product, "one"),
    five: await round(bench, product, "five"),
  }));
  const row = (what, key, steps) => {
    const measured = median(rates.map((each) => each[key]));
    const note = `${Math.round(measured * steps).toLocaleString("en")} steps/s`;
    return { what, unit: "runs/s", limit: null, measured, ratio: null, target: "", met: null, note };
  };
  return [row("runs of one step", "one", 1), row("runs of five steps", "five", 5)];
}
