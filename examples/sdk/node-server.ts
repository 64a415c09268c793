// The consumer of a push queue behind plain node:http, without a framework.
//   MILLRACE_QUEUE_SIGNING_SECRET=whsec_… PORT=3000 npx tsx examples/sdk/node-server.ts
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { queue, toNodeHandler } from "@millrace/sdk";

const emails = queue<{ to: string }>("emails");

const consumer = toNodeHandler(
  emails.handler(async ({ to }, { attempt }) => {
    console.log(`handled ${to}, attempt ${attempt}`);
  }),
);

const server = createServer((request, response) => {
  if (request.url === "/api/queues/emails") void consumer(request, response);
  else response.writeHead(404).end();
});
server.listen(Number(process.env.PORT ?? 3000), () => console.log(`listening on ${(server.address() as AddressInfo).port}`));
