/** The servers that handed out tasks to this process, each by the address that its tasks are to be reported to. */
import type { Runtime } from "../runtime.ts";
import { createReporter, type Reporter } from "./reporter.ts";
import { createWatch, type Watch } from "./watch.ts";

/** One of them. */
export interface Callback {
  reporter: Reporter;
  watch: Watch;
}

/** Makes what answers a server by the `callbackUrl` of a task. */
export function createCallbacks(buildId: string, runtime: Runtime): (callbackUrl: string) => Callback {
  const known = new Map<string, Callback>();
  return (callbackUrl) => {
    let callback = known.get(callbackUrl);
    if (callback === undefined) {
      const reporter = createReporter(callbackUrl, buildId, runtime);
      callback = { reporter, watch: createWatch(reporter, runtime) };
      known.set(callbackUrl, callback);
    }
    return callback;
  };
}
