/** Asks before what cannot be undone. Without a person at the terminal nothing is asked: the command must say `--yes`. */
import { confirm, isCancel } from "@clack/prompts";
import { CliError, exitCode } from "./exit.ts";

/** `what` completes "…: are you sure?", as in `Delete queue orders with its messages`. Throws when the answer is no. */
export async function confirmDestructive(what: string, yes: boolean | undefined): Promise<void> {
  if (yes) return;
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw new CliError(exitCode.usage, `${what}: this cannot be undone, and nobody can be asked here.`, "Give --yes to do it.");
  }
  const answer = await confirm({ message: `${what}?`, initialValue: false, output: process.stderr });
  if (isCancel(answer)) throw new CliError(exitCode.interrupted, "Cancelled.");
  if (!answer) throw new CliError(exitCode.failed, "Nothing was done.");
}
