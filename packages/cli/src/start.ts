/** Starts the server and says plainly why it could not. */
import type { startServer as StartServer } from "@millrace/server";
import { CliError, exitCode } from "./exit.ts";

type Options = Parameters<typeof StartServer>[0];
type Running = Awaited<ReturnType<typeof StartServer>>;

/** `command` is what the advice repeats, such as `millrace dev`. Throws `CliError` for what the reader can mend. */
export async function start(options: Options, command: string): Promise<Running> {
  const { host, port } = options.config;
  // loaded here, so that the commands that only talk to a server start without it
  const { startServer } = await import("@millrace/server");
  try {
    return await startServer(options);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EADDRINUSE") {
      throw new CliError(
        exitCode.failed,
        `Port ${port} on ${host} is in use, perhaps by another Millrace.`,
        `Stop what uses it, or take another port: ${command} --port ${port === 65_535 ? 7400 : port + 1} (0 takes a free one).`,
      );
    }
    if (code === "EACCES" && port < 1024) {
      throw new CliError(exitCode.failed, `Port ${port} may not be used by this user.`, `Take one above 1023: ${command} --port 7400.`);
    }
    if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
      throw new CliError(exitCode.failed, `${host} is no address of this machine.`, `Give another: ${command} --host 127.0.0.1.`);
    }
    // a refusal of what was given, such as a key that is too short
    if (error instanceof Error && "status" in error && error.status === 400) throw new CliError(exitCode.usage, error.message);
    throw error;
  }
}
