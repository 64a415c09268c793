/** `millrace config`: the settings in force and where each came from. Secrets are masked. */
import { maskedValue, settings } from "@millrace/server/config";
import type { Command } from "commander";
import { processOutput } from "../leaf.ts";
import { addSettingFlags, configOf } from "../server-flags.ts";

export function declareConfig(command: Command): void {
  command
    .option("--json", "print one JSON document")
    .addHelpText("after", "\nExamples:\n  $ millrace config\n  $ MILLRACE_PORT=8080 millrace config --json");
  addSettingFlags(command);
  command.action(() => {
    const output = processOutput(command.opts<{ json?: boolean }>().json === true);
    const { config, origins, file } = configOf(command);
    const rows = settings.map((setting) => {
      const { from, name } = origins[setting.name] ?? { from: "default", name: "" };
      return { name: setting.name, value: maskedValue(setting, config), from, by: name };
    });
    if (output.json) output.document({ file: file ?? null, settings: rows });
    else
      output.table(
        ["SETTING", "VALUE", "FROM"],
        rows.map(({ name, value, from, by }) => [name, value, by === "" ? from : `${from} ${by}`]),
      );
  });
}
