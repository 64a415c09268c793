/** What a figure works with: the processes of the bench, products on fresh data, and rounds. Everything it started ends with `close`. */
import { startChild } from "./child.mjs";
import { startProduct } from "./product.mjs";

/** `postgres` is the run's PostgreSQL; `null` while SQLite is measured. */
export async function createBench({ postgres, seconds, rounds, backlog, sleeping, profileDir }) {
  const children = new Set();
  const products = new Set();
  const child = (file, flags = []) => {
    const profiler = file === "executor.mjs" && profileDir !== null ? ["--cpu-prof", "--cpu-prof-dir", profileDir] : [];
    const started = startChild(file, [...flags, ...profiler]);
    children.add(started);
    return { ...started, stop: () => (children.delete(started) ? started.stop() : undefined) };
  };
  const freshDatabase = async () => (postgres === null ? null : await postgres.fresh());
  const bare = child("bare.mjs");
  const sink = child("sink.mjs");
  const load = child("load.mjs");
  const pusher = child("pusher.mjs");
  const { port: barePort } = await bare.call("listen");
  const { port: sinkPort } = await sink.call("listen");

  return {
    seconds,
    backlog,
    sleeping,
    sink,
    sinkPort,
    sinkUrl: `http://localhost:${sinkPort}/push`,
    load,
    pusher,
    barePid: bare.pid,
    child,
    /** A server on fresh data of this engine. */
    async product() {
      const product = await startProduct({ databaseUrl: await freshDatabase(), profileDir });
      products.add(product);
      return product;
    },
    /** A database of its own on this run's PostgreSQL; `null` while SQLite is measured. */
    freshDatabase,
    /** The same load on the bare server. */
    bare: (request, connections) => load.call("fixed", { port: barePort, connections, requests: [request], seconds, warmupSeconds: 0.5 }),
    /** Runs `round` so many times, one after the other; a round measures limit and product in turn. */
    async rounds(round) {
      const results = [];
      for (let n = 0; n < rounds; n += 1) results.push(await round(n));
      return results;
    },
    /** A figure whose requests fail measures nothing. */
    check(what, result) {
      if (result.failed > 0) throw new Error(`${what}: ${result.failed} requests failed, the first with ${result.firstFailure}`);
    },
    async close() {
      for (const product of products) await product.stop();
      for (const started of children) await started.stop();
    },
  };
}
