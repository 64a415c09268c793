/** `millrace listen`: messages of queues, delivered to a port of this machine as a push consumer would get them. */
import { parseSecret, type SigningKey } from "@millrace/contract/wire";
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Client } from "../client.ts";
import { parseWhole } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { environmentOption, leaf } from "../leaf.ts";
import { listenTo, type Source, type Told } from "../listen/source.ts";
import type { Output } from "../output.ts";
import { untilStopped } from "../signals.ts";

interface Flags {
  forward: URL;
  output: "lines" | "json";
  concurrency: number;
  environment?: string;
}

/** How long a secret is used before it is read again, in milliseconds: a rotation takes over within this time. */
const SECRET_MS = 30_000;

function parseTarget(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "" || url.hash !== "")
    throw new InvalidArgumentError("It takes an http or https URL, such as http://localhost:3000.");
  return url;
}

function parseConcurrency(text: string): number {
  const number = parseWhole(text);
  if (number < 1 || number > 100) throw new InvalidArgumentError("It takes a number from 1 to 100.");
  return number;
}

/** The environment's signing secret, read again now and then. */
function secretOf(client: Client, environmentId: string): () => Promise<SigningKey> {
  let known: { key: Promise<SigningKey>; until: number } | undefined;
  const read = async (): Promise<SigningKey> => {
    const key = parseSecret((await client.call("GetSigningSecret", { environmentId })).secret);
    if (key === undefined) throw new CliError(exitCode.failed, "The environment's signing secret cannot be read.");
    return key;
  };
  return () => {
    if (known === undefined || known.until <= Date.now()) known = { key: read(), until: Date.now() + SECRET_MS };
    const { key } = known;
    key.catch(() => {
      known = undefined;
    });
    return key;
  };
}

/** Where a queue's messages go: its consumer path behind a base URL; a URL with a path of its own is taken as it is. */
function targetOf(forward: URL, consumerPath: string | null): URL {
  if (consumerPath === null || forward.pathname !== "/" || forward.search !== "") return forward;
  return new URL(forward.origin + consumerPath);
}

const words = { ack: "done", defer: "deferred", retry: "retry", "dead-letter": "dead letter" } as const;

function teller(output: Output, json: boolean): Told {
  const event = (fields: object) => output.line(JSON.stringify(fields));
  return {
    connected: (queue, url) => (json ? event({ event: "connected", queue, url }) : output.note(`connected: ${queue} goes to ${url}`)),
    holding: (queue, reason) => (json ? event({ event: "holding", queue, reason }) : output.note(`holding ${queue}: ${reason}`)),
    unsettled: (queue, { id: messageId }, reason) =>
      json ? event({ event: "unsettled", queue, messageId, reason }) : output.note(`${queue}  ${messageId}  not settled: ${reason}`),
    forwarded(queue, message, { status, durationMs, outcome, error }) {
      const reason = outcome.kind === "dead-letter" ? outcome.reason : error;
      const delayMs = outcome.kind === "defer" || outcome.kind === "retry" ? outcome.delayMs : null;
      if (json) {
        const { id: messageId, attempts: attempt } = message;
        event({ event: "forwarded", queue, messageId, attempt, status, durationMs, outcome: outcome.kind, delayMs, error: reason });
        return;
      }
      const after = delayMs === null ? "" : ` after ${Math.ceil(delayMs / 1000)} s`;
      const why = reason === null ? "" : `  ${reason.replace(/\s+/g, " ")}`;
      const answer = status === null ? "no answer" : String(status);
      output.line(
        `${queue}  ${message.id}  attempt ${message.attempts}  ${answer} in ${durationMs} ms  ${words[outcome.kind]}${after}${why}`,
      );
    },
  };
}

export function listenCommand(program: Command): void {
  leaf<Flags>(
    program,
    "listen <queues...>",
    "Deliver queues to a port of this machine, signed as to a push consumer, and settle each message by the answer.",
    [
      "millrace listen emails --forward http://localhost:3000",
      "millrace listen orders payments --forward http://localhost:3000/api/work --output json",
    ],
    (command) =>
      command
        .addOption(
          new Option("--forward <url>", "where to; a queue's consumer path is added to a URL without a path")
            .argParser(parseTarget)
            .makeOptionMandatory(),
        )
        .addOption(
          new Option("--output <form>", "a line of text or a line of JSON per message").choices(["lines", "json"]).default("lines"),
        )
        .addOption(new Option("--concurrency <number>", "messages of a queue in flight at once").argParser(parseConcurrency).default(10))
        .addOption(environmentOption()),
    async ({ client, output }, names, flags) => {
      const { environment, concurrency } = flags;
      const told = teller(output, flags.output === "json" || output.json);
      const sources: Source[] = [];
      for (const queue of new Set(names)) {
        const shown = await client.call("GigadriveGetQueue", { queueName: queue, query: { environment } });
        const key = secretOf(client, shown.environment);
        await key();
        if (shown.consumerPath !== null)
          output.note(`${queue} is a push queue: while a deployment serves its environment, the two share its messages.`);
        if (shown.paused) output.note(`${queue} is paused: nothing comes until it is resumed.`);
        const { visibilityTimeoutSeconds } = shown;
        sources.push({
          ...{ client, environment, concurrency, told, key, visibilityTimeoutSeconds },
          queue: shown.name,
          url: targetOf(flags.forward, shown.consumerPath),
        });
      }
      const stop = new AbortController();
      const all = Promise.all(
        sources.map((source) =>
          listenTo(source, stop.signal).catch((error: unknown) => {
            stop.abort();
            throw error;
          }),
        ),
      ).then(() => {});
      const stopped = untilStopped(
        async () => {
          stop.abort();
          await all;
        },
        (text) => output.note(text),
      );
      await Promise.race([all, stopped]);
    },
  );
}
