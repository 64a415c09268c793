/** Figure 12: what a step costs in time on an idle system, and what sleeping runs cost. */
import { sleep, until } from "../parts/machine.mjs";
import { pullApp } from "./7-workflows.mjs";

export const number = 12;
export const method =
  "A pull app on an otherwise idle system: one run of 300 steps, each timed in the executor from the call of `step.run` to its return, the durable record included. Then runs that sleep for a day are started over HTTP (100,000 unless told otherwise), and the server is left alone for 30 s: CPU time and resident memory of its process, the latter less what it had before. Beside them 200 runs sleep until instants that are spread over 20 s; how late each goes on is told by the executor's clock.";

const TIMED_STEPS = 300;
const IDLE_SECONDS = 30;
const SAMPLE = 200;
const SPREAD_MS = 20_000;
const DAY_MS = 86_400_000;
/** How often, and for how long, something is waited for. */
const PATIENCE = { everyMs: 200, mostMs: 600_000 };

const share = (values, part) => [...values].sort((a, b) => a - b)[Math.ceil(values.length * part) - 1] ?? Number.NaN;

const open = async (product, status) => (await product.api("GET", `/apps/pull/runs?status=${status}&limit=1`)).runs.length > 0;

async function stepLatency(product, executor) {
  await product.api("POST", "/apps/pull/runs", { workflow: "timed", input: { n: TIMED_STEPS } });
  let told = [];
  const timed = async () => {
    told = (await executor.call("told")).stepMs;
    return told.length === TIMED_STEPS;
  };
  await until("the timed run", timed, PATIENCE);
  return { p50: share(told, 0.5), p99: share(told, 0.99) };
}

async function startSleepers(bench, product, total, at) {
  const request = {
    method: "POST",
    path: `${product.base}/apps/pull/runs`,
    headers: product.headers,
    body: JSON.stringify({ workflow: "sleeper", input: { at } }),
  };
  bench.check("starts", await bench.load.call("fixed", { port: product.port, connections: 64, requests: [request], total }));
  await until("falling asleep", async () => !(await open(product, "queued")) && !(await open(product, "running")), PATIENCE);
}

async function lateness(product, executor) {
  const from = Date.now() + 5_000;
  for (let n = 0; n < SAMPLE; n += 1) {
    const at = from + Math.round((n * SPREAD_MS) / SAMPLE);
    await product.api("POST", "/apps/pull/runs", { workflow: "sleeper", input: { at } });
  }
  let late = [];
  const awake = async () => {
    late = (await executor.call("told")).lateMs;
    return late.length >= SAMPLE;
  };
  await until("waking up", awake, PATIENCE);
  return { p50: share(late, 0.5), p99: share(late, 0.99) };
}

export async function run(bench) {
  const product = await bench.product();
  const executor = await pullApp(bench, product);
  const steps = await stepLatency(product, executor);
  const rssBefore = product.rssBytes();
  const start = performance.now();
  await startSleepers(bench, product, bench.sleeping, Date.now() + DAY_MS);
  const perSecond = (bench.sleeping * 1000) / (performance.now() - start);
  await sleep(10_000);
  const before = { cpu: product.cpuMs(), at: performance.now() };
  await sleep(IDLE_SECONDS * 1000);
  const cpu = ((product.cpuMs() - before.cpu) * 100) / (performance.now() - before.at);
  const grown = (product.rssBytes() - rssBefore) / 1e6;
  const late = await lateness(product, executor);
  const asleep = `${bench.sleeping.toLocaleString("en")} sleeping runs`;
  const row = (what, unit, measured, note = "") => ({ what, unit, limit: null, measured, ratio: null, target: "", met: null, note });
  return [
    row("a step on an idle system, p50", "ms", steps.p50),
    row("a step on an idle system, p99", "ms", steps.p99),
    row(`${asleep}: CPU of one core`, "%", cpu, `they fell asleep at ${perSecond.toFixed(0)} runs/s`),
    row(`${asleep}: memory beyond the server's own`, "MB", grown),
    row(`going on beside ${asleep}: p50 late`, "ms", late.p50),
    row(`going on beside ${asleep}: p99 late`, "ms", late.p99),
  ];
}
