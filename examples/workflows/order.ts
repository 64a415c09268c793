// An order: placed, then paid within a day or cancelled, then handed to the warehouse's queue.
// Its run waits for the payment without costing anything, and goes on wherever this program runs by then.
import { QueuesClient, workflow } from "@millrace/sdk/workflows";

const queues = new QueuesClient();
const paymentsQueueId = process.env.PAYMENTS_QUEUE_ID ?? "";
const warehouseQueueId = process.env.WAREHOUSE_QUEUE_ID ?? "";

export interface Order {
  orderId: number;
  cents: number;
}

export const order = workflow<Order, { status: "shipped" | "cancelled"; paid?: string }>("order", async ({ input, step }) => {
  const placed = await step.run("place", () => ({ id: input.orderId, cents: input.cents }));

  // A message whose attribute `orderKey` is this key ends the wait: a subscription in resume mode sees to it.
  const payment = await step.waitForMessage("paid", {
    queueId: paymentsQueueId,
    key: `order:${placed.id}`,
    timeoutSeconds: 86_400,
  });
  if (payment === null) {
    await step.run("cancel", () => console.log(`order ${placed.id} was never paid`));
    return { status: "cancelled" };
  }

  // Sent once, however often the run is executed.
  await step.sendToQueue("ship", queues, warehouseQueueId, [{ body: JSON.stringify(placed), attributes: { orderId: String(placed.id) } }]);
  return { status: "shipped", paid: payment.body };
});
