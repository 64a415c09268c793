/**
 * The product as a user has it: the command, in a process of its own on a free port, with a full-rights key. Everything the bench does
 * with it goes over HTTP.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Connection, requestBytes } from "./connection.mjs";
import { cpuMs, rssBytes, sleep } from "./machine.mjs";

/** The command that is measured; another build's can be named to compare with it. */
const cli = process.env.BENCH_COMMAND ?? fileURLToPath(new URL("../../packages/cli/dist/main.js", import.meta.url));

/** `millrace server` as in production, but for the endpoints on loopback that it may call. */
function launch({ home, databaseUrl, profileDir }) {
  const nodeFlags = profileDir === null ? [] : ["--cpu-prof", "--cpu-prof-dir", profileDir];
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(MILLRACE_|DATABASE_URL$|NODE_V8_COVERAGE$)/.test(name)),
  );
  Object.assign(env, {
    MILLRACE_PORT: "0",
    MILLRACE_DATA: home,
    MILLRACE_LOG_LEVEL: "warn",
    MILLRACE_EGRESS_ALLOW_HOSTS: "localhost",
    MILLRACE_EGRESS_ALLOW_CIDRS: "127.0.0.0/8,::1/128",
    MILLRACE_EGRESS_ALLOW_HTTP: "true",
    MILLRACE_EGRESS_ALLOW_PORTS: "1-65535",
  });
  if (databaseUrl !== null) {
    env.DATABASE_URL = databaseUrl;
    env.MILLRACE_ENCRYPTION_KEY = Buffer.alloc(32, 9).toString("base64");
  }
  const flags = ["server", "--json"];
  const child = spawn(process.execPath, [...nodeFlags, cli, ...flags], { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });
  const told = [];
  child.stderr.on("data", (chunk) => {
    told.push(chunk.toString());
    if (told.length > 50) told.shift();
  });
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve(code ?? signal)));
  const ready = new Promise((resolve, reject) => {
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      if (!line.startsWith("{")) return told.push(`${line}\n`);
      const said = JSON.parse(line);
      if (said.url !== undefined) resolve(said);
    });
    ended.then((code) => reject(new Error(`the server ended with ${code}\n${told.join("")}`)));
  });
  return { child, ended, ready, told };
}

/** Starts the server on a PostgreSQL database, or on fresh data of SQLite when that is null; `profileDir` takes CPU profiles or is null. */
export async function startProduct({ databaseUrl = null, profileDir = null }) {
  const home = mkdtempSync(join(tmpdir(), "millrace-bench-"));
  let running = launch({ home, databaseUrl, profileDir });
  const first = await running.ready;
  let { url } = first;
  const { apiKey } = first;
  let idle = [];

  const product = {
    get port() {
      return Number(new URL(url).port);
    },
    get pid() {
      return running.child.pid;
    },
    get headers() {
      return { authorization: `Bearer ${apiKey}`, "x-account-id": "default" };
    },
    base: "/v1/organizations/default/projects/default",
    cpuMs: () => cpuMs(running.child.pid),
    rssBytes: () => rssBytes(running.child.pid),
    /** One API call, under the project unless the path is whole; throws with the answer when it is not a 2xx. Waits out 429 and 503. */
    async api(method, path, body = null) {
      for (let tries = 0; ; tries += 1) {
        const connection = idle.pop() ?? new Connection(product.port);
        const text = body === null ? null : JSON.stringify(body);
        const whole = /^\/(v1|applications)\//.test(path) ? path : `${product.base}${path}`;
        const bytes = requestBytes(method, whole, `127.0.0.1:${product.port}`, product.headers, text);
        const answer = await connection.ask(bytes);
        if (answer.status !== 0) idle.push(connection);
        if (answer.status >= 200 && answer.status < 300) return answer.body === "" ? null : JSON.parse(answer.body);
        if ((answer.status !== 429 && answer.status !== 503) || tries === 100) {
          throw new Error(`${method} ${path}: ${answer.status} ${answer.body.slice(0, 500)}\n${running.told.join("")}`);
        }
        await sleep(100);
      }
    },
    queuePath: (name) => `${product.base}/queues/${name}`,
    createQueue: (name, settings = {}) => product.api("POST", "/queues", { name, ...settings }),
    stats: (name) => product.api("GET", `/queues/${name}/stats`),
    subscribe: (queueId, url, settings = {}) =>
      product.api("POST", "/subscriptions", { queueId, target: { kind: "https", url, timeoutSeconds: 30 }, ...settings }),
    /** Stops the server and starts it on the same data. */
    async restart() {
      await end();
      running = launch({ home, databaseUrl, profileDir });
      // The key is told at the first start only.
      url = (await running.ready).url;
    },
    async stop() {
      await end();
      rmSync(home, { recursive: true, force: true });
    },
  };
  const end = async () => {
    for (const connection of idle) connection.close();
    idle = [];
    running.child.kill("SIGTERM");
    const late = setTimeout(() => running.child.kill("SIGKILL"), 40_000);
    await running.ended;
    clearTimeout(late);
  };
  return product;
}

/** Runs `each(n)` for n from 0 to `count` - 1, so many at once. */
export async function inParallel(count, atOnce, each) {
  let next = 0;
  const lane = async () => {
    while (next < count) await each(next++);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane));
}
