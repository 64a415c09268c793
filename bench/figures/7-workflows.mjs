/** Figure 7: workflows, from the start of a run to its end, beside DBOS and Restate in the same rounds. */
import { median, until } from "../parts/machine.mjs";

export const number = 7;
export const method =
  "Runs are started over HTTP on 64 connections and executed by the SDK in a process of its own: called by the server (a push app, 100 executions at once) or polled for by a worker (a pull app, 200 at once); the clock runs until the last of them has ended. Each step is recorded durably before the code after it runs. Runs of one step and of five steps that do nothing; steps per second count the recorded ones. DBOS runs the same functions in a process of its own on the same PostgreSQL server, started within that process, 64 at once on its default 10 connections (the fastest of those tried). Restate runs them on its own server with its default, durable settings, over HTTP on 64 connections.";

const RUNS = 2_000;
const PEER_RUNS = { one: 600, five: 300 };
const MOST_MS = 180_000;
const OPEN = ["queued", "running", "waiting"];
const WORKFLOWS = [
  { workflow: "one", steps: 1, what: "runs of one step" },
  { workflow: "five", steps: 5, what: "runs of five steps" },
];
/** What five-step runs are asked to be, as a multiple of each peer's. */
const ASKED = { DBOS: 10, Restate: 5 };

export async function pushApp(bench, product) {
  const executor = bench.child("executor.mjs");
  const { port } = await executor.call("listen");
  const { signingSecret } = await product.api("POST", "/apps", { name: "push", mode: "push", url: `http://localhost:${port}/workflows` });
  await executor.call("trust", { signingSecret });
  await product.api("POST", "/apps/push/sync");
  return executor;
}

export async function pullApp(bench, product) {
  const executor = bench.child("executor.mjs");
  await product.api("POST", "/apps", { name: "pull", mode: "pull", maxConcurrency: 200 });
  const apiKey = product.headers.authorization.split(" ")[1];
  await executor.call("pull", { baseUrl: `http://127.0.0.1:${product.port}`, apiKey, app: "pull", concurrency: 200 });
  const known = async () => (await product.api("GET", "/apps/pull/workflows")).workflows.length > 0;
  await until("the worker's first call", known, { everyMs: 50, mostMs: MOST_MS });
  return executor;
}

async function ended(product, app) {
  const left = [...OPEN];
  const none = async () => {
    while (left.length > 0) {
      if ((await product.api("GET", `/apps/${app}/runs?status=${left[0]}&limit=1`)).runs.length > 0) return false;
      left.shift();
    }
    return true;
  };
  await until("the runs", none, { everyMs: 20, mostMs: MOST_MS });
}

/** Starts `RUNS` runs and waits for all of them; answers runs per second. */
async function round(bench, product, app, workflow) {
  const start = performance.now();
  const request = {
    method: "POST",
    path: `${product.base}/apps/${app}/runs`,
    headers: product.headers,
    body: JSON.stringify({ workflow, input: { n: 1 } }),
  };
  const started = await bench.load.call("fixed", { port: product.port, connections: 64, requests: [request], total: RUNS });
  bench.check("starts", started);
  await ended(product, app);
  return (RUNS * 1000) / (performance.now() - start);
}

/** What the peers that are there do in a round: by name, functions of the workflow's name that answer runs per second. */
async function peersOf(bench) {
  const peers = {};
  const databaseUrl = await bench.freshDatabase();
  if (databaseUrl !== null) {
    const dbos = bench.child("dbos.mjs");
    const { installed } = await dbos.call("open", { databaseUrl, connections: 10 });
    if (installed) {
      peers.DBOS = async (workflow) => (await dbos.call("run", { workflow, total: PEER_RUNS[workflow], atOnce: 64 })).perSecond;
    }
  }
  const restate = bench.child("restate.mjs");
  const { port } = await restate.call("open");
  if (port !== null) {
    peers.Restate = async (workflow) => {
      const request = { method: "POST", path: `/bench/${workflow}`, headers: {}, body: JSON.stringify({ n: 1 }) };
      const start = performance.now();
      const total = PEER_RUNS[workflow];
      bench.check("Restate", await bench.load.call("fixed", { port, connections: 64, requests: [request], total }));
      return (total * 1000) / (performance.now() - start);
    };
  }
  return peers;
}

export async function run(bench) {
  const product = await bench.product();
  await pushApp(bench, product);
  await pullApp(bench, product);
  const own = { push: (workflow) => round(bench, product, "push", workflow), pull: (workflow) => round(bench, product, "pull", workflow) };
  const peers = await peersOf(bench);
  const all = { ...peers, ...own };
  for (const each of Object.values(all)) await each("one");
  const rates = await bench.rounds(async () => {
    const rate = {};
    for (const { workflow } of WORKFLOWS)
      for (const [name, each] of Object.entries(all)) rate[`${workflow} ${name}`] = await each(workflow);
    return rate;
  });

  const of = (workflow, name) => rates.map((rate) => rate[`${workflow} ${name}`]);
  const rows = [];
  for (const { workflow, steps, what } of WORKFLOWS) {
    for (const app of Object.keys(own)) {
      const measured = median(of(workflow, app));
      const row = {
        what: `${what}, ${app}`,
        unit: "runs/s",
        measured,
        note: `${Math.round(measured * steps).toLocaleString("en")} steps/s`,
      };
      const beside = Object.keys(peers).map((peer) => {
        const asked = workflow === "five" ? ASKED[peer] : null;
        const ratio = median(of(workflow, app).map((rate, i) => rate / of(workflow, peer)[i]));
        const target = asked === null ? "" : `≥ ${asked} × ${peer}`;
        const note = asked === null ? `limit: ${peer}` : row.note;
        return { ...row, limit: median(of(workflow, peer)), ratio, target, met: asked === null ? null : ratio >= asked, note };
      });
      rows.push(...(beside.length > 0 ? beside : [{ ...row, limit: null, ratio: null, target: "", met: null }]));
    }
  }
  return rows;
}
