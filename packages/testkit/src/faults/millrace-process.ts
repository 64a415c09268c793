/**
 * The product as a separate process, started the way its users start it (`millrace server`), on the sources of this checkout or, for long
 * runs, on the built command that `MILLRACE_TEST_COMMAND` names: it starts in a fraction of the time. It has one address for as long as the
 * test runs, whichever process answers there.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { freePort } from "../free-port.ts";

/** Where and how to run it. */
export interface MillraceOptions {
  /** SQLite: the data directory. */
  data?: string;
  /** PostgreSQL: the database. */
  databaseUrl?: string;
  /** Further environment; it wins over everything else. */
  env?: Record<string, string>;
  /** A module loaded into the process before anything else: how a test plants a bug. */
  preload?: string;
  /** Runs the sources whatever `MILLRACE_TEST_COMMAND` names: for a `preload` that changes them. */
  onSources?: boolean;
}

/** A server that can be killed and started again. */
export interface MillraceProcess {
  readonly url: string;
  /** The key of the first start. */
  readonly apiKey: string;
  readonly pid: number | undefined;
  /** Starts it and waits until it is ready. */
  start(env?: Record<string, string>): Promise<void>;
  /** Ends it by a signal and waits until it is gone; answers its exit code, `null` when the signal killed it. */
  kill(signal?: NodeJS.Signals): Promise<number | null>;
}

const built = process.env.MILLRACE_TEST_COMMAND;
const sources = fileURLToPath(new URL("../../../cli/src/main.ts", import.meta.url));
const key = randomBytes(32).toString("base64");

const alive = new Set<ChildProcess>();
const ordered = new WeakSet<ChildProcess>();
process.once("exit", () => {
  for (const child of alive) child.kill("SIGKILL");
});

/** Prepares a server without starting it. It may deliver to loopback over http. */
export async function millrace(options: MillraceOptions): Promise<MillraceProcess> {
  const port = await freePort();
  const entry = options.onSources ? sources : (built ?? sources);
  let child: ChildProcess | undefined;
  let apiKey = "";
  const url = `http://127.0.0.1:${port}`;

  const start = async (env: Record<string, string> = {}): Promise<void> => {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(MILLRACE_|VITEST|NODE_|DATABASE_URL|CI$)/.test(name));
    const loaders = entry === sources ? ["--import", "tsx", "--conditions=@millrace/source"] : [];
    if (options.preload !== undefined) loaders.push("--import", options.preload);
    const started = spawn(process.execPath, [...loaders, entry, "server", "--json"], {
      env: {
        ...Object.fromEntries(inherited),
        MILLRACE_PORT: String(port),
        MILLRACE_HOST: "127.0.0.1",
        MILLRACE_LOG_LEVEL: "error",
        MILLRACE_EGRESS_ALLOW_HTTP: "true",
        MILLRACE_EGRESS_ALLOW_HOSTS: "127.0.0.1,localhost",
        MILLRACE_EGRESS_ALLOW_CIDRS: "127.0.0.0/8",
        MILLRACE_EGRESS_ALLOW_PORTS: "1-65535",
        ...(options.data === undefined ? {} : { MILLRACE_DATA: options.data }),
        ...(options.databaseUrl === undefined ? {} : { DATABASE_URL: options.databaseUrl, MILLRACE_ENCRYPTION_KEY: key }),
        ...options.env,
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    let errors = "";
    alive.add(started);
    started.once("close", (code, signal) => {
      alive.delete(started);
      // A death that nobody ordered is told with its last words, whatever the test makes of it.
      if (!ordered.has(started)) process.stderr.write(`a server ended by itself (${code ?? signal}):\n${errors}\n`);
    });
    started.stderr.on("data", (chunk: Uint8Array) => {
      errors = (errors + new TextDecoder().decode(chunk)).slice(-4000);
    });
    await new Promise<void>((resolve, reject) => {
      started.once("close", (code, signal) => reject(new Error(`the server ended with ${code ?? signal}:\n${errors}`)));
      createInterface({ input: started.stdout }).on("line", (line) => {
        if (!line.startsWith('{"url"')) return;
        const ready = JSON.parse(line) as { apiKey: string | null };
        apiKey = ready.apiKey ?? apiKey;
        resolve();
      });
    });
  };
  return {
    url,
    get apiKey() {
      return apiKey;
    },
    get pid() {
      return child?.pid;
    },
    start,
    async kill(signal = "SIGKILL") {
      const running = child;
      if (running === undefined || running.exitCode !== null || running.signalCode !== null) return running?.exitCode ?? null;
      const closed = once(running, "close");
      ordered.add(running);
      running.kill(signal);
      const [code] = (await closed) as [number | null];
      return code;
    },
  };
}
