// A consumer that checks every payload with Zod before it runs. A payload that does not fit goes to the dead letters at once, with the
// reason, since trying again cannot mend it. The handler's payload has the schema's type.
import { queue } from "@millrace/sdk";
import { z } from "zod";

const Order = z.object({ id: z.string().min(1), cents: z.int().positive() });

const orders = queue("orders", { validate: Order.parse });

export const POST = orders.handler(async ({ id, cents }) => {
  console.log(`charged order ${id}: ${(cents / 100).toFixed(2)}`);
});
