/** `millrace queues`: the queues of a project, their settings and their depth. */
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { parseRate, parseSeconds, parseWhole, showSeconds } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";
import { subscriptionCommands } from "./subscriptions.ts";

type Queue = Answer<Operations["GetQueue"]>;
type Settings = Input<Operations["UpdateQueue"]>["body"];

interface SettingFlags {
  visibilityTimeout?: number;
  retention?: number;
  delay?: number;
  deadLetterQueue?: string | false;
  maxReceiveCount?: number;
  backoffMin?: number;
  backoffMax?: number;
  deduplicationWindow?: number;
  contentBasedDeduplication?: boolean;
  rateLimit?: { count: number; periodSeconds: number } | false;
  groupConcurrency?: number | null;
  maxBytes?: number | false;
}

function settingOptions(command: Command): void {
  const duration = (flags: string, text: string) => command.addOption(new Option(flags, text).argParser(parseSeconds));
  const whole = (flags: string, text: string) => command.addOption(new Option(flags, text).argParser(parseWhole));
  duration("--visibility-timeout <duration>", "how long a received message stays hidden");
  duration("--retention <duration>", "how long a message is kept");
  duration("--delay <duration>", "how long a message waits before it is first delivered");
  command.option("--dead-letter-queue <queue>", "where messages go that ran out of attempts");
  command.option("--no-dead-letter-queue", "no dead-letter queue: retry until retention ends");
  whole("--max-receive-count <number>", "attempts before a message is a dead letter (with --dead-letter-queue)");
  duration("--backoff-min <duration>", "the wait after a first failure");
  duration("--backoff-max <duration>", "the longest wait after a failure");
  duration("--deduplication-window <duration>", "how long a deduplication id is remembered; 0 turns it off");
  command.option("--content-based-deduplication", "take the body's hash where a message has no deduplication id");
  command.option("--no-content-based-deduplication", "do not");
  command.addOption(new Option("--rate-limit <rate>", "deliveries per period, such as 100/s").argParser(parseRate));
  command.option("--no-rate-limit", "no limit");
  command.addOption(
    new Option("--group-concurrency <number|none>", "messages of one group in flight at once; none: no limit and no order").argParser(
      (text) => (text === "none" ? null : parseWhole(text)),
    ),
  );
  whole("--max-bytes <bytes>", "how large the backlog may grow");
  command.option("--no-max-bytes", "no limit");
}

/** Commander sets the default of a `--no-` flag to true; only what was typed counts. */
function settingsOf(command: Command): Settings {
  const typed = Object.fromEntries(
    Object.entries(command.opts<SettingFlags>()).filter(([name]) => command.getOptionValueSource(name) === "cli"),
  ) as SettingFlags;
  const { deadLetterQueue, maxReceiveCount } = typed;
  if (typeof deadLetterQueue === "string" && maxReceiveCount === undefined) {
    throw new CliError(exitCode.usage, "--dead-letter-queue needs --max-receive-count.");
  }
  if (typeof deadLetterQueue !== "string" && maxReceiveCount !== undefined) {
    throw new CliError(exitCode.usage, "--max-receive-count needs --dead-letter-queue.");
  }
  return {
    visibilityTimeoutSeconds: typed.visibilityTimeout,
    retentionSeconds: typed.retention,
    delaySeconds: typed.delay,
    redrivePolicy:
      deadLetterQueue === false
        ? null
        : typeof deadLetterQueue === "string" && maxReceiveCount !== undefined
          ? { deadLetterQueueId: deadLetterQueue, maxReceiveCount }
          : undefined,
    retryBackoffMinSeconds: typed.backoffMin,
    retryBackoffMaxSeconds: typed.backoffMax,
    deduplicationWindowSeconds: typed.deduplicationWindow,
    contentBasedDeduplication: typed.contentBasedDeduplication,
    rateLimit: typed.rateLimit === false ? null : typed.rateLimit,
    groups: typed.groupConcurrency === undefined ? undefined : { concurrency: typed.groupConcurrency },
    maxBytes: typed.maxBytes === false ? null : typed.maxBytes,
  };
}

function showQueue(output: Output, queue: Queue): void {
  if (output.json) {
    output.document(queue);
    return;
  }
  output.fields([
    ["name", queue.name],
    ["id", queue.id],
    ["resource name", queue.resourceName],
    ["type", queue.type],
    ["database", queue.database],
    ["state", queue.paused ? "paused" : "active"],
    ["visibility timeout", showSeconds(queue.visibilityTimeoutSeconds)],
    ["retention", showSeconds(queue.retentionSeconds)],
    ["delay", showSeconds(queue.delaySeconds)],
    [
      "dead letters",
      queue.redrivePolicy === null
        ? (queue.deadLetter ?? "none")
        : `to ${queue.redrivePolicy.deadLetterQueueId} after ${queue.redrivePolicy.maxReceiveCount} attempts`,
    ],
    ["deduplication", queue.deduplicationWindowSeconds === 0 ? "off" : `for ${showSeconds(queue.deduplicationWindowSeconds)}`],
    ["content-based", queue.contentBasedDeduplication ? "yes" : "no"],
    ["group concurrency", queue.groups.concurrency === null ? "no limit" : String(queue.groups.concurrency)],
    ["rate limit", queue.rateLimit === null ? "none" : `${queue.rateLimit.count} per ${showSeconds(queue.rateLimit.periodSeconds)}`],
    ["backlog limit", queue.maxBytes === null ? "none" : `${queue.maxBytes} bytes`],
    ["created", queue.createdAt],
    ["updated", queue.updatedAt],
  ]);
}

