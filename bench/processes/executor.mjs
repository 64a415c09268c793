/**
 * The executor of workflows: functions of one and of five steps that do nothing but step, and two that tell of time; called by the SDK's
 * `serve` on node:http or polled for by its `worker`.
 */
import { createServer } from "node:http";
import { serve, toNodeHandler, worker, workflow } from "../../packages/sdk/dist/workflows/index.js";
import { serveJobs } from "../parts/child.mjs";

const stepping = (name, steps) =>
  workflow(name, async ({ input, step }) => {
    let sum = input.n;
    for (let i = 1; i <= steps; i += 1) sum = await step.run(`step ${i}`, () => sum + i);
    return sum;
  });
/** How long steps took and how late sleepers went on, in milliseconds. */
const told = { stepMs: [], lateMs: [] };
const timed = workflow("timed", async ({ input, step }) => {
  for (let i = 1; i <= input.n; i += 1) {
    const begun = performance.now();
    await step.run("step", () => i);
    told.stepMs.push(performance.now() - begun);
  }
});
const sleeper = workflow("sleeper", async ({ input, step }) => {
  await step.sleepUntil("nap", input.at);
  told.lateMs.push(Date.now() - input.at);
});
const workflows = [stepping("one", 1), stepping("five", 5), timed, sleeper];

let listener = (_, response) => response.writeHead(503).end();

serveJobs({
  /** Answers the port; until `trust` whatever comes is refused. */
  listen: () =>
    new Promise((resolve) => {
      const server = createServer((request, response) => void listener(request, response));
      server.keepAliveTimeout = 60_000;
      server.listen(0, "127.0.0.1", () => resolve({ port: server.address().port }));
    }),
  trust({ signingSecret }) {
    listener = toNodeHandler(serve(workflows, { signingSecret }));
  },
  told: () => told,
  /** Works for a pull app until the process ends. */
  pull({ baseUrl, apiKey, app, concurrency }) {
    void worker({ baseUrl, apiKey, organizationId: "default", projectId: "default", app, workflows, concurrency });
  },
});
