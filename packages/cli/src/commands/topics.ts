/** `millrace topics`: publishing to many, and why something did not arrive. */
import { readFileSync } from "node:fs";
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { showSeconds } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore, parsePair, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";
import { explainCommand } from "./topic-explain.ts";
import { parseObject, retryOptions, retryPolicyOf } from "./topic-settings.ts";
import { topicSubscriptionCommands } from "./topic-subscriptions.ts";

type Topic = Answer<Operations["GetTopic"]>["topic"];
type Publication = Input<Operations["Publish"]>["body"];
type Attributes = Publication["attributes"];

/** A retry policy in one line. */
export function showRetryPolicy(policy: Topic["retry_policy"]): string {
  const parts = Object.entries(policy ?? {}).map(([name, value]) =>
    name.endsWith("_seconds") ? `${name.slice(0, -8).replaceAll("_", " ")} ${showSeconds(value)}` : `${name.replaceAll("_", " ")} ${value}`,
  );
  return parts.length === 0 ? "inherited" : parts.join(", ");
}

function show(output: Output, topic: Topic): void {
  if (output.json) {
    output.document(topic);
    return;
  }
  output.fields([
    ["name", topic.name],
    ["id", topic.id],
    ["crn", topic.crn],
    ["type", topic.fifo ? "fifo" : "standard"],
    ["display name", topic.display_name ?? "-"],
    ["retry policy", showRetryPolicy(topic.retry_policy)],
    ["subscriptions", `${topic.confirmed_subscriptions} confirmed, ${topic.pending_subscriptions} pending`],
    ["created", topic.created_at],
    ["updated", topic.updated_at],
  ]);
}

interface AttributeFlags {
  attribute?: Record<string, string>;
  attributes?: Record<string, unknown>;
}

function attributeOptions(command: Command): void {
  command
    .addOption(new Option("--attribute <name=value>", "a text attribute, may be repeated").argParser(parsePair))
    .addOption(
      new Option("--attributes <json>", 'attributes with types: {"price": {"type": "Number", "value": 9}}').argParser(parseObject),
    );
}

/** Both kinds of flags together; the server judges the types. */
const attributesOf = ({ attribute, attributes }: AttributeFlags): Attributes =>
  attribute === undefined && attributes === undefined ? undefined : ({ ...attributes, ...attribute } as Attributes);

