// The consumer of a push queue in a Hono app, whose routes get a Request of the platform: the handler takes it as it is. Bun, Deno and
// Cloudflare Workers serve the default export; on Node any adapter does.
import { NonRetryableError, queue } from "@millrace/sdk";
import { Hono } from "hono";

const invoices = queue<{ number: string }>("invoices");
const consumer = invoices.handler(async ({ number }, { messageId }) => {
  if (!number.startsWith("INV-")) throw new NonRetryableError(`${number} is no invoice`);
  console.log(`booked ${number} (${messageId})`);
});

const app = new Hono();
app.get("/", (context) => context.text("ok"));
app.post("/api/queues/invoices", (context) => consumer(context.req.raw));

export default app;
