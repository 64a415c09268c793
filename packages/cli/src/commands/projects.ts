/** `millrace projects`: the projects of an organization, and how many messages a day their clients may send. */
import type { Answer, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { parseWhole } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore } from "../leaf.ts";
import type { Output } from "../output.ts";

type Project = Answer<Operations["GetProject"]>;

/** What of a quota is used, such as `12 of 1000 messages today`. */
function quotaText({ maxMessagesPerDay, messagesToday }: Project): string {
  return maxMessagesPerDay === null ? "-" : `${messagesToday ?? 0} of ${maxMessagesPerDay} messages today`;
}

function show(output: Output, project: Project): void {
  if (output.json) {
    output.document(project);
    return;
  }
  output.fields([
    ["id", project.id],
    ["name", project.name],
    ["quota", quotaText(project)],
    ["created", project.createdAt],
  ]);
}

/** Declares the commands. */
export function projectCommands(program: Command): void {
  const projects = program.command("projects").description("Projects of the organization, and their quotas.");

  leaf<{ limit: number }>(
    projects,
    "list",
    "List the organization's projects that the key reaches.",
    ["millrace projects list"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, flags) => {
      const { items, nextCursor } = await client.list<Project>("ListProjects", "projects", flags.limit);
      if (output.json) return output.document({ projects: items, nextCursor });
      output.table(
        ["NAME", "ID", "QUOTA"],
        items.map((project) => [project.name, project.id, quotaText(project)]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf(
    projects,
    "get",
    "Show the project, and what of its quota is used today.",
    ["millrace projects get", "millrace projects get --project shop"],
    () => {},
    async ({ client, output }) => show(output, await client.call("GetProject", {})),
  );

  leaf<{ maxMessagesPerDay?: number | false }>(
    projects,
    "update",
    "Bound how many messages a day the project's clients may send.",
    ["millrace projects update --max-messages-per-day 100000", "millrace projects update --no-max-messages-per-day"],
    (command) =>
      command
        .addOption(new Option("--max-messages-per-day <number>", "from midnight to midnight UTC").argParser(parseWhole))
        .option("--no-max-messages-per-day", "any number"),
    async ({ client, output }, _, { maxMessagesPerDay }) => {
      if (maxMessagesPerDay === undefined) {
        throw new CliError(
          exitCode.usage,
          "There is nothing to change.",
          "Give --max-messages-per-day NUMBER, or --no-max-messages-per-day.",
        );
      }
      const body = { maxMessagesPerDay: maxMessagesPerDay === false ? null : maxMessagesPerDay };
      show(output, await client.call("UpdateProject", { body }));
    },
  );
}
