/** The server's settings as flags of a command, derived from their one declaration. */
import { ConfigError, type ConfigSources, loadConfig, settings } from "@millrace/server/config";
import { type Command, Option } from "commander";
import { CliError, exitCode } from "./exit.ts";

/** Adds a flag for every setting, besides `--config`. */
export function addSettingFlags(command: Command, without: readonly string[] = []): void {
  for (const { flag, text, description, env } of settings) {
    if (without.includes(flag)) continue;
    const value = text === "boolean" ? " [true|false]" : text === "number" ? " <number>" : text === "list" ? " <list>" : " <text>";
    command.addOption(new Option(`${flag}${value}`, `${description} [${env}]`));
  }
  command.option("--config <file>", "the file with settings (default: millrace.yaml, if there is one) [MILLRACE_CONFIG]");
}

/** The configuration by the command's flags, the environment and the file. Throws a usage error that tells every fault. */
export function configOf(
  command: Command,
  sources: Pick<ConfigSources, "defaults" | "fixed" | "sealsNothing"> = {},
): ReturnType<typeof loadConfig> {
  const opts = command.opts<Record<string, unknown>>();
  const flags: Record<string, string | boolean | undefined> = {};
  for (const { flag } of settings) {
    const value = opts[flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (typeof value === "string" || typeof value === "boolean") flags[flag] = value;
  }
  try {
    return loadConfig({ ...sources, flags, env: process.env, file: typeof opts.config === "string" ? opts.config : undefined });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(exitCode.usage, error.problems.join("\n"), "`millrace config --help` and docs/configuration.md list the settings.");
  }
}
