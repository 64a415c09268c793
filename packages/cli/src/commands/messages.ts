/** `millrace messages`: putting messages in, taking them out, looking at them, and sending dead letters back. */
import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import type { Client } from "../client.ts";
import { parseSeconds, parseWhole } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { collect, leaf, limitOption, noteMore, parsePair } from "../leaf.ts";
import type { Output } from "../output.ts";

type Sending = Input<Operations["SendMessages"]>["body"]["messages"][number];
type Received = Answer<Operations["ReceiveMessages"]>["messages"][number];
type Peeked = Received & { state: string; attempts: number; lastError: string | null };
type Redrive = Answer<Operations["GetRedrive"]>;

/** How often `--watch` asks. */
const watchEveryMs = 500;
const perRequest = 10;

/** Text as `body`, other bytes as `bodyBase64`. */
function bodyOf(bytes: Uint8Array): Pick<Sending, "body" | "bodyBase64"> {
  try {
    return { body: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { bodyBase64: Buffer.from(bytes).toString("base64") };
  }
}

function shownBody(message: { body?: string; bodyBase64?: string }): string {
  return message.body ?? `base64:${message.bodyBase64 ?? ""}`;
}

function bodiesOf(given: readonly string[], flags: { file?: string; lines?: boolean }): Pick<Sending, "body" | "bodyBase64">[] {
  if (flags.file !== undefined && given.length > 0) throw new CliError(exitCode.usage, "Give bodies or --file, not both.");
  if (flags.file === undefined && given.length > 0) return given.map((body) => ({ body }));
  if (flags.file === undefined)
    throw new CliError(exitCode.usage, "Nothing to send.", "Give a body, or --file PATH (- is standard input).");
  let bytes: Uint8Array;
  try {
    bytes = new Uint8Array(readFileSync(flags.file === "-" ? 0 : flags.file));
  } catch (error) {
    throw new CliError(exitCode.usage, `${flags.file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (flags.lines !== true) return [bodyOf(bytes)];
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  if (lines.length === 0) throw new CliError(exitCode.usage, "Nothing to send: there are no lines.");
  return lines.map((body) => ({ body }));
}

interface SendFlags {
  attribute?: Record<string, string>;
  group?: string;
  dedupId?: string;
  delay?: number;
  file?: string;
  lines?: boolean;
}

async function send(client: Client, output: Output, queueId: string, given: readonly string[], flags: SendFlags): Promise<void> {
  const bodies = bodiesOf(given, flags);
  if (flags.dedupId !== undefined && bodies.length > 1) {
    throw new CliError(exitCode.usage, "--dedup-id names one message, and several are given.");
  }
  const messages = bodies.map(
    (body): Sending => ({ ...body, attributes: flags.attribute, groupId: flags.group, dedupId: flags.dedupId, delaySeconds: flags.delay }),
  );
  const sent: Answer<Operations["SendMessages"]>["messages"] = [];
  for (let at = 0; at < messages.length; at += perRequest) {
    try {
      const answer = await client.call("SendMessages", { queueId, body: { messages: messages.slice(at, at + perRequest) } });
      sent.push(...answer.messages);
    } catch (error) {
      if (!(error instanceof CliError) || sent.length === 0) throw error;
      throw new CliError(
        exitCode.partlyFailed,
        `${sent.length} of ${messages.length} messages were sent, then: ${error.message}`,
        error.hint,
      );
    }
  }
  if (output.json) {
    output.document({ messages: sent });
    return;
  }
  for (const { messageId } of sent) output.line(messageId);
  const repeated = sent.filter(({ deduplicated }) => deduplicated === true).length;
  if (repeated > 0) output.note(`${repeated} of ${sent.length} had been sent before and were not stored again.`);
}

function resultCode(results: readonly { ok: boolean; code?: string }[]): number {
  const failed = results.filter(({ ok }) => !ok);
  if (failed.length === 0) return exitCode.ok;
  if (failed.length < results.length) return exitCode.partlyFailed;
  return failed.every(({ code }) => code === "message_not_found") ? exitCode.notFound : exitCode.conflict;
}

async function acknowledge(client: Client, queueId: string, receipts: readonly string[]) {
  const results: Answer<Operations["AckMessages"]>["results"] = [];
  for (let at = 0; at < receipts.length; at += perRequest) {
    const answer = await client.call("AckMessages", { queueId, body: { receipts: receipts.slice(at, at + perRequest) } });
    results.push(...answer.results);
  }
  return results;
}

function showRedrive(output: Output, job: Redrive): void {
  if (output.json) output.document(job);
  else {
    output.fields([
      ["id", job.id],
      ["state", job.state],
      ["selected", String(job.selected)],
      ["moved", String(job.moved)],
      ["remaining", String(job.remaining)],
      ["failed", String(job.failed)],
      ["last error", job.lastError ?? "-"],
    ]);
  }
  if (job.failed > 0) process.exitCode = exitCode.partlyFailed;
}

interface RedriveFlags {
  all?: boolean;
  id?: string[];
  rate?: number;
  watch?: boolean;
  cancel?: string;
}

async function redrive(client: Client, output: Output, queueId: string, flags: RedriveFlags): Promise<void> {
  if (flags.cancel !== undefined) {
    showRedrive(output, await client.call("CancelRedrive", { queueId, redriveId: flags.cancel }));
    return;
  }
  if ((flags.all === true) === (flags.id !== undefined)) {
    throw new CliError(exitCode.usage, "Say which dead letters to send back.", "Give either --all or --id ID (repeatable).");
  }
  let job = await client.call("RedriveMessages", { queueId, body: { messageIds: flags.id, ratePerSecond: flags.rate } });
  while (flags.watch && job.state === "running") {
    await wait(watchEveryMs);
    const before = job.moved;
    job = await client.call("GetRedrive", { queueId, redriveId: job.id });
    if (job.moved !== before) output.note(`${job.moved} of ${job.selected} moved`);
  }
  showRedrive(output, job);
}

export function messageCommands(program: Command): void {
  const messages = program.command("messages").description("Messages: send, receive, look, acknowledge, send back.");

  leaf<SendFlags>(
    messages,
    "send <queue> [bodies...]",
    "Send messages. Prints their ids once they are durable.",
    [
      'millrace messages send orders \'{"orderId": "o-123"}\'',
      "millrace messages send orders --attribute source=web --delay 10m hello",
      "millrace messages send payments --group acct-9 --dedup-id pay-77 '{\"amount\": 5}'",
      "cat lines.txt | millrace messages send orders --file - --lines",
    ],
    (command) =>
      command
        .option("--attribute <name=value>", "an attribute; may be repeated", parsePair)
        .option("--group <id>", "the group that the messages are ordered in")
        .option("--dedup-id <id>", "the id under which a repeat is recognized")
        .addOption(new Option("--delay <duration>", "deliver no sooner than after this time").argParser(parseSeconds))
        .option("--file <path>", "read the body from a file; - is standard input")
        .option("--lines", "with --file: every line is a message"),
    ({ client, output }, [queue = "", ...bodies], flags) => send(client, output, queue, bodies, flags),
  );

  leaf<{ max: number; wait: number; visibilityTimeout?: number; ack?: boolean }>(
    messages,
    "receive <queue>",
    "Lease messages: they stay hidden until acknowledged or until the lease ends.",
    ["millrace messages receive orders --wait 20s", "millrace messages receive orders --max 10 --ack --json"],
    (command) =>
      command
        .addOption(new Option("--max <number>", "how many, 1 to 10").argParser(parseWhole).default(1))
        .addOption(new Option("--wait <duration>", "how long to wait for the first one, up to 20s").argParser(parseSeconds).default(0))
        .addOption(new Option("--visibility-timeout <duration>", "how long the lease lasts").argParser(parseSeconds))
        .option("--ack", "acknowledge them once they are printed"),
    async ({ client, output }, [queueId = ""], flags) => {
      const body = { maxMessages: flags.max, waitSeconds: flags.wait, visibilityTimeoutSeconds: flags.visibilityTimeout };
      const answer = await client.call("ReceiveMessages", { queueId, body });
      if (output.json) output.document(answer);
      else {
        output.table(
          ["ID", "RECEIVES", "RECEIPT", "BODY"],
          answer.messages.map((message: Received) => [
            message.messageId,
            String(message.receiveCount),
            message.receipt,
            shownBody(message),
          ]),
        );
        if (answer.messages.length === 0) output.note("No message is ready.");
      }
      if (flags.ack && answer.messages.length > 0) {
        const results = await acknowledge(
          client,
          queueId,
          answer.messages.map(({ receipt }) => receipt),
        );
        process.exitCode = resultCode(results);
        output.note(`Acknowledged ${results.filter(({ ok }) => ok).length} of ${results.length}.`);
      }
    },
  );

  leaf<{ state?: string; limit: number }>(
    messages,
    "peek <queue>",
    "Look at messages without receiving them.",
    ["millrace messages peek orders", "millrace messages peek orders --state dead --json"],
    (command) =>
      command
        .addOption(
          new Option("--state <state>", "only messages in this state").choices(["scheduled", "ready", "waiting", "inflight", "dead"]),
        )
        .addOption(limitOption().default(20)),
    async ({ client, output }, [queueId = ""], flags) => {
      const { items, nextCursor } = await client.list<Peeked>("PeekMessages", "messages", flags.limit, {
        params: { queueId },
        query: { state: flags.state },
      });
      if (output.json) {
        output.document({ messages: items, nextCursor });
        return;
      }
      output.table(
        ["ID", "STATE", "ATTEMPTS", "GROUP", "LAST ERROR", "BODY"],
        items.map((message) => [
          message.messageId,
          message.state,
          String(message.attempts),
          message.groupId ?? "-",
          message.lastError ?? "-",
          shownBody(message),
        ]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf(
    messages,
    "ack <queue> <receipts...>",
    "Acknowledge received messages by their receipts: they are gone for good.",
    ["millrace messages ack orders 4f.1"],
    () => {},
    async ({ client, output }, [queueId = "", ...receipts]) => {
      const results = await acknowledge(client, queueId, receipts);
      process.exitCode = resultCode(results);
      if (output.json) {
        output.document({ results });
        return;
      }
      for (const { receipt, ok, code } of results) if (!ok) output.note(`${receipt}: ${code ?? "refused"}`);
      output.note(`Acknowledged ${results.filter(({ ok }) => ok).length} of ${results.length}.`);
    },
  );

  leaf<RedriveFlags>(
    messages,
    "redrive <queue>",
    "Send dead letters back to the queue they came from.",
    [
      "millrace messages redrive orders-dead --all --watch",
      "millrace messages redrive orders-dead --id 01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f",
    ],
    (command) =>
      command
        .option("--all", "all of them")
        .option("--id <id>", "this one; may be repeated", collect)
        .addOption(new Option("--rate <number>", "messages per second at most").argParser(parseWhole))
        .option("--watch", "wait until it is done")
        .option("--cancel <job>", "stop a redrive that is under way"),
    ({ client, output }, [queue = ""], flags) => redrive(client, output, queue, flags),
  );
}
