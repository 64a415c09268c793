/** `millrace backup`: the whole database of a server on SQLite as one file, while the server works. */
import { createWriteStream } from "node:fs";
import { access, rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { CliError, exitCode, exitCodeOfStatus } from "../exit.ts";
import { connected } from "../leaf.ts";

const MiB = 1024 * 1024;

/** Streams the answer into a file beside `path` and gives it its name once it is whole. Answers its size in bytes. */
async function save(answer: Response, path: string): Promise<number> {
  if (answer.body === null) throw new CliError(exitCode.failed, "The server answered without a file.");
  const partial = `${path}.partial`;
  const out = createWriteStream(partial, { mode: 0o600 });
  try {
    await pipeline(Readable.fromWeb(answer.body), out);
    const expected = Number(answer.headers.get("content-length"));
    if (out.bytesWritten !== expected) throw new Error(`it ended after ${out.bytesWritten} of ${expected} bytes`);
    await rename(partial, path);
    return out.bytesWritten;
  } catch (error) {
    await rm(partial, { force: true });
    throw new CliError(exitCode.failed, `The backup broke off: ${error instanceof Error ? error.message : String(error)}.`);
  }
}

export function backupCommand(parent: Command): void {
  const command = parent
    .command("backup <file>")
    .description("Copy the whole database of a server on SQLite to a file, while the server works.")
    .option("--force", "replace the file if it is there");
  connected<{ force?: boolean }>(
    command,
    ["millrace backup millrace-backup.db", "millrace backup --force /backups/today.db"],
    async ({ client, output }, [path = ""], { force }) => {
      const there = await access(path).then(
        () => true,
        () => false,
      );
      if (there && force !== true) throw new CliError(exitCode.usage, `${path} is there already.`, "Give another name, or --force.");
      const { url, apiKey } = client.connection;
      let answer: Response;
      try {
        answer = await fetch(`${url}/backup`, { headers: { authorization: `Bearer ${apiKey}` } });
      } catch {
        throw new CliError(exitCode.unreachable, `Cannot reach ${url}.`, "Name the server with --server or MILLRACE_URL.");
      }
      if (!answer.ok) {
        const { error } = (await answer.json().catch(() => ({}))) as { error?: { code: string; message: string } };
        throw new CliError(exitCodeOfStatus(answer.status), error?.message ?? `The server answered ${answer.status}.`, error?.code);
      }
      const bytes = await save(answer, path);
      if (output.json) output.document({ file: path, bytes });
      else output.line(`${path}: ${(bytes / MiB).toFixed(1)} MiB`);
      output.note("Keep it with the server's encryption key (millrace.key): secrets in it are sealed with that.");
    },
  );
}
