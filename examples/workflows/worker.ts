// A pull app's worker: it needs no address of its own, only a key. Stopped, it ends the steps that it began and gives the runs back.
//   npx millrace apps create shop
//   MILLRACE_APP=shop npx tsx examples/workflows/worker.ts
import { worker } from "@millrace/sdk/workflows";
import { workflows } from "./all.ts";

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.once("SIGTERM", () => stop.abort());

console.log("working");
const { executions } = await worker({ workflows, concurrency: 20, signal: stop.signal });
console.log(`stopped after ${executions} executions`);
