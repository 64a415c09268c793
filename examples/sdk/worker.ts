// Pulls messages and works on them until it is interrupted: what was begun is finished, what was not goes back.
//   npx tsx examples/sdk/worker.ts orders
import { queue } from "@millrace/sdk";

const [name = "orders"] = process.argv.slice(2);
const stop = new AbortController();
process.once("SIGINT", () => stop.abort());
process.once("SIGTERM", () => stop.abort());

const orders = queue<{ order: number }>(name);

const { handled, failed } = await orders.consume(
  async ({ order }, { attempt }) => {
    // Your work goes here. However long it takes, the lease is kept; what throws comes back by the queue's backoff.
    console.log(`handled order ${order}, attempt ${attempt}`);
  },
  { concurrency: 20, signal: stop.signal, onError: (error, { during }) => console.error(`${during}: ${String(error)}`) },
);
console.log(`stopped after ${handled} handled and ${failed} given back`);
