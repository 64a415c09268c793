import { execFile, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, type DevServer, startDev } from "./command.fixture.ts";
import { createProgram } from "./program.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const page = (path: string): string => readFileSync(join(root, path), "utf8");
const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map(([, code = ""]) => code);

/** Every command that does something, as `queues create <name>`, with its description. */
function commandsOf(program: Command, before = ""): string[] {
  return program.commands
    .filter((command) => command.name() !== "help")
    .flatMap((command) => {
      const name = `${before}${command.name()}`;
      if (command.commands.length > 0) return commandsOf(command, `${name} `);
      const args = command.registeredArguments.map((argument) => {
        const shown = `${argument.name()}${argument.variadic ? "..." : ""}`;
        return argument.required ? ` <${shown}>` : ` [${shown}]`;
      });
      return [`| \`${name}${args.join("")}\` | ${command.description()} |`];
    });
}

/** Asks again, a bounded number of times, until the answer is yes: for what another process does after its last line. */
async function pollUntil(question: () => Promise<boolean>): Promise<boolean> {
  for (let i = 0; i < 200; i += 1) if (await question()) return true;
  return false;
}

function pages(): string[] {
  const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
  return ["examples/README.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...docs.map((name) => join("docs", name))];
}

describe("the documentation", () => {
  it("A18: a start and the tests are two commands each, and the first two blocks of the README", () => {
    expect(blocks(page("README.md"), "sh").slice(0, 2)).toEqual(["npm ci && npm start\n", "npm ci && npm test\n"]);
    const { scripts } = JSON.parse(page("package.json")) as { scripts: Record<string, string> };
    expect(scripts).toMatchObject({ start: expect.stringContaining("dev --demo"), test: expect.stringContaining("vitest") });
  });

  it("A17: the page of the command line has every command with its description, and no other", async () => {
    const rows = page("docs/cli.md")
      .split("\n")
      .filter((line) => /^\| `[a-z]/.test(line));
    expect(rows).toEqual(commandsOf(await createProgram()));
  });

  it("A18: the signature guide shows the programs that the tests hold deliveries against, letter by letter", () => {
    const guide = page("docs/guides/verify-signatures.md");
    for (const [path, language] of [
      ["node/verify.mjs", "js"],
      ["node/receiver.mjs", "js"],
      ["go/verify/verify.go", "go"],
      ["go/receiver/main.go", "go"],
      ["python/verify.py", "python"],
      ["python/receiver.py", "python"],
      ["python/verify_queue.py", "python"],
      ["python/queue_receiver.py", "python"],
      ["python/verify_notification.py", "python"],
    ] as const) {
      expect(blocks(guide, language)).toContain(page(`packages/testkit/verifiers/${path}`));
    }
  });

  it("A18: links between pages lead somewhere", () => {
    const broken = pages().flatMap((path) =>
      [...page(path).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !/^[a-z]+:/.test(target) && !existsSync(resolve(root, dirname(path), target)))
        .map((target) => `${path}: ${target}`),
    );
    expect(broken).toEqual([]);
  });
});

describe("what the documentation lets you run", { timeout: 120_000 }, () => {
  let server: DevServer;
  beforeAll(async () => {
    server = await startDev();
  });
  afterAll(async () => {
    await server.stop();
  });

  it("A18: the README's curl lines work as they stand beside a dev server", async () => {
    const [script] = blocks(page("README.md"), "sh").filter((block) => block.includes("curl"));
    const here = (script ?? "").replaceAll("http://127.0.0.1:7400", server.url);
    expect(here).toContain(server.url);
    const lines = here.replace(/^curl/gm, "echo; curl -w ' %{http_code}'").replace(/\$\(curl/g, "$(curl");
    const { stdout } = await promisify(execFile)("/bin/bash", ["-e", "-o", "pipefail", "-c", lines], { cwd: server.cwd });
    expect(stdout.match(/ \d{3}$/gm)).toEqual([" 201", " 200", " 200", " 201", " 200"]);
    expect(stdout).toContain('"ok":true');
    expect(stdout).toContain("whsec_");
  });

  it("A18: the example producer and worker do their work, and nothing is left behind", async () => {
    const example = (name: string, ...args: string[]) => [join(root, "examples", name), ...args];
    const sent = await promisify(execFile)(process.execPath, example("producer.mjs", "examples", "3"), { cwd: server.cwd });
    expect(sent.stdout.match(/^sent [0-9a-f-]{36}$/gm)).toHaveLength(3);
    const worker = spawn(process.execPath, example("worker.mjs", "examples"), { cwd: server.cwd });
    const handled = new Set<string>();
    for await (const line of createInterface({ input: worker.stdout })) {
      handled.add(line);
      if (handled.size === 3) break;
    }
    expect([...handled]).toContain('handled {"order":3} (received 1 times)');
    const acknowledged = await pollUntil(async () => {
      const { body } = await ask(server, "GET", "/v1/organizations/dev/projects/dev/queues/examples/stats");
      return body?.acknowledged === 3;
    });
    worker.kill("SIGKILL");
    expect(acknowledged).toBe(true);
  });
});
