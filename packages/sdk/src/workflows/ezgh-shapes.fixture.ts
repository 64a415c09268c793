/**
 * Workflows in the shapes of EZGH's TypeScript examples: the same calls with the same kinds of arguments, written without a type more than
 * those have. Only the name of the package that is imported is another.
 */
import { QueuesClient, workflow } from "@millrace/sdk/workflows";

/** What was done to purchases, in order. */
export const done: string[] = [];
const warehouse = {
  reserve: (wanted: { purchaseId: string }) => {
    done.push(`reserve ${wanted.purchaseId}`);
    return { id: wanted.purchaseId, shelf: 12 };
  },
  dispatch: (purchaseId: string, payment: { cents: number }) => done.push(`dispatch ${purchaseId} for ${payment.cents}`),
  drop: (purchaseId: string) => {
    done.push(`drop ${purchaseId}`);
    return { dropped: purchaseId };
  },
};

/** Waits for a message with the purchase's key, and handles its absence as a result like any other. */
export const purchase = workflow("purchase", async ({ input, step }) => {
  await step.run("reserve", () => warehouse.reserve(input));
  const payment = await step.waitForMessage("payment", {
    // biome-ignore lint/style/noNonNullAssertion: as the example has it
    queueId: process.env.PAYMENTS_QUEUE_ID!,
    key: `purchase:${input.purchaseId}`,
    timeoutSeconds: 7_200,
  });
  if (payment === null) return step.run("drop", () => warehouse.drop(input.purchaseId));
  await step.run("dispatch", () => warehouse.dispatch(input.purchaseId, JSON.parse(payment.body)));
});

/** The client of a program, made of what its environment says. */
export const queues = new QueuesClient({
  // biome-ignore lint/style/noNonNullAssertion: as the example has it
  apiKey: process.env.SHOP_API_KEY!,
  // biome-ignore lint/style/noNonNullAssertion: as the example has it
  organizationId: process.env.SHOP_ORGANIZATION_ID!,
  // biome-ignore lint/style/noNonNullAssertion: as the example has it
  projectId: process.env.SHOP_PROJECT_ID!,
});

/** Sends what a step answered to a queue, once. */
export const announce = workflow("announce", async ({ input, step }) => {
  const reserved = await step.run("reserve", () => warehouse.reserve(input));
  // biome-ignore lint/style/noNonNullAssertion: as the example has it
  await step.sendToQueue("tell", queues, process.env.ORDERS_QUEUE_ID!, [
    { body: JSON.stringify(reserved), attributes: { purchaseId: reserved.id } },
  ]);
});
