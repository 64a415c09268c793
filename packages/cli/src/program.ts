/** The tree of commands, and how a run of it ends: every error becomes one or two lines on standard error and an exit code. */
import { Command, CommanderError } from "commander";
import { appCommands } from "./commands/apps.ts";
import { auditCommand } from "./commands/audit.ts";
import { backupCommand } from "./commands/backup.ts";
import { deliveryCommands } from "./commands/deliveries.ts";
import { deploymentCommands } from "./commands/deployments.ts";
import { keyCommands } from "./commands/keys.ts";
import { listenCommand } from "./commands/listen.ts";
import { messageCommands } from "./commands/messages.ts";
import { projectCommands } from "./commands/projects.ts";
import { queueCommands } from "./commands/queues.ts";
import { runCommands } from "./commands/runs.ts";
import { scheduleCommands } from "./commands/schedules.ts";
import { topicCommands } from "./commands/topics.ts";
import { CliError, type ExitCode, exitCode } from "./exit.ts";
import { processOutput } from "./leaf.ts";
import { version } from "./version.ts";

/** Commander ends the process by itself unless every command is told not to. */
function neverExit(command: Command): void {
  command.exitOverride().showHelpAfterError("(--help shows what it takes)");
  for (const child of command.commands) neverExit(child);
}

interface OwnServer {
  name: string;
  description: string;
  declare: (command: Command) => Promise<void>;
}

/** The commands that need the server's own code. It is loaded when one of them is meant: the others start several times faster without. */
const ownServer: readonly OwnServer[] = [
  {
    name: "dev",
    description: "Run a server for development: no set-up, data in ./.millrace, a key that may do everything.",
    declare: async (command) => (await import("./commands/dev.ts")).declareDev(command),
  },
  {
    name: "server",
    description: "Run the server. Settings: flags, environment, millrace.yaml; see `millrace config`.",
    declare: async (command) => (await import("./commands/server.ts")).declareServer(command),
  },
  {
    name: "config",
    description: "Print the settings that `millrace server` would run with, and where each comes from.",
    declare: async (command) => (await import("./commands/config.ts")).declareConfig(command),
  },
  {
    name: "doctor",
    description: "Look at the PostgreSQL of a cluster, and say what is well and what is not.",
    declare: async (command) => (await import("./commands/doctor.ts")).declareDoctor(command),
  },
  {
    name: "apply [file]",
    description: "Bring queues and schedules to what millrace.yaml (or gigadrive.yaml) declares, and say what changes.",
    declare: async (command) => (await import("./commands/apply.ts")).declareApply(command),
  },
];

/** The whole command, with everything that `argv` may need. */
export async function createProgram(argv: readonly string[] = []): Promise<Command> {
  const program = new Command("millrace");
  program
    .description("Durable queues that push their messages. Run a server, or drive one.")
    .version(version, "-v, --version")
    .addHelpText("after", "\nStart here:\n  $ millrace dev --demo\n  $ millrace queues list");
  const meant = argv[0] === "help" ? argv[1] : argv[0];
  for (const { name, description, declare } of ownServer) {
    const command = program.command(name).description(description);
    if (command.name() === meant) await declare(command);
  }
  queueCommands(program);
  messageCommands(program);
  topicCommands(program);
  deliveryCommands(program);
  scheduleCommands(program);
  deploymentCommands(program);
  appCommands(program);
  runCommands(program);
  const workflows = program.command("workflows").description("Apps and runs, as the commands of these names.");
  appCommands(workflows);
  runCommands(workflows);
  listenCommand(program);
  projectCommands(program);
  keyCommands(program);
  auditCommand(program);
  backupCommand(program);
  neverExit(program);
  return program;
}

/** Runs one command line. Answers the exit code; what is still to be printed may still be on its way. */
export async function run(argv: readonly string[]): Promise<ExitCode> {
  try {
    const program = await createProgram(argv);
    await program.parseAsync(argv, { from: "user" });
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