/** The message as typed, or from a file (`-` is standard input). */
function messageOf(given: string | undefined, file: string | undefined): string {
  if (given !== undefined && file !== undefined) throw new CliError(exitCode.usage, "Give a message or --file, not both.");
  if (given !== undefined) return given;
  if (file === undefined) throw new CliError(exitCode.usage, "No message.", "Give one, or --file PATH (- is standard input).");
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file === "-" ? 0 : file));
  } catch (error) {
    throw new CliError(exitCode.usage, `${file} cannot be read as text: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function publishCommand(topics: Command): void {
  leaf<AttributeFlags & { subject?: string; group?: string; dedupId?: string; file?: string; perProtocol?: boolean }>(
    topics,
    "publish <topic> [message]",
    "Publish a notification. Prints its id once it is durable.",
    [
      "millrace topics publish orders '{\"order\":7}' --attribute store=berlin",
      'millrace topics publish orders --file message.json --attributes \'{"price":{"type":"Number","value":100}}\'',
    ],
    (command) => {
      attributeOptions(command);
      command
        .option("--subject <text>", "a subject")
        .option("--group <id>", "on FIFO topics: what is delivered in order")
        .option("--dedup-id <id>", "on FIFO topics: a second publication within five minutes answers the first")
        .option("--file <path>", "read the message from a file; - is standard input")
        .option("--per-protocol", "the message is a JSON object of payloads: default, webhook, queue");
    },
    async ({ client, output }, [topic = "", given], flags) => {
      const text = messageOf(given, flags.file);
      const body: Publication = {
        message: flags.perProtocol === true ? (parsePayloads(text) as Publication["message"]) : text,
        message_structure: flags.perProtocol === true ? "json" : undefined,
        subject: flags.subject,
        attributes: attributesOf(flags),
        message_group_id: flags.group,
        message_deduplication_id: flags.dedupId,
      };
      const { notification } = await client.call("Publish", { topic, body });
      if (output.json) output.document(notification);
      else output.line(notification.message_id);
    },
  );
}

function parsePayloads(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CliError(exitCode.usage, "--per-protocol takes a JSON object as the message, and this is no JSON.");
  }
}

function testFilterCommand(topics: Command): void {
  leaf<AttributeFlags & { scope?: "attributes" | "message"; message?: string; file?: string }>(
    topics,
    "test-filter <policy>",
    "Hold a message and attributes against a filter policy. Ends with 1 when it does not match.",
    [
      'millrace topics test-filter \'{"store":["berlin"]}\' --attribute store=paris',
      'millrace topics test-filter \'{"price":[{"numeric":[">",100]}]}\' --scope message --message \'{"price":99}\'',
    ],
    (command) => {
      attributeOptions(command);
      command
        .addOption(new Option("--scope <scope>", "what the policy looks at").choices(["attributes", "message"]))
        .option("--message <text>", "the message")
        .option("--file <path>", "read the message from a file; - is standard input");
    },
    async ({ client, output }, [policy = ""], flags) => {
      const message = flags.message === undefined && flags.file === undefined ? undefined : messageOf(flags.message, flags.file);
      const body = { filter_policy: parsePolicy(policy), filter_policy_scope: flags.scope, message, attributes: attributesOf(flags) };
      const { result } = await client.call("TestFilterPolicy", { body });
      if (!result.matched) process.exitCode = exitCode.failed;
      if (output.json) return output.document(result);
      output.note(result.matched ? "It matches." : "It does not match:");
      if (result.failures.length === 0) return;
      output.table(
        ["KEY", "REASON", "GOT", "EXPECTED"],
        result.failures.map(({ key, reason, got, expected }) => [
          key === "" ? "(message)" : key,
          reason,
          got === null && reason !== "different" ? "-" : JSON.stringify(got),
          JSON.stringify(expected),
        ]),
      );
    },
  );
}

function parsePolicy(text: string): Record<string, unknown> {
  try {
    return parseObject(text);
  } catch (error) {
    throw new CliError(exitCode.usage, `The policy cannot be read. ${error instanceof Error ? error.message : ""}`.trimEnd());
  }
}

export function topicCommands(program: Command): void {
  const topics = program.command("topics").description("Topics: publish once, deliver to every subscription whose filter matches.");

  leaf<{ limit: number }>(
    topics,
    "list",
    "List the project's topics.",
    ["millrace topics list"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, { limit }) => {
      const { items, nextCursor } = await client.list<Topic>("ListTopics", "topics", limit);
      if (output.json) return output.document({ topics: items, nextCursor });
      output.table(
        ["NAME", "TYPE", "CONFIRMED", "PENDING", "ID"],
        items.map((topic) => [
          topic.name,
          topic.fifo ? "fifo" : "standard",
          String(topic.confirmed_subscriptions),
          String(topic.pending_subscriptions),
          topic.id,
        ]),
      );
      if (items.length === 0) output.note("No topics yet. Make one: millrace topics create orders");
      noteMore(output, nextCursor);
    },
  );

  leaf(
    topics,
    "get <topic>",
    "Show a topic.",
    ["millrace topics get orders"],
    () => {},
    async ({ client, output }, [topic = ""]) => show(output, (await client.call("GetTopic", { topic })).topic),
  );

  leaf<Parameters<typeof retryPolicyOf>[0] & { fifo?: boolean; displayName?: string }>(
    topics,
    "create <name>",
    "Make a topic.",
    ["millrace topics create orders", "millrace topics create orders --max-attempts 20 --timeout 5s"],
    (command) => {
      command
        .option("--fifo", "deliver to FIFO queues in publication order, group by group")
        .option("--display-name <text>", "a name for people");
      retryOptions(command);
    },
    async ({ client, output }, [name = ""], flags) => {
      const body = { name, fifo: flags.fifo, display_name: flags.displayName, retry_policy: retryPolicyOf(flags) };
      show(output, (await client.call("CreateTopic", { body })).topic);
    },
  );

  leaf<Parameters<typeof retryPolicyOf>[0] & { displayName?: string }>(
    topics,
    "update <topic>",
    "Change a topic. A retry policy is replaced whole.",
    ["millrace topics update orders --display-name Orders"],
    (command) => {
      command.option("--display-name <text>", "a name for people");
      retryOptions(command);
    },
    async ({ client, output }, [topic = ""], flags) => {
      const body = { display_name: flags.displayName, retry_policy: retryPolicyOf(flags) };
      if (Object.values(body).every((value) => value === undefined))
        throw new CliError(exitCode.usage, "Nothing to change.", "Name at least one setting; see `millrace topics update --help`.");
      show(output, (await client.call("UpdateTopic", { topic, body })).topic);
    },
  );

  leaf<{ yes?: boolean }>(
    topics,
    "delete <topic>",
    "Delete a topic. Its subscriptions end, and what is not delivered is cancelled.",
    ["millrace topics delete orders --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [topic = ""], { yes }) => {
      await confirmDestructive(`Delete topic ${topic} with its subscriptions`, yes);
      await client.call("DeleteTopic", { topic });
      if (output.json) output.document({ deleted: topic });
      else output.note(`Deleted ${topic}.`);
    },
  );

  publishCommand(topics);
  explainCommand(topics);
  testFilterCommand(topics);
  topicSubscriptionCommands(topics);
}
