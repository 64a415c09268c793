/**
 * The sample endpoints in `verifiers/`, run as the separate programs that they are: `ask` puts a header to a sample's verification at a
 * time of the caller's choice, `serve` starts the whole endpoint. Go is compiled once per process.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { scratch } from "./scratch.ts";

export type Language = "node" | "go" | "python";

/** `queue_receiver` is a push consumer; there is one in Python. */
type Program = "check" | "receiver" | "queue_receiver";

/** What a sample's verification is asked. */
export interface Question {
  header: string | undefined;
  body: Uint8Array;
  secrets: readonly string[];
  nowMs: number;
}

/** A running sample endpoint. */
export interface ForeignReceiver {
  url: string;
  /** The ids of messages it handled, in order. */
  handled: readonly string[];
  /** Resolves once it handled at least `count`. */
  handledAtLeast(count: number): Promise<void>;
  stop(): Promise<void>;
}

const folder = fileURLToPath(new URL("../verifiers", import.meta.url));
let compiled: Promise<string> | undefined;

async function compile(): Promise<string> {
  const { path } = scratch("go");
  const env = { ...process.env, GOPROXY: "off", GOTOOLCHAIN: "local", GOFLAGS: "-mod=mod", CGO_ENABLED: "0" };
  await promisify(execFile)("go", ["build", "-o", `${path}/`, "./..."], { cwd: join(folder, "go"), env });
  return path;
}

async function command(language: Language, program: Program): Promise<[string, string[]]> {
  if (language === "node") return [process.execPath, [join(folder, "node", `${program}.mjs`)]];
  if (language === "python") return ["python3", ["-B", join(folder, "python", `${program}.py`)]];
  compiled ??= compile();
  return [join(await compiled, program), []];
}

/** What the sample says to each question, in order. Rejects when it dies over one. */
export async function ask(language: Language, questions: readonly Question[]): Promise<boolean[]> {
  const [file, args] = await command(language, "check");
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  let errors = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const lines = questions.map((question) => JSON.stringify({ ...question, body: Buffer.from(question.body).toString("base64") }));
  child.stdin.end(`${lines.join("\n")}\n`);
  const [code] = (await once(child, "close")) as [number | null];
  const answers = output.trim().split("\n");
  if (code !== 0 || answers.length !== questions.length) throw new Error(`the ${language} sample ended with ${code}: ${errors}`);
  return answers.map((answer) => answer === "true");
}

/** Starts the sample's endpoint, on a free port unless given one. */
export async function serve(
  language: Language,
  secrets: readonly string[],
  onPort = 0,
  program: Exclude<Program, "check"> = "receiver",
): Promise<ForeignReceiver> {
  const [file, args] = await command(language, program);
  const env = {
    ...process.env,
    PORT: String(onPort),
    MILLRACE_SIGNING_SECRETS: secrets.join(","),
    GIGADRIVE_QUEUE_SIGNING_SECRET: secrets[0] ?? "",
  };
  const child: ChildProcess = spawn(file, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill("SIGKILL"));
  const handled: string[] = [];
  const waits = new Set<{ count: number; resolve: () => void }>();
  const port = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the ${language} sample ended with ${code}`)));
    if (child.stdout === null) throw new Error("no output");
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [word, ...rest] = line.split(" ");
      if (word === "listening") resolve(rest[1] ?? "");
      else if (word === "handled") handled.push(rest[0] ?? "");
      for (const wait of waits) if (handled.length >= wait.count) wait.resolve();
    });
  });
  return {
    url: `http://127.0.0.1:${port}`,
    handled,
    handledAtLeast: (count) => (handled.length >= count ? Promise.resolve() : new Promise((resolve) => waits.add({ count, resolve }))),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const closed = once(child, "close");
      child.kill("SIGKILL");
      await closed;
    },
  };
}
