/** `millrace server`: the server for production. SQLite in the data directory, or PostgreSQL where `DATABASE_URL` says so. */
import type { Command } from "commander";
import { processOutput } from "../leaf.ts";
import { addSettingFlags, configOf } from "../server-flags.ts";
import { untilStopped } from "../signals.ts";
import { start } from "../start.ts";

export function declareServer(command: Command): void {
  command
    .option("--json", "print one line of JSON when ready")
    .addHelpText(
      "after",
      "\nExamples:\n  $ MILLRACE_DATA=/var/lib/millrace millrace server --host 0.0.0.0\n  $ DATABASE_URL=postgres://… MILLRACE_ENCRYPTION_KEY=$(openssl rand -base64 32) millrace server",
    );
  addSettingFlags(command);
  command.action(async () => {
    const output = processOutput(command.opts<{ json?: boolean }>().json === true);
    const { config } = configOf(command);
    const server = await start(
      { config, install: { organization: "default", project: "default", key: { name: "first" } } },
      "millrace server",
    );
    // before anything is printed: whoever waits for the line may send a signal at once
    const stopped = untilStopped(
      () => server.close(config.shutdownGraceSeconds * 1000),
      (text) => output.note(text),
    );
    if (output.json) process.stdout.write(`${JSON.stringify({ url: server.url, apiKey: server.apiKey })}\n`);
    else {
      output.line(`Millrace listens at ${server.url}`);
      if (server.apiKey !== null) {
        output.line("");
        output.line(`This is a new installation. Its first API key, which may do everything and is shown this once:`);
        output.line(`  ${server.apiKey}`);
        output.line("It reaches organization default, project default.");
      }
    }
    await stopped;
  });
}
