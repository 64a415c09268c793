/** Runs the command as its users do: a process of its own, in a directory of its own, with no variable of ours around it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const main = new URL("./main.ts", import.meta.url).pathname;
const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd: string;
  env?: Record<string, string>;
  stdin?: string;
}

export interface Running {
  process: ChildProcess;
  stdout: () => string;
  stderr: () => string;
  /** Resolves with the first match of `pattern` on standard output; rejects when the process ends before. */
  said(pattern: RegExp): Promise<RegExpExecArray>;
  /** As `said`, on standard error. */
  noted(pattern: RegExp): Promise<RegExpExecArray>;
  ended: Promise<Ended>;
}

export function newDirectory(): string {
  return mkdtempSync(join(tmpdir(), "millrace-cli-"));
}

export function startCommand(args: readonly string[], { cwd, env, stdin }: RunOptions): Running {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(MILLRACE_|DATABASE_URL|VITEST|NODE_ENV|NODE_OPTIONS)/.test(name));
  const child = spawn(process.execPath, ["--import", loader, "--conditions=@millrace/source", main, ...args], {
    cwd,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: "pipe",
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.on("error", () => {});
  child.stdin.end(stdin ?? "");
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, stdout, stderr }));
  const seen = (stream: Readable, text: () => string, pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(text());
        if (match !== null) resolve(match);
      };
      stream.on("data", look);
      look();
      void ended.then(({ code }) => reject(new Error(`ended with ${code} before saying ${pattern}\n${stdout}\n${stderr}`)));
    });
  return {
    process: child,
    stdout: () => stdout,
    stderr: () => stderr,
    said: (pattern) => seen(child.stdout, () => stdout, pattern),
    noted: (pattern) => seen(child.stderr, () => stderr, pattern),
    ended,
  };
}

export function runCommand(args: readonly string[], options: RunOptions): Promise<Ended> {
  return startCommand(args, options).ended;
}

export interface DevServer extends Running {
  cwd: string;
  url: string;
  apiKey: string;
  organization: string;
  project: string;
  /** Ends it as an operator would; answers how it ended. */
  stop(): Promise<Ended>;
}

/** `millrace dev --json` on a free port, in a directory of its own unless one is given. */
export async function startDev(args: readonly string[] = [], options: Partial<RunOptions> = {}): Promise<DevServer> {
  const cwd = options.cwd ?? newDirectory();
  const running = startCommand(["dev", "--port", "0", "--json", ...args], { ...options, cwd });
  const [line] = await running.said(/^.*\n/);
  return {
    ...running,
    ...(JSON.parse(line) as { url: string; apiKey: string; organization: string; project: string }),
    cwd,
    stop() {
      running.process.kill("SIGTERM");
      return running.ended;
    },
  };
}

/** One request to the server with its key. */
export async function ask(server: Pick<DevServer, "url" | "apiKey">, method: string, path: string, body?: unknown) {
  const response = await fetch(server.url + path, {
    method,
    headers: { authorization: `Bearer ${server.apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : (JSON.parse(text) as Record<string, unknown>) };
}
