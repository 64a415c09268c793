/** Ends a long-running command (P25): the first SIGTERM or SIGINT asks it to close and then exits 0, a second one exits at once. */
import { exitCode } from "./exit.ts";

/** Resolves after the first signal, once `close` has. `note` is told what is going on. */
export function untilStopped(close: () => Promise<void>, note: (text: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let closing = false;
    const stop = () => {
      if (closing) process.exit(exitCode.interrupted);
      closing = true;
      note("Stopping: open deliveries may finish. Once more to stop at once.");
      close().then(resolve, reject);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}
