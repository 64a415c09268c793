/**
 * Another peer of figure 7: Restate, a server of its own kind with its own storage, and its SDK serving the same functions from this
 * process. Both are optional: `npm install --no-save @restatedev/restate-server @restatedev/restate-sdk` puts them there.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { serveJobs } from "../parts/child.mjs";
import { sleep } from "../parts/machine.mjs";

const READY_MS = 30_000;

// The SDK expects it; Node 20 does not have it yet.
Promise.withResolvers ??= function withResolvers() {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

function binary() {
  try {
    return createRequire(import.meta.url).resolve(`@restatedev/restate-server-${platform()}-${arch()}/bin/restate-server`);
  } catch {
    return null;
  }
}

const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

const stepping =
  (steps) =>
  async (ctx, { n }) => {
    let sum = n;
    for (let i = 1; i <= steps; i += 1) sum = await ctx.run(`step ${i}`, () => sum + i);
    return sum;
  };

/** Starts the server on fresh data, with its default settings: its log is flushed before it answers. */
function launch(path, { ingress, admin, node }) {
  const home = mkdtempSync(join(tmpdir(), "restate-bench-"));
  const env = {
    ...process.env,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_LOG_FILTER: "error",
    DO_NOT_TRACK: "1",
  };
  const server = spawn(path, ["--base-dir", home, "--no-logo"], { env, stdio: "ignore" });
  process.once("exit", () => {
    server.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true });
  });
}

/** Tells the server where the functions are, once it is there. */
async function register(admin, endpoint) {
  const end = performance.now() + READY_MS;
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ uri: `http://127.0.0.1:${endpoint}` }),
    }).catch(() => null);
    if (answer?.ok) return;
    if (performance.now() > end)
      throw new Error(`the Restate server did not take the deployment: ${(await answer?.text()) ?? "no answer"}`);
    await sleep(200);
  }
}

serveJobs({
  /** Answers where runs are started; `null` when the packages are not installed. */
  async open() {
    const path = binary();
    if (path === null) return { port: null };
    process.env.RESTATE_LOGGING = "ERROR";
    const restate = await import("@restatedev/restate-sdk");
    const [ingress, admin, node, endpoint] = [await freePort(), await freePort(), await freePort(), await freePort()];
    const bench = restate.service({ name: "bench", handlers: { one: stepping(1), five: stepping(5) } });
    await restate.serve({ services: [bench], port: endpoint });
    launch(path, { ingress, admin, node });
    await register(admin, endpoint);
    return { port: ingress };
  },
});
