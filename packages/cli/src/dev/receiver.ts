/**
 * The demo's endpoint: verifies every delivery's signature before it looks at the body, as any endpoint should. Answers the ids of the
 * messages that its `handle` refuses, 401 when the signature does not hold.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { parseSecret, verifyEzgh } from "@millrace/contract/wire";
import { hmac } from "../hmac.ts";

export interface DeliveredMessage {
  messageId: string;
  body: string;
  receiveCount: number;
}

/** What became of one delivery. `failed` has the ids of refused messages. */
export interface Delivery {
  deliveryId: string;
  verified: boolean;
  messages: readonly DeliveredMessage[];
  failed: readonly string[];
}

export interface DemoReceiver {
  url: string;
  /** The secret that deliveries are verified with, from now on. */
  trust(secret: string): void;
  close(): Promise<void>;
}

const maxBodyBytes = 16 * 1024 * 1024;

/** Listens on a free port of the loopback interface. `accepts` says whether a message is handled; `seen` is told of every delivery. */
export async function startReceiver(options: {
  accepts: (message: DeliveredMessage) => boolean;
  seen: (delivery: Delivery) => void;
}): Promise<DemoReceiver> {
  let secret: string | undefined;
  const server = createServer(async (request, response) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of request) {
      size += (chunk as Uint8Array).length;
      if (size > maxBodyBytes) {
        request.destroy();
        return;
      }
      chunks.push(chunk as Uint8Array);
    }
    const body = new Uint8Array(Buffer.concat(chunks));
    const header = request.headers["ezgh-signature"];
    const key = secret === undefined ? undefined : parseSecret(secret);
    const signature = Array.isArray(header) ? header[0] : header;
    const deliveryId = String(request.headers["ezgh-delivery-id"] ?? "");
    if (key === undefined || !verifyEzgh(hmac, signature, body, [key], Date.now())) {
      options.seen({ deliveryId, verified: false, messages: [], failed: [] });
      response.writeHead(401).end();
      return;
    }
    const { messages } = JSON.parse(Buffer.from(body).toString("utf8")) as { messages: DeliveredMessage[] };
    const failed = messages.filter((message) => !options.accepts(message)).map(({ messageId }) => messageId);
    options.seen({ deliveryId, verified: true, messages, failed });
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ failed }));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/demo`,
    trust: (given) => {
      secret = given;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