/** Head and rows of a list of queues; with their databases where these are a question. */
export function queueTable(
  queues: readonly Pick<Queue, "id" | "name" | "type" | "paused" | "visibilityTimeoutSeconds" | "retentionSeconds" | "database">[],
): [head: string[], rows: string[][]] {
  const placed = queues.some(({ database }) => database !== "default");
  const head = ["NAME", "TYPE", "STATE", "VISIBILITY", "RETENTION", ...(placed ? ["DATABASE"] : []), "ID"];
  const rows = queues.map((queue) => [
    queue.name,
    queue.type,
    queue.paused ? "paused" : "active",
    showSeconds(queue.visibilityTimeoutSeconds),
    showSeconds(queue.retentionSeconds),
    ...(placed ? [queue.database] : []),
    queue.id,
  ]);
  return [head, rows];
}

export function queueCommands(program: Command): void {
  const queues = program.command("queues").description("Queues: make them, look at them, change them.");

  leaf<{ limit: number }>(
    queues,
    "list",
    "List the project's queues.",
    ["millrace queues list", "millrace queues list --json | jq -r '.queues[].name'"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, flags) => {
      const { items, nextCursor } = await client.list<Queue>("ListQueues", "queues", flags.limit);
      if (output.json) return output.document({ queues: items, nextCursor });
      output.table(...queueTable(items));
      if (items.length === 0) output.note("No queues yet. Make one: millrace queues create orders");
      noteMore(output, nextCursor);
    },
  );

  leaf(
    queues,
    "get <queue>",
    "Show a queue's settings.",
    ["millrace queues get orders"],
    () => {},
    async ({ client, output }, [queueId = ""]) => showQueue(output, await client.call("GetQueue", { queueId })),
  );

  let create: Command | undefined;
  leaf<{ type?: "standard" | "fifo"; database?: string }>(
    queues,
    "create <name>",
    "Make a queue.",
    [
      "millrace queues create orders",
      "millrace queues create payments --type fifo --visibility-timeout 5m",
      "millrace queues create orders --dead-letter-queue orders-dead --max-receive-count 5",
      "millrace queues create orders --database eu",
    ],
    (command) => {
      create = command;
      command.option("--database <name>", "the database it is to live on, by its name in the server's configuration");
      command.addOption(new Option("--type <type>", "standard, or fifo for strict order within groups").choices(["standard", "fifo"]));
      settingOptions(command);
    },
    async ({ client, output }, [name = ""], flags) => {
      const settings = create === undefined ? {} : settingsOf(create);
      showQueue(output, await client.call("CreateQueue", { body: { ...settings, name, type: flags.type, database: flags.database } }));
    },
  );

  let update: Command | undefined;
  leaf(
    queues,
    "update <queue>",
    "Change a queue's settings. What is not named stays as it is.",
    ["millrace queues update orders --retention 14d", "millrace queues update orders --no-dead-letter-queue"],
    (command) => {
      update = command;
      settingOptions(command);
    },
    async ({ client, output }, [queueId = ""]) => {
      const body = update === undefined ? {} : settingsOf(update);
      if (Object.values(body).every((value) => value === undefined)) {
        throw new CliError(exitCode.usage, "Nothing to change.", "Name at least one setting; see `millrace queues update --help`.");
      }
      showQueue(output, await client.call("UpdateQueue", { queueId, body }));
    },
  );

  leaf<{ yes?: boolean }>(
    queues,
    "delete <queue>",
    "Delete a queue with its messages and its subscription.",
    ["millrace queues delete orders --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [queueId = ""], flags) => {
      await confirmDestructive(`Delete queue ${queueId} with all its messages`, flags.yes);
      await client.call("DeleteQueue", { queueId });
      if (output.json) output.document({ deleted: queueId });
      else output.note(`Deleted ${queueId}.`);
    },
  );

  for (const [verb, paused, text] of [
    ["pause", true, "Stop handing out messages. Sends are still accepted."],
    ["resume", false, "Hand out messages again."],
  ] as const) {
    leaf(
      queues,
      `${verb} <queue>`,
      text,
      [`millrace queues ${verb} orders`],
      () => {},
      async ({ client, output }, [queueId = ""]) => {
        const queue = await client.call("UpdateQueue", { queueId, body: { paused } });
        if (output.json) output.document(queue);
        else output.note(`${queue.name} is ${queue.paused ? "paused" : "active"}.`);
      },
    );
  }

  leaf<{ dead?: boolean; yes?: boolean }>(
    queues,
    "purge <queue>",
    "Remove all messages, or only the dead letters.",
    ["millrace queues purge orders --yes", "millrace queues purge orders --dead --yes"],
    (command) => command.option("--dead", "only the dead letters").addOption(yesOption()),
    async ({ client, output }, [queueId = ""], flags) => {
      await confirmDestructive(`Remove ${flags.dead ? "the dead letters" : "all messages"} of ${queueId}`, flags.yes);
      const answer = await client.call("PurgeQueue", { queueId, body: { scope: flags.dead ? "dead" : "all" } });
      if (output.json) output.document(answer);
      else output.note(`Removed ${answer.purgedMessages} ${answer.purgedMessages === 1 ? "message" : "messages"}.`);
    },
  );

  leaf(
    queues,
    "stats <queue>",
    "Show a queue's depth and counters.",
    ["millrace queues stats orders"],
    () => {},
    async ({ client, output }, [queueId = ""]) => {
      const stats = await client.call("GetQueueStats", { queueId });
      if (output.json) return output.document(stats);
      output.fields(Object.entries(stats).map(([name, value]) => [name, value === null ? "-" : String(value)] as const));
    },
  );

  subscriptionCommands(queues);
}
