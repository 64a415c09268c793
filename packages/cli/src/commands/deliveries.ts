/** `millrace deliveries`: the records of what was delivered to topic subscriptions, and trying again what failed. */
import type { Answer, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { leaf, limitOption, noteMore } from "../leaf.ts";
import type { Output } from "../output.ts";

type Delivery = Answer<Operations["GetDelivery"]>["delivery"];

const states: readonly Delivery["state"][] = ["pending", "delivering", "delivered", "failed", "cancelled"];
const errorText = ({ last_error: error }: Delivery): string => (error === null ? "-" : `${error.class}: ${error.message}`);

function show(output: Output, delivery: Delivery): void {
  if (output.json) {
    output.document(delivery);
    return;
  }
  output.fields([
    ["id", delivery.id],
    ["notification", delivery.message_id],
    ["subscription", delivery.subscription_id],
    ["state", delivery.state],
    ["attempts", String(delivery.attempts)],
    ["next attempt", delivery.next_attempt_at ?? "-"],
    ["delivered", delivery.delivered_at ?? "-"],
    ["last status", delivery.last_status === null ? "-" : String(delivery.last_status)],
    ["last error", errorText(delivery)],
    ["dead letter", delivery.dead_letter ?? "-"],
    ["created", delivery.created_at],
  ]);
}

export function deliveryCommands(program: Command): void {
  const deliveries = program.command("deliveries").description("Deliveries of topics: one record per notification and subscription.");

  leaf<{ limit: number; state?: Delivery["state"] }>(
    deliveries,
    "list <subscription>",
    "List a topic subscription's delivery records, newest first.",
    ["millrace deliveries list 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10 --state failed"],
    (command) => command.addOption(new Option("--state <state>", "only these").choices(states)).addOption(limitOption()),
    async ({ client, output }, [subscriptionId = ""], { limit, state }) => {
      const given = { params: { subscriptionId }, query: { state } };
      const { items, nextCursor } = await client.list<Delivery>("ListDeliveries", "deliveries", limit, given);
      if (output.json) return output.document({ deliveries: items, nextCursor });
      output.table(
        ["ID", "STATE", "ATTEMPTS", "CREATED", "NOTIFICATION", "LAST ERROR"],
        items.map((each) => [each.id, each.state, String(each.attempts), each.created_at, each.message_id, errorText(each)]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf(
    deliveries,
    "get <delivery>",
    "Show a delivery record.",
    ["millrace deliveries get 01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1b"],
    () => {},
    async ({ client, output }, [deliveryId = ""]) => show(output, (await client.call("GetDelivery", { deliveryId })).delivery),
  );

  leaf(
    deliveries,
    "redeliver <delivery>",
    "Try a delivery that has ended once more, with fresh attempts.",
    ["millrace deliveries redeliver 01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1b"],
    () => {},
    async ({ client, output }, [deliveryId = ""]) => show(output, (await client.call("Redeliver", { deliveryId })).delivery),
  );
}
