// Sends messages. A send that fails half-way is repeated under the same key: the message is stored once.
//   node examples/producer.mjs orders 5
import { randomUUID } from "node:crypto";
import { call } from "./connection.mjs";

const [queue = "orders", count = "5"] = process.argv.slice(2);

await call("POST", "/queues", { name: queue }).catch((error) => {
  if (error.code !== "queue_exists") throw error;
});

for (let order = 1; order <= Number(count); order += 1) {
  const body = { messages: [{ body: JSON.stringify({ order }), attributes: { source: "producer" } }] };
  const once = { "idempotency-key": randomUUID() };
  const { messages } = await call("POST", `/queues/${queue}/messages`, body, once).catch(() =>
    call("POST", `/queues/${queue}/messages`, body, once),
  );
  console.log(`sent ${messages[0].messageId}`);
}
