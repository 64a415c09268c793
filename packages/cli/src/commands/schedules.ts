/** `millrace schedules`: messages that are sent by the clock. */
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, Option } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { CliError, exitCode } from "../exit.ts";
import { environmentOption, leaf, parsePair, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";

type Schedule = Answer<Operations["CreateSchedule"]>;
type Settings = Input<Operations["UpdateSchedule"]>["body"];

interface Flags {
  cron?: string;
  timezone?: string;
  body?: string;
  contentType?: string;
  header?: Record<string, string>;
  disabled?: boolean;
  environment?: string;
}

/** How many schedules one page of the list has. */
const PAGE = 200;

function settingOptions(command: Command): void {
  command
    .option("--timezone <name>", "an IANA time zone, such as Europe/Berlin (default: UTC)")
    .option("--body <text>", "what is sent (default: an empty text)")
    .option("--content-type <type>", "its content type")
    .addOption(new Option("--header <name=value>", "a header, may be repeated").argParser(parsePair))
    .addOption(environmentOption());
}

const settingsOf = ({ cron, timezone, body, contentType, header, environment }: Flags): Settings => ({
  cron,
  timezone,
  body,
  contentType,
  headers: header,
  environment,
});

function show(output: Output, schedule: Schedule): void {
  if (output.json) {
    output.document(schedule);
    return;
  }
  output.fields([
    ["name", schedule.name],
    ["cron", schedule.cron],
    ["time zone", schedule.timezone],
    ["state", schedule.enabled ? "enabled" : "disabled"],
    ["next run", schedule.nextRunAt ?? "-"],
    ["last run", schedule.lastRunAt ?? "-"],
    ["last message", schedule.lastMessageId ?? "-"],
    ["last error", schedule.lastError ?? "-"],
    ["content type", schedule.contentType],
    ["body", schedule.body],
  ]);
}

export function scheduleCommands(program: Command): void {
  const schedules = program.command("schedules").description("Messages that are sent by the clock.");

  leaf<Flags>(
    schedules,
    "list <queue>",
    "List a queue's schedules with their next and last run.",
    ["millrace schedules list emails"],
    (command) => command.addOption(environmentOption()),
    async ({ client, output }, [queueName = ""], { environment }) => {
      const items: Schedule[] = [];
      for (;;) {
        const page = await client.call("ListSchedules", { queueName, query: { environment, offset: items.length, limit: PAGE } });
        items.push(...page.items);
        if (page.items.length === 0 || items.length >= page.total) break;
      }
      if (output.json) return output.document({ schedules: items });
      output.table(
        ["NAME", "CRON", "TIME ZONE", "STATE", "NEXT RUN", "LAST RUN", "LAST ERROR"],
        items.map((each) => [
          each.name,
          each.cron,
          each.timezone,
          each.enabled ? "enabled" : "disabled",
          each.nextRunAt ?? "-",
          each.lastRunAt ?? "-",
          each.lastError ?? "-",
        ]),
      );
      if (items.length === 0) output.note(`No schedules yet. Make one: millrace schedules create ${queueName} digest '0 7 * * *'`);
    },
  );

  leaf<Flags>(
    schedules,
    "create <queue> <name> <cron>",
    "Send a message by the clock: five fields of cron, or a macro such as @hourly.",
    [
      "millrace schedules create emails digest '0 7 * * 1-5' --timezone Europe/Berlin --body '{\"kind\":\"digest\"}' --content-type application/json",
      "millrace schedules create cleanup hourly @hourly",
    ],
    (command) => {
      settingOptions(command);
      command.option("--disabled", "make it without running it");
    },
    async ({ client, output }, [queueName = "", name = "", cron = ""], flags) =>
      show(
        output,
        await client.call("CreateSchedule", { queueName, body: { ...settingsOf(flags), name, cron, enabled: flags.disabled !== true } }),
      ),
  );

  leaf<Flags>(
    schedules,
    "update <queue> <name>",
    "Change a schedule. What is not named stays; a changed time counts from now.",
    ["millrace schedules update emails digest --cron '0 8 * * 1-5'"],
    (command) => {
      command.option("--cron <text>", "five fields, or a macro such as @hourly");
      settingOptions(command);
    },
    async ({ client, output }, [queueName = "", scheduleName = ""], flags) => {
      const { environment, ...settings } = settingsOf(flags);
      if (Object.values(settings).every((value) => value === undefined))
        throw new CliError(exitCode.usage, "Nothing to change.", "Name at least one setting; see `millrace schedules update --help`.");
      show(output, await client.call("UpdateSchedule", { queueName, scheduleName, body: { ...settings, environment } }));
    },
  );

  leaf<Flags & { yes?: boolean }>(
    schedules,
    "delete <queue> <name>",
    "Delete a schedule. Messages that it has sent stay.",
    ["millrace schedules delete emails digest --yes"],
    (command) => command.addOption(yesOption()).addOption(environmentOption()),
    async ({ client, output }, [queueName = "", scheduleName = ""], { yes, environment }) => {
      await confirmDestructive(`Delete schedule ${scheduleName} of ${queueName}`, yes);
      await client.call("DeleteSchedule", { queueName, scheduleName, query: { environment } });
      if (output.json) output.document({ deleted: scheduleName });
      else output.note(`Deleted ${scheduleName}.`);
    },
  );

  for (const [verb, enabled, text] of [
    ["enable", true, "Run a schedule again, from now on."],
    ["disable", false, "Keep a schedule without running it."],
  ] as const) {
    leaf<Flags>(
      schedules,
      `${verb} <queue> <name>`,
      text,
      [`millrace schedules ${verb} emails digest`],
      (command) => command.addOption(environmentOption()),
      async ({ client, output }, [queueName = "", scheduleName = ""], { environment }) => {
        const schedule = await client.call("UpdateSchedule", { queueName, scheduleName, body: { enabled, environment } });
        if (output.json) output.document(schedule);
        else
          output.note(
            `${schedule.name} is ${schedule.enabled ? `enabled and runs next at ${schedule.nextRunAt ?? "no time"}` : "disabled"}.`,
          );
      },
    );
  }
}
