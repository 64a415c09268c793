/** The examples for tests: a server that pushes to them, and each started as its users start it. What was started ends with the tests. */
import { type ChildProcess, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Live, live } from "./live.fixture.ts";

const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

/** The file of an example. */
export const example = (name: string): string => fileURLToPath(new URL(`../../../examples/sdk/${name}.ts`, import.meta.url));

export interface Started {
  readonly child: ChildProcess;
  /** The next line that it writes; `undefined` once it has ended. */
  line(): Promise<string | undefined>;
  /** The port that its next line says it listens on. */
  port(): Promise<string>;
}

export interface Examples {
  readonly server: Live;
  /** Starts an example that is told of the server. */
  start(name: string, args?: string[], env?: Record<string, string>): Started;
  close(): Promise<void>;
}

/** Starts a server for examples. */
export async function openExamples(): Promise<Examples> {
  const server = await live();
  const children: ChildProcess[] = [];
  return {
    server,
    start(name, args = [], env = {}) {
      const settings = { MILLRACE_URL: server.url, MILLRACE_API_KEY: server.apiKey, MILLRACE_PROJECT: "shop", ...env };
      const child = spawn(process.execPath, ["--import", loader, "--conditions=@millrace/source", example(name), ...args], {
        env: { ...process.env, NODE_OPTIONS: "", ...settings },
        stdio: ["ignore", "pipe", "inherit"],
      });
      children.push(child);
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const line = async (): Promise<string | undefined> => {
        const { value, done } = await lines.next();
        return done === true ? undefined : (value as string);
      };
      return {
        child,
        line,
        async port() {
          const said = await line();
          const port = /^listening on (\d+)$/.exec(said ?? "")?.[1];
          if (port === undefined) throw new Error(`${name} says "${said}" instead of its port`);
          return port;
        },
      };
    },
    async close() {
      for (const child of children) child.kill("SIGKILL");
      await server.close();
    },
  };
}
