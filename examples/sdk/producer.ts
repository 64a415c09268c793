// Makes a queue and sends to it. A send that fails half-way is repeated by itself and stored once; the deduplication key also covers
// a program that is started again.
//   npx tsx examples/sdk/producer.ts orders 5
import { queue } from "@millrace/sdk";

const [name = "orders", count = "5"] = process.argv.slice(2);
const orders = queue<{ order: number }>(name);

await orders.ensure({ visibilityTimeout: "2m", maxAttempts: 5 });
const numbers = Array.from({ length: Number(count) }, (_, n) => n + 1);
const results = await orders.sendBatch(numbers.map((order) => ({ payload: { order }, deduplicationKey: `order-${order}` })));
for (const result of results) {
  if (result.messageId === null) console.error(`refused: ${result.error}`);
  else console.log(`sent ${result.messageId}${result.deduplicated ? ", as before" : ""}`);
}
