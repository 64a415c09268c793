/** Figure 2: sends of ten messages. */
import { sendText } from "../parts/bodies.mjs";
import { median } from "../parts/machine.mjs";

export const number = 2;
export const method =
  "32 connections, one send of ten 1 KB messages in flight on each; the limit is bare node:http at the same concurrency with a body of one message.";

export async function run(bench) {
  const product = await bench.product();
  await product.createQueue("tens");
  const path = `${product.queuePath("tens")}/messages`;
  const rounds = await bench.rounds(async () => {
    const limit = await bench.bare({ method: "POST", path, headers: product.headers, body: sendText(1) }, 32);
    const own = await bench.load.call("fixed", {
      port: product.port,
      connections: 32,
      requests: [{ method: "POST", path, headers: product.headers, body: sendText(10) }],
      seconds: bench.seconds,
      warmupSeconds: 0.5,
    });
    bench.check("sends of ten", own);
    return { limit: limit.perSecond, own: own.perSecond * 10, p50: own.p50, p99: own.p99, refused: own.refused };
  });
  const ratio = median(rounds.map((round) => round.own / round.limit));
  const refused = rounds.reduce((sum, round) => sum + round.refused, 0);
  return [
    {
      what: "sends of 10, 32 in flight",
      unit: "msgs/s",
      limit: median(rounds.map((round) => round.limit)),
      limitUnit: "requests/s",
      measured: median(rounds.map((round) => round.own)),
      ratio,
      target: "≥ 1.8",
      met: ratio >= 1.8,
      note: `p50 ${median(rounds.map((r) => r.p50)).toFixed(1)}, p99 ${median(rounds.map((r) => r.p99)).toFixed(1)} ms${refused > 0 ? `, ${refused} refused` : ""}`,
    },
  ];
}
