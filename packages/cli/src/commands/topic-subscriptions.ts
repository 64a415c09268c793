/** `millrace topics subscriptions`: who receives what a topic publishes. */
import type { Answer, Operations } from "@millrace/contract";
import type { Command } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { showSeconds } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";
import { subscriptionOptions, subscriptionSettingsOf } from "./topic-settings.ts";

type Subscription = Answer<Operations["GetTopicSubscription"]>["subscription"];

function show(output: Output, subscription: Subscription): void {
  if (output.json) {
    output.document(subscription);
    return;
  }
  const { status, rate_limit: rate, redrive_policy: redrive, confirmable_until: until } = subscription;
  output.fields([
    ["id", subscription.id],
    ["topic", subscription.topic_name],
    ["protocol", subscription.protocol],
    ["endpoint", subscription.endpoint],
    ["state", subscription.state],
    ["confirmed", subscription.confirmed_at ?? (until === null ? "-" : `no: its link is good until ${until}`)],
    ["raw delivery", subscription.raw_message_delivery ? "yes" : "no"],
    [
      "filter",
      subscription.filter_policy === null ? "none" : `${JSON.stringify(subscription.filter_policy)} on ${subscription.filter_policy_scope}`,
    ],
    ["retry policy", subscription.retry_policy === null ? "inherited" : JSON.stringify(subscription.retry_policy)],
    ["dead letters", redrive === null ? "none" : `to ${redrive.dead_letter_queue ?? "a queue that was deleted"}`],
    ["in flight", `${subscription.max_in_flight} at most`],
    ["rate limit", rate === null ? "none" : `${rate.count} per ${showSeconds(rate.period_seconds)}`],
    ["health", status.failing ? "failing" : "ok"],
    ["last error", status.last_error === null ? "-" : `${status.last_error.at} ${status.last_error.class}: ${status.last_error.message}`],
    ["last success", status.last_success_at ?? "-"],
    ["created", subscription.created_at],
    ["updated", subscription.updated_at],
  ]);
}

/** The endpoint that the flags name: one of the two. */
function endpointOf({ url, queue }: { url?: string; queue?: string }): { protocol: "webhook" | "queue"; endpoint: string } {
  if (url !== undefined && queue === undefined) return { protocol: "webhook", endpoint: url };
  if (queue !== undefined && url === undefined) return { protocol: "queue", endpoint: queue };
  throw new CliError(exitCode.usage, "A subscription needs one endpoint.", "Give --url URL or --queue QUEUE.");
}

export function topicSubscriptionCommands(topics: Command): void {
  const group = topics.command("subscriptions").description("Who receives what a topic publishes.");

  leaf<{ limit: number }>(
    group,
    "list <topic>",
    "List a topic's subscriptions.",
    ["millrace topics subscriptions list orders"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, [topic = ""], { limit }) => {
      const { items, nextCursor } = await client.list<Subscription>("ListTopicSubscriptions", "subscriptions", limit, {
        params: { topic },
      });
      if (output.json) return output.document({ subscriptions: items, nextCursor });
      output.table(
        ["ID", "PROTOCOL", "STATE", "HEALTH", "FILTER", "ENDPOINT"],
        items.map((each) => [
          each.id,
          each.protocol,
          each.state,
          each.status.failing ? "failing" : "ok",
          each.filter_policy === null ? "-" : Object.keys(each.filter_policy).join(","),
          each.endpoint,
        ]),
      );
      if (items.length === 0) output.note(`No subscriptions yet. Make one: millrace topics subscriptions create ${topic} --url URL`);
      noteMore(output, nextCursor);
    },
  );

  leaf(
    group,
    "get <subscription>",
    "Show a topic subscription and how its deliveries go.",
    ["millrace topics subscriptions get 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10"],
    () => {},
    async ({ client, output }, [subscriptionId = ""]) =>
      show(output, (await client.call("GetTopicSubscription", { subscriptionId })).subscription),
  );

  let create: Command | undefined;
  leaf<{ url?: string; queue?: string }>(
    group,
    "create <topic>",
    "Subscribe a webhook, which has to confirm, or a queue of the project.",
    [
      "millrace topics subscriptions create orders --url https://hooks.example.com/orders",
      'millrace topics subscriptions create orders --queue billing --filter \'{"store":["berlin",{"prefix":"ber-"}]}\'',
    ],
    (command) => {
      create = command;
      command.option("--url <url>", "the webhook that notifications are posted to").option("--queue <queue>", "the queue that gets them");
      subscriptionOptions(command);
    },
    async ({ client, output }, [topic = ""], flags) => {
      const settings = create === undefined ? {} : subscriptionSettingsOf(create);
      const { subscription } = await client.call("CreateTopicSubscription", { topic, body: { ...settings, ...endpointOf(flags) } });
      show(output, subscription);
      if (!output.json && subscription.state === "pending")
        output.note("It gets notifications once its endpoint has followed the link that was sent to it.");
    },
  );

  let update: Command | undefined;
  leaf(
    group,
    "update <subscription>",
    "Change a topic subscription. What is not named stays; a changed filter counts for later publications.",
    ["millrace topics subscriptions update 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10 --no-filter"],
    (command) => {
      update = command;
      subscriptionOptions(command);
    },
    async ({ client, output }, [subscriptionId = ""]) => {
      const body = update === undefined ? {} : subscriptionSettingsOf(update);
      if (Object.values(body).every((value) => value === undefined))
        throw new CliError(
          exitCode.usage,
          "Nothing to change.",
          "Name at least one setting; see `millrace topics subscriptions update --help`.",
        );
      show(output, (await client.call("UpdateTopicSubscription", { subscriptionId, body })).subscription);
    },
  );

  leaf<{ yes?: boolean }>(
    group,
    "delete <subscription>",
    "End a topic subscription. What is not delivered is cancelled.",
    ["millrace topics subscriptions delete 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10 --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [subscriptionId = ""], { yes }) => {
      await confirmDestructive(`End the subscription ${subscriptionId}`, yes);
      await client.call("DeleteTopicSubscription", { subscriptionId });
      if (output.json) output.document({ deleted: subscriptionId });
      else output.note(`Deleted ${subscriptionId}.`);
    },
  );

  leaf(
    group,
    "request-confirmation <subscription>",
    "Send the handshake of a pending webhook again.",
    ["millrace topics subscriptions request-confirmation 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10"],
    () => {},
    async ({ client, output }, [subscriptionId = ""]) => {
      const { subscription } = await client.call("RequestConfirmation", { subscriptionId });
      if (output.json) output.document(subscription);
      else if (subscription.state === "confirmed") output.note(`${subscription.id} is confirmed already.`);
      else output.note(`The handshake goes to ${subscription.endpoint}; its link is good until ${subscription.confirmable_until ?? "-"}.`);
    },
  );

  leaf<{ rotate?: boolean }>(
    group,
    "signing-secret <subscription>",
    "Print the secret that signs a webhook's requests.",
    [
      "millrace topics subscriptions signing-secret 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10",
      "millrace topics subscriptions signing-secret 01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10 --rotate",
    ],
    (command) => command.option("--rotate", "replace it first, at once: the endpoint has to learn the new one"),
    async ({ client, output }, [subscriptionId = ""], { rotate }) => {
      const operation = rotate === true ? "RotateTopicSubscriptionSecret" : "GetTopicSubscriptionSecret";
      const { signing_secret: secret } = await client.call(operation, { subscriptionId });
      if (output.json) output.document(secret);
      else output.line(secret.secret);
    },
  );
}
