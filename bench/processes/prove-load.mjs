/** Shows that the load generator is not what limits: CPU of the bare server and of the generator while one drives the other. */
import { sendText } from "../parts/bodies.mjs";
import { startChild } from "../parts/child.mjs";

const bare = startChild("bare.mjs");
const load = startChild("load.mjs");
const { port } = await bare.call("listen");
const request = { method: "POST", path: "/v1/messages", headers: { authorization: "Bearer mlr_none" }, body: sendText(1) };
for (const connections of [64, 32, 64, 32]) {
  const used = async () => ({ bare: await bare.call("cpu"), load: await load.call("cpu"), at: performance.now() });
  const before = await used();
  const result = await load.call("fixed", { port, connections, requests: [request], seconds: 3, warmupSeconds: 0.5 });
  const after = await used();
  const core = (name) => ((after[name] - before[name]) / (after.at - before.at)).toFixed(2);
  console.log(
    `${connections} in flight: ${Math.round(result.perSecond).toLocaleString("en")} requests/s, p99 ${result.p99.toFixed(1)} ms; server ${core("bare")} of a core, load generator ${core("load")}`,
  );
}
process.exit(0);
