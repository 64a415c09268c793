/** The executor of workflows: the SDK's `serve` on node:http, with functions of one and of five steps that do nothing but step. */
import { createServer } from "node:http";
import { serve, toNodeHandler, workflow } from "../../packages/sdk/dist/workflows/index.js";
import { serveJobs } from "../parts/child.mjs";

const stepping = (name, steps) =>
  workflow(name, async ({ input, step }) => {
    let sum = input.n;
    for (let i = 1; i <= steps; i += 1) sum = await step.run(`step ${i}`, () => sum + i);
    return sum;
  });

let handle = async () => new Response(null, { status: 503 });

serveJobs({
  /** Answers the port; until `trust` whatever comes is refused. */
  listen: () =>
    new Promise((resolve) => {
      const listener = toNodeHandler((request) => handle(request));
      const server = createServer((request, response) => void listener(request, response));
      server.keepAliveTimeout = 60_000;
      server.listen(0, "127.0.0.1", () => resolve({ port: server.address().port }));
    }),
  trust({ signingSecret }) {
    handle = serve([stepping("one", 1), stepping("five", 5)], { signingSecret });
  },
});
