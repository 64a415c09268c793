/** Figure 1: single sends over HTTP. */
import { sendText } from "../parts/bodies.mjs";
import { median } from "../parts/machine.mjs";

export const number = 1;
export const method =
  "64 keep-alive connections, one send of one 1 KB message in flight on each, answered when durable; the limit is the same load on a bare node:http server that reads the body and answers the same JSON.";

export async function run(bench) {
  const product = await bench.product();
  await product.createQueue("single");
  const request = { method: "POST", path: `${product.queuePath("single")}/messages`, headers: product.headers, body: sendText(1) };
  const rounds = await bench.rounds(async () => {
    const limit = await bench.bare(request, 64);
    const own = await bench.load.call("fixed", {
      port: product.port,
      connections: 64,
      requests: [request],
      seconds: bench.seconds,
      warmupSeconds: 0.5,
    });
    bench.check("single sends", own);
    return { limit: limit.perSecond, own: own.perSecond, p50: own.p50, p99: own.p99, refused: own.refused };
  });
  const ratio = median(rounds.map((round) => round.own / round.limit));
  const p99 = median(rounds.map((round) => round.p99));
  const refused = rounds.reduce((sum, round) => sum + round.refused, 0);
  return [
    {
      what: "single sends, 64 in flight",
      unit: "msgs/s",
      limit: median(rounds.map((round) => round.limit)),
      limitUnit: "requests/s",
      measured: median(rounds.map((round) => round.own)),
      ratio,
      target: "≥ 0.55",
      met: ratio >= 0.55,
      note: refused > 0 ? `${refused} refused` : "",
    },
    {
      what: "p99 of a send, 64 in flight",
      unit: "ms",
      limit: null,
      measured: p99,
      ratio: null,
      target: "< 10 ms",
      met: p99 < 10,
      note: `p50 ${median(rounds.map((round) => round.p50)).toFixed(1)} ms`,
    },
  ];
}
