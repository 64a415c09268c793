/** What every command that talks to a server has: the flags that say which, `--json`, and an action that gets client and output. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Client, createClient } from "./client.ts";
import { type ConnectionFlags, findConnection } from "./connection.ts";
import { parseWhole } from "./durations.ts";
import { createOutput, type Output } from "./output.ts";

export interface Act {
  client: Client;
  output: Output;
}

type Flags = ConnectionFlags & { json?: boolean };

/** The process's own streams as an output. */
export function processOutput(json: boolean): Output {
  return createOutput({ json, out: process.stdout, err: process.stderr, env: process.env });
}

/**
 * Declares a command that talks to a server. `act` gets the arguments as typed and the flags by name; `examples` are whole
 * command lines, shown by `--help`.
 */
export function leaf<F extends object>(
  parent: Command,
  usage: string,
  description: string,
  examples: readonly string[],
  declare: (command: Command) => void,
  act: (act: Act, args: readonly string[], flags: F) => Promise<void>,
): void {
  const command = parent.command(usage).description(description);
  declare(command);
  connected(command, examples, act);
}

/** Gives a declared command what every command has that talks to a server. As `leaf`, for commands that stand alone. */
export function connected<F extends object>(
  command: Command,
  examples: readonly string[],
  act: (act: Act, args: readonly string[], flags: F) => Promise<void>,
): void {
  command
    .addOption(new Option("--json", "print the answer as one JSON document"))
    .addOption(new Option("--server <url>", "the server (default: MILLRACE_URL, or the dev server of this directory)"))
    .addOption(new Option("--api-key <key>", "the API key (default: MILLRACE_API_KEY)"))
    .addOption(new Option("--organization <name>", "the organization (default: MILLRACE_ORGANIZATION)"))
    .addOption(new Option("--project <name>", "the project (default: MILLRACE_PROJECT)"))
    .addHelpText("after", `\nExamples:\n${examples.map((line) => `  $ ${line}`).join("\n")}`)
    .action(async (...given: unknown[]) => {
      const flags = command.opts<F & Flags>();
      const args = given.slice(0, -2).flatMap((argument) => (argument === undefined ? [] : (argument as string | string[])));
      const connection = findConnection(flags, process.env, process.cwd());
      await act({ client: createClient(connection), output: processOutput(flags.json === true) }, args, flags);
    });
}

/** `--limit`, as lists have it. */
export function limitOption(): Option {
  return new Option("--limit <number>", "how many at most").argParser(parseWhole).default(1000);
}

export function yesOption(): Option {
  return new Option("-y, --yes", "do not ask");
}

export function environmentOption(): Option {
  return new Option("--environment <slug>", "the environment (default: the key's, or production)");
}

/** Collects `name=value` flags. */
export function parsePair(text: string, before: Record<string, string> | undefined): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It takes name=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Collects a flag that may be repeated. */
export function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}

/** Says on standard error that a list was cut. */
export function noteMore(output: Output, nextCursor: string | null): void {
  if (nextCursor !== null) output.note("There are more: raise --limit to see them.");
}
