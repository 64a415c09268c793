/** `millrace topics explain`: the six questions about a notification that did not arrive, for all subscriptions or in full for one. */
import type { Answer, Operations } from "@millrace/contract";
import type { Command } from "commander";
import { leaf, limitOption, noteMore } from "../leaf.ts";
import type { Output } from "../output.ts";

type Explained = Answer<Operations["ExplainNotification"]>;
type Verdict = Explained["verdicts"][number];

function showNotification(output: Output, notification: Explained["notification"]): void {
  const { matched, filtered_out, delivered, pending, failed, cancelled } = notification;
  output.fields([
    ["accepted", `yes, at ${notification.accepted_at}`],
    ["topic", notification.topic_name],
    ["fan-out", `${notification.state}: ${matched} matched, ${filtered_out} filtered out`],
    ["deliveries", `${delivered} delivered, ${pending} pending, ${failed} failed, ${cancelled} cancelled`],
  ]);
}

function confirmedText({ subscription }: Verdict): string {
  if (subscription.state === "pending") return `no: its link is good until ${subscription.confirmable_until ?? "-"}`;
  return `${subscription.state === "ended" ? "ended; was confirmed" : "yes,"} at ${subscription.confirmed_at ?? "-"}`;
}

function filterText({ filter }: Verdict): string {
  if (filter === null) return "none: everything passes";
  const keys = filter.failures.map(({ key }) => (key === "" ? "the message" : key)).join(", ");
  const result = filter.matched ? "matches" : `does not match: ${keys}`;
  const when = filter.as_of === "now" ? " (as it is now; it was changed since)" : filter.changed_since ? " (it was changed since)" : "";
  return `${result}${when}`;
}

function deliveryText({ delivery }: Verdict): string {
  if (delivery === null) return "no record";
  const error = delivery.last_error === null ? "" : `, last error ${delivery.last_error.class}: ${delivery.last_error.message}`;
  return `${delivery.state} after ${delivery.attempts === 1 ? "1 attempt" : `${delivery.attempts} attempts`}${error} (${delivery.id})`;
}

function webhookText({ webhook }: Verdict): string {
  if (webhook === null) return "-";
  const key = webhook.signing_key === "readable" ? "" : ", its signing key cannot be read";
  const error = webhook.last_error === null ? "" : `, last error at ${webhook.last_error.at}: ${webhook.last_error.message}`;
  return `${webhook.url} ${webhook.failing ? "fails" : "works"}, last success ${webhook.last_success_at ?? "never"}${error}${key}`;
}

function queueText({ queue }: Verdict): string {
  if (queue === null) return "-";
  return `${queue.name ?? queue.id} is ${queue.state}: ${queue.ready} ready, ${queue.leased} leased, ${queue.dead} dead; encryption key ${queue.encryption_key}`;
}

/** Declares the command. */
export function explainCommand(topics: Command): void {
  leaf<{ limit: number; subscription?: string }>(
    topics,
    "explain <message-id>",
    "Say what became of a notification for each subscription, and why.",
    [
      "millrace topics explain 01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a",
      "millrace topics explain 01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a --subscription 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10",
    ],
    (command) => command.option("--subscription <id>", "only this one, in full").addOption(limitOption()),
    async ({ client, output }, [messageId = ""], { limit, subscription }) => {
      const query = subscription === undefined ? {} : { subscription_id: subscription };
      const { notification } = await client.call("ExplainNotification", { messageId, query: { ...query, limit: 1 } });
      const { items, nextCursor } = await client.list<Verdict>("ExplainNotification", "verdicts", limit, { params: { messageId }, query });
      if (output.json) return output.document({ notification, verdicts: items, nextCursor });
      showNotification(output, notification);
      const [only] = items;
      if (subscription !== undefined && only !== undefined) {
        output.fields([
          ["subscription", only.subscription_id],
          ["outcome", only.outcome],
          ["why", only.explanation],
          ["confirmed", confirmedText(only)],
          ["filter", filterText(only)],
          ["delivery", deliveryText(only)],
          ["webhook", webhookText(only)],
          ["queue", queueText(only)],
        ]);
        return;
      }
      if (items.length === 0) output.note("The topic had no subscriptions.");
      else
        output.table(
          ["SUBSCRIPTION", "PROTOCOL", "OUTCOME", "WHY"],
          items.map((each) => [each.subscription_id, each.protocol, each.outcome, each.explanation]),
        );
      noteMore(output, nextCursor);
    },
  );
}
