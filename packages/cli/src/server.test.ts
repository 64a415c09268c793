import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newDirectory, runCommand, startCommand } from "./command.fixture.ts";

const serve = (cwd: string) => startCommand(["server", "--port", "0", "--json", "--log-level", "error"], { cwd });

describe("millrace server", { timeout: 120_000 }, () => {
  it("P5: on PostgreSQL without an encryption key it does not start, and says how to make one", async () => {
    const env = { DATABASE_URL: "postgres://app:hunter2@127.0.0.1:9/millrace" };
    const { code, stdout, stderr } = await runCommand(["server"], { cwd: newDirectory(), env });
    expect(code).toBe(2);
    expect(stderr).toContain("MILLRACE_ENCRYPTION_KEY");
    expect(stderr).toContain("openssl rand -base64 32");
    expect(stdout + stderr).not.toContain("hunter2");
  });

  it("A10: a database that is not there is told in a sentence, without its password", async () => {
    const env = {
      DATABASE_URL: "postgres://app:hunter2@127.0.0.1:9/millrace",
      MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 5).toString("base64"),
    };
    const { code, stdout, stderr } = await runCommand(["server", "--port", "0", "--log-level", "silent"], { cwd: newDirectory(), env });
    expect(code).toBe(1);
    expect(stderr).toContain("The database can't be reached: connect ECONNREFUSED 127.0.0.1:9");
    expect(stdout + stderr).not.toMatch(/hunter2|\n\s+at /);
  });

  it("A10: a setting that cannot be used stops the start, naming setting, bound and source", async () => {
    const { code, stderr } = await runCommand(["server"], { cwd: newDirectory(), env: { MILLRACE_PORT: "70000", MILLRACE_PROT: "1" } });
    expect(code).toBe(2);
    expect(stderr).toContain("port: must be a whole number from 0 to 65,535, got 70000 (from MILLRACE_PORT)");
    expect(stderr).toContain("MILLRACE_PROT: no such setting in the environment; did you mean MILLRACE_PORT?");
  });

  it("A5, A9: the first start prints a key, once; a restart does not; SIGTERM ends it with 0", async () => {
    const cwd = newDirectory();
    const first = serve(cwd);
    const [line] = await first.said(/^.*\n/);
    const { url, apiKey } = JSON.parse(line) as { url: string; apiKey: string };
    expect(apiKey).toMatch(/^mlr_/);
    const list = await fetch(`${url}/v1/organizations/default/projects/default/queues`, { headers: { authorization: `Bearer ${apiKey}` } });
    expect(list.status).toBe(200);
    first.process.kill("SIGTERM");
    expect((await first.ended).code).toBe(0);
    expect(readdirSync(join(cwd, ".millrace"))).not.toContain("dev.json");
    const second = serve(cwd);
    const [again] = await second.said(/^.*\n/);
    expect(JSON.parse(again)).toMatchObject({ apiKey: null });
    second.process.kill("SIGTERM");
    expect((await second.ended).code).toBe(0);
  });
});

it("A17: the doctor seals nothing, so it asks for no key, and says why it can't look", { timeout: 60_000 }, async () => {
  const env = { DATABASE_URL: "postgres://app:hunter2@127.0.0.1:9/millrace" };
  const { code, stdout, stderr } = await runCommand(["doctor"], { cwd: newDirectory(), env });
  expect([code, stdout, stderr]).toEqual([1, "", "The database can't be reached: connect ECONNREFUSED 127.0.0.1:9\n"]);
});

describe("millrace config", { timeout: 120_000 }, () => {
  it("A10: prints what is in force and from where, with secrets masked", async () => {
    const env = {
      DATABASE_URL: "postgres://app:hunter2@db/millrace",
      MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 5).toString("base64"),
      MILLRACE_LOG_LEVEL: "warn",
    };
    const table = await runCommand(["config", "--port", "8080"], { cwd: newDirectory(), env });
    expect(table.code).toBe(0);
    expect(table.stdout).toContain("port\t8080\tflag --port\n");
    expect(table.stdout).toContain("logLevel\twarn\tenvironment MILLRACE_LOG_LEVEL\n");
    expect(table.stdout).toContain("host\t127.0.0.1\tdefault\n");
    expect(table.stdout).not.toContain("hunter2");
    expect(table.stdout).not.toContain(env.MILLRACE_ENCRYPTION_KEY);
    const { stdout } = await runCommand(["config", "--json"], { cwd: newDirectory(), env });
    const { settings } = JSON.parse(stdout) as { settings: { name: string; from: string }[] };
    expect(settings.find(({ name }) => name === "logLevel")).toMatchObject({ from: "environment", by: "MILLRACE_LOG_LEVEL" });
  });
});
