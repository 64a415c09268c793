// A topic's webhook that subscribes and confirms by itself, and handles each notification once.
//   PORT=3000 npx tsx examples/sdk/topic-webhook.ts orders
// PUBLIC_URL is where the server reaches this program, unless both are on one machine.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Millrace, notificationHandler, seenInMemory, toNodeHandler } from "@millrace/sdk";

const [topic = "orders"] = process.argv.slice(2);
const { topics } = new Millrace();
let secret: string | undefined;

const webhook = notificationHandler({
  // Until it is known, deliveries are answered 503 and come again.
  secret: () => secret,
  confirm: ({ topicName }) => topicName === topic,
  onConfirmation: ({ topicName }) => console.log(`confirming ${topicName}`),
  // Where handling a notification twice would hurt, keep what was handled in your database instead.
  seen: seenInMemory(),
  onNotification: ({ message, messageId, attributes }) => console.log(`got ${message} ${JSON.stringify(attributes)} (${messageId})`),
});

const listener = toNodeHandler(webhook);
const server = createServer((request, response) => void listener(request, response)).listen(Number(process.env.PORT ?? 3000));
await once(server, "listening");
const url = process.env.PUBLIC_URL ?? `http://localhost:${(server.address() as AddressInfo).port}/`;

await topics.ensure(topic);
const subscription = await topics.topic(topic).subscribe({ webhook: url }, { filterPolicy: { store: ["berlin"] } });
secret = await topics.subscription(subscription.id).signingSecret();
console.log(`subscribed ${subscription.id}`);
process.once("SIGTERM", () => server.close());
