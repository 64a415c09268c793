// The consumer of a push queue in an Express app. Its route stands ahead of express.json(): a signature covers the bytes as they came,
// and a parser in front of it would take them away.
//   MILLRACE_QUEUE_SIGNING_SECRET=whsec_… PORT=3000 npx tsx examples/sdk/express-server.ts
import type { AddressInfo } from "node:net";
import { queue, RetryLaterError, toNodeHandler } from "@millrace/sdk";
import express from "express";

const orders = queue<{ order: number }>("orders");
const app = express();

app.post(
  "/api/queues/orders",
  toNodeHandler(
    orders.handler(async ({ order }, { attempt }) => {
      if (order < 0) throw new RetryLaterError("10m");
      console.log(`shipped order ${order}, attempt ${attempt}`);
    }),
  ),
);

app.use(express.json());
app.post("/orders", (request, response) => {
  response.status(202).json({ accepted: request.body });
});

const server = app.listen(Number(process.env.PORT ?? 3000), () => console.log(`listening on ${(server.address() as AddressInfo).port}`));
