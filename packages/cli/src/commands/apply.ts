/** `millrace apply`: queues and schedules as a file declares them. Shows a plan, applies it, and does nothing the second time. */
import { findQueueFile, readQueueFile } from "@millrace/server/config";
import type { Command } from "commander";
import { confirmDestructive } from "../confirm.ts";
import { CliError, exitCode } from "../exit.ts";
import { connected, environmentOption, yesOption } from "../leaf.ts";
import type { Output } from "../output.ts";
import { type Applied, applySection, type Change } from "../section.ts";

interface Flags {
  check?: boolean;
  prune?: boolean;
  yes?: boolean;
  environment?: string;
}

const signs: Record<Change["action"], string> = { create: "+", change: "~", unchanged: "=", remove: "-" };

function show(output: Output, { changes, applied }: Applied): void {
  if (output.json) {
    output.document({ applied, changes });
    return;
  }
  output.table(
    ["", "ACTION", "KIND", "NAME", "SETTINGS"],
    changes.map(({ kind, queue, name, action, fields }) => [
      signs[action],
      action,
      kind,
      kind === "queue" ? name : `${queue}/${name}`,
      fields.join(", "),
    ]),
  );
  const count = (action: Change["action"]) => changes.filter((change) => change.action === action).length;
  const counts = `${count("create")} to create, ${count("change")} to change, ${count("remove")} to remove, ${count("unchanged")} unchanged`;
  output.note(
    applied
      ? `Applied: ${counts.replaceAll(" to create", " created").replaceAll(" to change", " changed").replaceAll(" to remove", " removed")}.`
      : `Plan: ${counts}.`,
  );
}

const isEmpty = (section: unknown): boolean => typeof section === "object" && section !== null && Object.keys(section).length === 0;

export function declareApply(command: Command): void {
  command
    .option("--check", "change nothing; exit with 8 when there is something to change")
    .option("--prune", "also remove queues and schedules that a file made and that this one no longer declares")
    .addOption(yesOption())
    .addOption(environmentOption());
  connected<Flags>(
    command,
    ["millrace apply", "millrace apply gigadrive.yaml --check", "millrace apply --prune --yes"],
    async ({ client, output }, [given], flags) => {
      const path = given ?? findQueueFile(process.cwd());
      if (path === undefined)
        throw new CliError(exitCode.usage, "There is neither millrace.yaml nor gigadrive.yaml here.", "Name a file: millrace apply FILE.");
      let file: ReturnType<typeof readQueueFile>;
      try {
        file = readQueueFile(path);
      } catch (error) {
        throw new CliError(exitCode.usage, `${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      }
      if (file.problems.length > 0) throw new CliError(exitCode.usage, file.problems.join("\n"));
      if (isEmpty(file.section)) output.note(`${path} declares no queues: they stand under services.queues.`);
      const how = { prune: flags.prune === true, environment: flags.environment };
      const plan = await applySection(client, file, { ...how, check: true });
      const ahead = plan.changes.filter(({ action }) => action !== "unchanged");
      if (flags.check === true || ahead.length === 0) {
        show(output, plan);
        if (ahead.length > 0) process.exitCode = exitCode.changes;
        return;
      }
      const removed = ahead.filter(({ action }) => action === "remove");
      if (removed.length > 0) {
        if (!output.json && output.terminal) show(output, plan);
        const names = removed.map(({ kind, queue, name }) =>
          kind === "queue" ? `queue ${name} with its messages` : `schedule ${queue}/${name}`,
        );
        await confirmDestructive(`Remove ${names.join(", ")}`, flags.yes);
      }
      show(output, await applySection(client, file, { ...how, check: false }));
    },
  );
}
