/**
 * `millrace dev --demo`: a queue, an endpoint that verifies what it gets, and a trickle of messages, each delivery told in one line.
 * It uses the public API only, as any program would.
 */
import type { Answer, Operations } from "@millrace/contract";
import { ApiError, type Client } from "../client.ts";
import type { Output } from "../output.ts";
import { type DeliveredMessage, startReceiver } from "./receiver.ts";

const demoQueue = "demo";
const everyMs = 2000;
/** Every so many orders the endpoint refuses one the first time, so that a retry is to be seen. */
const refuseEvery = 5;

type Subscription = Answer<Operations["GetSubscription"]>;

async function ensureQueue(client: Client): Promise<void> {
  try {
    await client.call("CreateQueue", { body: { name: demoQueue, visibilityTimeoutSeconds: 30 } });
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "queue_exists") throw error;
  }
}

function orderOf(message: DeliveredMessage): number | undefined {
  try {
    const value: unknown = JSON.parse(message.body);
    const order = typeof value === "object" && value !== null && "order" in value ? value.order : undefined;
    return typeof order === "number" ? order : undefined;
  } catch {
    return undefined;
  }
}

/** Starts the demo; answers the function that ends it. `clock` gives the time that lines are stamped with. */
export async function startDemo(client: Client, output: Output): Promise<() => Promise<void>> {
  const stamp = () => output.dim(new Date().toTimeString().slice(0, 8));
  await ensureQueue(client);
  const receiver = await startReceiver({
    accepts: (message) => {
      const order = orderOf(message);
      return order === undefined || order % refuseEvery !== 0 || message.receiveCount > 1;
    },
    seen: ({ verified, messages, failed }) => {
      if (!verified) {
        output.line(`${stamp()}  refused a delivery whose signature does not hold`);
        return;
      }
      const told = messages.map(({ messageId, body, receiveCount }) => {
        const attempt = receiveCount > 1 ? `, attempt ${receiveCount}` : "";
        return `${failed.includes(messageId) ? output.red("failed") : "done"} ${body.slice(0, 60)}${attempt}`;
      });
      output.line(`${stamp()}  signature ok  ${told.join(" · ")}`);
    },
  });

  const { items } = await client.list<Subscription>("ListSubscriptions", "subscriptions", 1, { query: { queueId: demoQueue } });
  // an earlier demo's: its endpoint is gone, and its secret with it
  for (const { id } of items) await client.call("DeleteSubscription", { subscriptionId: id });
  const target = { kind: "https", url: receiver.url, timeoutSeconds: 10 } as const;
  const { signingSecret } = await client.call("CreateSubscription", { body: { queueId: demoQueue, target } });
  if (signingSecret !== null) receiver.trust(signingSecret);

  let order = 0;
  let stopped = false;
  let sending: Promise<unknown> = Promise.resolve();
  const sendOne = () => {
    order += 1;
    const body = JSON.stringify({ order, total: (order * 7.5).toFixed(2) });
    sending = client.call("SendMessages", { queueId: demoQueue, body: { messages: [{ body }] } }).catch((error: unknown) => {
      if (!stopped) output.note(`The demo could not send: ${error instanceof Error ? error.message : String(error)}`);
    });
  };
  sendOne();
  const trickle = setInterval(sendOne, everyMs);
  return async () => {
    stopped = true;
    clearInterval(trickle);
    await sending;
    await receiver.close();
  };
}

/** Command lines that work when pasted, for a person who sees the demo run. */
export function demoCurls(client: Client): string[] {
  const { url, apiKey, organization, project } = client.connection;
  const queue = `${url}/v1/organizations/${organization}/projects/${project}/queues/${demoQueue}`;
  const authorization = `-H 'Authorization: Bearer ${apiKey}'`;
  return [
    `curl -sS ${queue}/messages ${authorization} -H 'Content-Type: application/json' -d '{"messages": [{"body": "hello from curl"}]}'`,
    `curl -sS ${queue}/stats ${authorization}`,
  ];
}
