// Takes messages out and works on them, one batch at a time, until it is interrupted.
//   node examples/worker.mjs orders
import { call } from "./connection.mjs";

const [queue = "orders"] = process.argv.slice(2);
let running = true;
process.once("SIGINT", () => {
  running = false;
});

// Your work goes here. What throws is not acknowledged and comes back when its lease ends.
async function handle(message) {
  console.log(`handled ${message.body} (received ${message.receiveCount} times)`);
}

while (running) {
  const { messages } = await call("POST", `/queues/${queue}/messages/receive`, { maxMessages: 10, waitSeconds: 20 });
  const done = [];
  for (const message of messages) {
    try {
      await handle(message);
      done.push(message.receipt);
    } catch (error) {
      console.error(`${message.messageId} failed: ${error.message}`);
    }
  }
  if (done.length > 0) await call("POST", `/queues/${queue}/messages/ack`, { receipts: done });
}
