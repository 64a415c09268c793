/** `millrace apps`: sets of workflows, reached by push or by pull. An app may be named wherever an id is asked for. */
import type { Answer, Input, Operations } from "@millrace/contract";
import { type Command, InvalidArgumentError, Option } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { parseWhole, showSeconds } from "../durations.ts";
import { CliError, exitCode } from "../exit.ts";
import { leaf, limitOption, noteMore, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";

type App = Answer<Operations["GetApp"]>;
type Notifications = NonNullable<Input<Operations["UpdateApp"]>["body"]["notifications"]>;
type Ending = Notifications["on"][number];

interface NotifyFlags {
  notifyQueue?: string;
  notifyOn?: Ending[];
  notifyWorkflows?: string[];
  notifyGroupBy?: "run" | "workflow";
}

const endings: readonly Ending[] = ["completed", "failed", "cancelled", "timedOut"];

const parseList = (text: string): string[] => text.split(",").map((each) => each.trim());

function parseEndings(text: string): Ending[] {
  const given = parseList(text);
  const wrong = given.find((each) => !(endings as readonly string[]).includes(each));
  if (wrong !== undefined) throw new InvalidArgumentError(`It takes ${endings.join(", ")}, separated by commas.`);
  return given as Ending[];
}

function notifyOptions(command: Command): void {
  command
    .option("--notify-queue <queue>", "send a message to this queue for each run that ends")
    .addOption(
      new Option("--notify-on <statuses>", "for these endings: completed, failed, cancelled, timedOut (all of them)").argParser(
        parseEndings,
      ),
    )
    .addOption(new Option("--notify-workflows <names>", "for these workflows only, separated by commas; * for all").argParser(parseList))
    .addOption(new Option("--notify-group-by <what>", "on a FIFO queue: the messages' groups").choices(["run", "workflow"]));
}

/** What the flags make of the notifications as they are; `undefined` when they say nothing. */
function notificationsOf(flags: NotifyFlags, present: App["notifications"]): Notifications | undefined {
  const { notifyQueue, notifyOn, notifyWorkflows, notifyGroupBy } = flags;
  if (notifyQueue === undefined && notifyOn === undefined && notifyWorkflows === undefined && notifyGroupBy === undefined) return undefined;
  const queueId = notifyQueue ?? present?.queueId;
  if (queueId === undefined) throw new CliError(exitCode.usage, "Run results need a queue to go to.", "Give --notify-queue QUEUE.");
  return {
    queueId,
    on: notifyOn ?? present?.on ?? [...endings],
    workflows: notifyWorkflows?.includes("*") ? null : (notifyWorkflows ?? present?.workflows ?? null),
    groupBy: notifyGroupBy ?? present?.groupBy,
  };
}

/** Such as `to 0199… on failed, of chargeCustomer, grouped by run`. */
function resultsText({ queueId, on, workflows, groupBy }: NonNullable<App["notifications"]>): string {
  const of = workflows === null ? "" : `, of ${workflows.join(", ")}`;
  return `to ${queueId} on ${on.join(", ")}${of}, grouped by ${groupBy}`;
}

function show(output: Output, app: App): void {
  if (output.json) {
    output.document(app);
    return;
  }
  const { notifications, status } = app;
  const pairs: [string, string][] = [
    ["id", app.id],
    ["resource name", app.resourceName],
    ["name", app.name],
    ["mode", app.mode],
    ["url", app.url ?? "-"],
    ["state", app.state],
    ["concurrency", String(app.maxConcurrency)],
    ["synced", app.syncedAt === null ? "-" : `${app.syncedAt}, build ${app.buildId}, protocol ${app.protocol}`],
    ["sync error", app.syncError ?? "-"],
    ["health", status.health],
    ["last error", status.lastError === null ? "-" : `${status.lastError.at} ${status.lastError.class}: ${status.lastError.message}`],
    ["run results", notifications === null ? "-" : resultsText(notifications)],
    ["dropped results", String(app.droppedResults)],
    ["unclaimed messages", String(app.unclaimedMessages)],
    ["created", app.createdAt],
    ["updated", app.updatedAt],
  ];
  if (app.signingSecret !== null) pairs.push(["signing secret", app.signingSecret]);
  output.fields(pairs);
  if (app.signingSecret !== null) output.note("The signing secret is shown this once. Keep it where the app can read it.");
}

interface SettingFlags extends NotifyFlags {
  url?: string;
  concurrency?: number;
}

function settingOptions(command: Command): void {
  command
    .option("--url <url>", "where a push app is called")
    .addOption(new Option("--concurrency <number>", "runs that are executed at once, 1 to 1000").argParser(parseWhole));
  notifyOptions(command);
}

/** Declares the commands below `parent`: the program itself, or its `workflows`. */
export function appCommands(parent: Command): void {
  const apps = parent.command("apps").description("Apps: sets of workflows, called by push or worked on by pull.");

  leaf<{ limit: number }>(
    apps,
    "list",
    "List the project's apps.",
    ["millrace apps list"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, _, flags) => {
      const { items, nextCursor } = await client.list<App>("ListApps", "apps", flags.limit);
      if (output.json) return output.document({ apps: items, nextCursor });
      output.table(
        ["NAME", "MODE", "STATE", "HEALTH", "BUILD", "URL"],
        items.map(({ name, mode, state, status, buildId, url }) => [name, mode, state, status.health, buildId ?? "-", url ?? "-"]),
      );
      noteMore(output, nextCursor);
    },
  );

  leaf(
    apps,
    "get <app>",
    "Show an app and how its calls go.",
    ["millrace apps get billing-jobs"],
    () => {},
    async ({ client, output }, [appId = ""]) => show(output, await client.call("GetApp", { appId })),
  );

  leaf<SettingFlags>(
    apps,
    "create <name>",
    "Make an app: of push with --url, else of pull. Prints a push app's signing secret, once.",
    ["millrace apps create billing-jobs --url https://app.example.com/api/workflows", "millrace apps create reports"],
    settingOptions,
    async ({ client, output }, [name = ""], flags) => {
      const mode = flags.url === undefined ? "pull" : "push";
      const notifications = notificationsOf(flags, null);
      const body = { name, mode, url: flags.url, maxConcurrency: flags.concurrency, notifications } as const;
      show(output, await client.call("CreateApp", { body }));
    },
  );

  leaf<SettingFlags & { notify?: boolean; paused?: boolean; active?: boolean }>(
    apps,
    "update <app>",
    "Change an app. What is not named stays as it is.",
    [
      "millrace apps update billing-jobs --notify-queue run-results --notify-on failed,timedOut",
      "millrace apps update billing-jobs --no-notify",
      "millrace apps update billing-jobs --paused",
    ],
    (command) => {
      settingOptions(command);
      command
        .option("--no-notify", "send no messages for runs that end")
        .option("--paused", "execute no runs; they wait")
        .option("--active", "execute runs again");
    },
    async ({ client, output }, [appId = ""], flags) => {
      const stop = flags.notify === false;
      const present = await client.call("GetApp", { appId });
      const notifications = notificationsOf(flags, present.notifications);
      if (stop && notifications !== undefined) throw new CliError(exitCode.usage, "Give either --no-notify or where results go, not both.");
      if (flags.paused && flags.active) throw new CliError(exitCode.usage, "Give either --paused or --active, not both.");
      const body: Input<Operations["UpdateApp"]>["body"] = {
        url: flags.url,
        maxConcurrency: flags.concurrency,
        notifications: stop ? null : notifications,
        state: flags.paused ? "paused" : flags.active ? "active" : undefined,
      };
      if (Object.values(body).every((value) => value === undefined))
        throw new CliError(exitCode.usage, "Nothing to change.", "Name at least one setting.");
      show(output, await client.call("UpdateApp", { appId, body }));
    },
  );

  leaf<{ yes?: boolean }>(
    apps,
    "delete <app>",
    "Delete an app with its runs.",
    ["millrace apps delete billing-jobs --yes"],
    (command) => command.addOption(yesOption()),
    async ({ client, output }, [appId = ""], flags) => {
      await confirmDestructive(`Delete the app ${appId} with its runs`, flags.yes);
      await client.call("DeleteApp", { appId });
      if (output.json) output.document({ deleted: appId });
      else output.note(`Deleted ${appId}.`);
    },
  );

  leaf(
    apps,
    "sync <app>",
    "Ask a push app for its workflows.",
    ["millrace apps sync billing-jobs"],
    () => {},
    async ({ client, output }, [appId = ""]) => show(output, await client.call("SyncApp", { appId })),
  );

  leaf(
    apps,
    "rotate-secret <app>",
    "Make a new signing secret and print it, once. Calls carry both signatures for 24 hours.",
    ["millrace apps rotate-secret billing-jobs"],
    () => {},
    async ({ client, output }, [appId = ""]) => show(output, await client.call("RotateAppSecret", { appId })),
  );

  leaf<{ limit: number }>(
    apps,
    "workflows <app>",
    "List the workflows that an app has announced.",
    ["millrace apps workflows billing-jobs"],
    (command) => command.addOption(limitOption()),
    async ({ client, output }, [appId = ""], flags) => {
      type Workflow = Answer<Operations["ListWorkflows"]>["workflows"][number];
      const { items, nextCursor } = await client.list<Workflow>("ListWorkflows", "workflows", flags.limit, { params: { appId } });
      if (output.json) return output.document({ workflows: items, nextCursor });
      output.table(
        ["NAME", "TIMEOUT", "CONCURRENCY", "ANNOUNCED"],
        items.map(({ name, timeoutSeconds, concurrency, announcedAt }) => [
          name,
          timeoutSeconds === null ? "-" : showSeconds(timeoutSeconds),
          concurrency === null ? "-" : String(concurrency),
          announcedAt,
        ]),
      );
      noteMore(output, nextCursor);
    },
  );
}
