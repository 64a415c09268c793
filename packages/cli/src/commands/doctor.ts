/** `millrace doctor`: looks at the databases that `millrace server` would run on, and says what is well and what is not. */
import { diagnose } from "@millrace/server/doctor";
import type { Command } from "commander";
import { CliError, exitCode } from "../exit.ts";
import { processOutput } from "../leaf.ts";
import { addSettingFlags, configOf } from "../server-flags.ts";

export function declareDoctor(command: Command): void {
  command
    .option("--json", "print one JSON document")
    .addHelpText(
      "after",
      "\nExamples:\n  $ DATABASE_URL=postgres://… millrace doctor\n  $ millrace doctor --database-url postgres://… --json",
    );
  addSettingFlags(command);
  command.action(async () => {
    const output = processOutput(command.opts<{ json?: boolean }>().json === true);
    const { databaseUrl, databases, poolSize } = configOf(command, { sealsNothing: true }).config;
    if (databaseUrl === null) {
      throw new CliError(
        exitCode.usage,
        "There is no DATABASE_URL: this would be a server on SQLite, alone with its file.",
        "Give --database-url, or set DATABASE_URL.",
      );
    }
    const { findings, nodes } = await diagnose(databaseUrl, databases, poolSize);
    const several = Object.keys(databases).length > 0;
    /** Which database a line is about, where that is a question. */
    const of = (database: string): string[] => (several ? [database] : []);
    if (output.json) output.document({ findings, nodes });
    else {
      output.table(
        ["", ...of("DATABASE"), "CHECK", "FOUND", "ADVICE"],
        findings.map(({ level, database, check, found, advice }) => [level, ...of(database), check, found, advice ?? ""]),
      );
      if (nodes.length > 0) {
        output.line("");
        output.table(
          [...of("DATABASE"), "NODE", "VERSION", "SLOTS", "SEEN", "CLOCK"],
          nodes.map(({ database, name, version, slots, seenAgoMs, skewMs }) => [
            ...of(database),
            name,
            version,
            String(slots),
            `${seenAgoMs} ms ago`,
            `${skewMs} ms`,
          ]),
        );
      }
    }
    if (findings.some(({ level }) => level === "bad")) process.exitCode = exitCode.failed;
  });
}
