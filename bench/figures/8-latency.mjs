/** Figure 8: from send to the endpoint's first byte, idle system. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "../parts/machine.mjs";

export const number = 8;
export const method =
  "One message of 1 KB every 10 to 30 ms; time from just before the send leaves the client until the endpoint has the head of the delivery, by the machine's monotonic clock. The limit is a bare relay: node:http, append and fdatasync, undici; without a queue, signatures or acknowledgements.";

export async function run(bench) {
  const home = mkdtempSync(join(tmpdir(), "millrace-bench-relay-"));
  const relay = bench.child("relay.mjs");
  const { port: relayPort } = await relay.call("listen", { file: join(home, "log"), sinkPort: bench.sinkPort });
  const product = await bench.product();
  await product.createQueue("latency");
  await product.subscribe("latency", bench.sinkUrl, { batchSize: 10, maxConcurrency: 10, recordAttempts: false });
  const count = Math.max(100, bench.seconds * 50);
  const measure = async (port, path, headers) => {
    await bench.sink.call("reset", { timed: true });
    const sent = await bench.load.call("trickle", { port, path, headers, everyMs: 20, count, size: 1024 });
    bench.check("trickle", sent);
    await bench.sink.call("until", { messages: count, withinMs: 2000 });
    const { latencyMs } = await bench.sink.call("counts");
    if (latencyMs.count < count) throw new Error(`only ${latencyMs.count} of ${count} arrived`);
    return { ...latencyMs, sendP50: sent.p50 };
  };
  await measure(product.port, `${product.queuePath("latency")}/messages`, product.headers);
  const rounds = await bench.rounds(async () => ({
    limit: await measure(relayPort, "/", {}),
    own: await measure(product.port, `${product.queuePath("latency")}/messages`, product.headers),
  }));
  await relay.stop();
  rmSync(home, { recursive: true, force: true });
  const row = (key, most) => {
    const measured = median(rounds.map((round) => round.own[key]));
    const limit = median(rounds.map((round) => round.limit[key]));
    return {
      what: `send to the endpoint's first byte, ${key}`,
      unit: "ms",
      limit,
      measured,
      ratio: measured / limit,
      target: `< ${most} ms`,
      met: measured < most,
      note: key === "p50" ? `the send itself is answered after ${median(rounds.map((round) => round.own.sendP50)).toFixed(2)} ms` : "",
    };
  };
  return [row("p50", 3), row("p99", 10)];
}
