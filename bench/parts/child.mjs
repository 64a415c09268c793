/**
 * Processes of the bench that answer jobs over IPC. A child calls `serveJobs({name: async (args) => result})`; the parent gets
 * `call(name, args)` and `stop()`. A child dies with its parent.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Starts `bench/processes/<file>`; `execArgv` may carry a profiler. */
export function startChild(file, execArgv = []) {
  const child = fork(fileURLToPath(new URL(`../processes/${file}`, import.meta.url)), [], { execArgv, serialization: "advanced" });
  const waiting = new Map();
  let last = 0;
  child.on("message", ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(new Error(`${file}: ${error}`));
  });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  gone.then((code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${file} ended with ${code}`));
  });
  return {
    pid: child.pid,
    call(name, args = {}) {
      return new Promise((resolve, reject) => {
        last += 1;
        waiting.set(last, { resolve, reject });
        child.send({ id: last, name, args });
      });
    },
    async stop() {
      child.disconnect();
      await gone;
    },
  };
}

/** Answers the jobs of a child; every child can also tell its own CPU time in milliseconds (`cpu`). */
export function serveJobs(own) {
  const jobs = { ...own, cpu: () => (process.cpuUsage().user + process.cpuUsage().system) / 1000 };
  process.on("message", async ({ id, name, args }) => {
    try {
      process.send({ id, result: await jobs[name](args) });
    } catch (error) {
      process.send({ id, error: error.stack ?? String(error) });
    }
  });
  process.on("disconnect", () => process.exit(0));
}
