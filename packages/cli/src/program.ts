/** The tree of commands, and how a run of it ends: every error becomes one or two lines on standard error and an exit code. */
import { Command, CommanderError } from "commander";
import { configCommand } from "./commands/config.ts";
import { devCommand } from "./commands/dev.ts";
import { keyCommands } from "./commands/keys.ts";
import { messageCommands } from "./commands/messages.ts";
import { queueCommands } from "./commands/queues.ts";
import { serverCommand } from "./commands/server.ts";
import { CliError, type ExitCode, exitCode } from "./exit.ts";
import { processOutput } from "./leaf.ts";
import { version } from "./version.ts";

/** Commander ends the process by itself unless every command is told not to. */
function neverExit(command: Command): void {
  command.exitOverride().showHelpAfterError("(--help shows what it takes)");
  for (const child of command.commands) neverExit(child);
}

/** The whole command. */
export function createProgram(): Command {
  const program = new Command("millrace");
  program
    .description("Durable queues that push their messages. Run a server, or drive one.")
    .version(version, "-v, --version")
    .addHelpText("after", "\nStart here:\n  $ millrace dev --demo\n  $ millrace queues list");
  devCommand(program);
  serverCommand(program);
  configCommand(program);
  queueCommands(program);
  messageCommands(program);
  keyCommands(program);
  neverExit(program);
  return program;
}

/** Runs one command line. Answers the exit code; what is still to be printed may still be on its way. */
export async function run(argv: readonly string[]): Promise<ExitCode> {
  try {
    await createProgram().parseAsync(argv, { from: "user" });
    return (process.exitCode as ExitCode | undefined) ?? exitCode.ok;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.usage;
    const output = processOutput(false);
    if (error instanceof CliError) {
      output.note(error.message);
      if (error.hint !== undefined) output.note(error.hint);
      return error.exitCode;
    }
    output.note(
      error instanceof Error
        ? process.env.MILLRACE_LOG_LEVEL === "debug"
          ? (error.stack ?? error.message)
          : error.message
        : String(error),
    );
    return exitCode.failed;
  }
}
