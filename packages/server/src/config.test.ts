import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ConfigError, egressPolicy, loadConfig, maskedValue, settings } from "./config.ts";

function fileOf(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), "millrace-config-")), "millrace.yaml");
  writeFileSync(path, text);
  return path;
}

function problemsOf(load: () => unknown): readonly string[] {
  try {
    load();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error("the configuration was accepted");
}

const key = Buffer.alloc(32, 7).toString("base64");

describe("configuration", () => {
  it("A10: a flag wins over a variable, a variable over the file, the file over the default, and each value knows its origin", () => {
    const file = fileOf("port: 1001\nlogLevel: warn\nshutdownGraceSeconds: 5\negress:\n  allowHttp: true\n");
    const { config, origins } = loadConfig({
      file,
      env: { MILLRACE_LOG_LEVEL: "error", MILLRACE_PORT: "1002" },
      flags: { "--port": "1003" },
    });
    expect(config).toMatchObject({ port: 1003, logLevel: "error", shutdownGraceSeconds: 5, host: "127.0.0.1" });
    expect(config.egress.allowHttp).toBe(true);
    expect(origins.port).toEqual({ from: "flag", name: "--port" });
    expect(origins.logLevel).toEqual({ from: "environment", name: "MILLRACE_LOG_LEVEL" });
    expect(origins.shutdownGraceSeconds).toEqual({ from: "file", name: file });
    expect(origins["egress.allowHttp"]).toEqual({ from: "file", name: file });
    expect(origins.host).toEqual({ from: "default", name: "" });
  });

  it("A10: every fault names the setting, its bound, what it got and its source, and all are told at once", () => {
    const file = fileOf("poolSize: 0\negress:\n  allowPorts: [8080, 70000]\n");
    const problems = problemsOf(() =>
      loadConfig({ file, env: { MILLRACE_PORT: "99999", MILLRACE_LOG_LEVEL: "loud" }, flags: { "--shutdown-grace": "soon" } }),
    );
    expect(problems).toContain("port: must be a whole number from 0 to 65,535, got 99999 (from MILLRACE_PORT)");
    expect(problems).toContain(`poolSize: must be a whole number from 3 to 200, got 0 (from ${file})`);
    expect(problems).toContain(
      'logLevel: must be one of silent, fatal, error, warn, info, debug, trace, got "loud" (from MILLRACE_LOG_LEVEL)',
    );
    expect(problems).toContain('shutdownGraceSeconds: must be a whole number from 0 to 600, got "soon" (from --shutdown-grace)');
    expect(problems.find((line) => line.startsWith("egress.allowPorts"))).toContain("from 1 to 65,535");
    expect(problems).toHaveLength(5);
  });

  it("A10: an unknown setting is refused with the nearest name, in the file, the environment and among the flags", () => {
    const file = fileOf("prot: 7400\negress:\n  allowHost: [a]\nservices:\n  queues: {}\n");
    const problems = problemsOf(() => loadConfig({ file, env: { MILLRACE_LOGLEVEL: "info" }, flags: { "--pool-sise": "3" } }));
    expect(problems).toEqual([
      `prot: no such setting in ${file}; did you mean port?`,
      `egress.allowHost: no such setting in ${file}; did you mean egress.allowHosts?`,
      "MILLRACE_LOGLEVEL: no such setting in the environment; did you mean MILLRACE_LOG_LEVEL?",
      "--pool-sise: no such setting among the flags; did you mean --pool-size?",
    ]);
  });

  it("A10: variables of clients, and those that Kubernetes makes for a service called millrace, are no settings and no faults", () => {
    const { config } = loadConfig({
      env: {
        MILLRACE_URL: "http://localhost:7400",
        MILLRACE_API_KEY: "k",
        MILLRACE_SERVICE_HOST: "10.0.0.1",
        MILLRACE_PORT: "tcp://10.0.0.1:7400",
        MILLRACE_PORT_7400_TCP_ADDR: "10.0.0.1",
        MILLRACE_HOST: "",
      },
    });
    expect(config).toMatchObject({ port: 7400, host: "127.0.0.1" });
  });

  it("A10: a file that is missing or is not YAML is a fault that names the file", () => {
    expect(problemsOf(() => loadConfig({ file: "/nowhere/millrace.yaml" }))[0]).toMatch(/^\/nowhere\/millrace\.yaml: cannot be read/);
    const file = fileOf("port: [\n");
    expect(problemsOf(() => loadConfig({ file }))[0]).toContain(`${file}: is not valid YAML`);
    const list = fileOf("- port\n");
    expect(problemsOf(() => loadConfig({ file: list }))[0]).toBe(`${list}: must be a map of settings`);
  });

  it("P5: on PostgreSQL a missing encryption key is an error that says how to make one; on SQLite it is not", () => {
    const [problem] = problemsOf(() => loadConfig({ env: { DATABASE_URL: "postgres://db/millrace" } }));
    expect(problem).toContain("MILLRACE_ENCRYPTION_KEY");
    expect(problem).toContain("openssl rand -base64 32");
    expect(loadConfig({ env: {} }).config.encryptionKeys).toEqual([]);
    const hex = Buffer.alloc(32, 9).toString("hex");
    const both = loadConfig({ env: { DATABASE_URL: "postgres://db/millrace", MILLRACE_ENCRYPTION_KEY: `${key}, ${hex}` } });
    expect(both.config.encryptionKeys).toEqual([key, hex]);
  });

  it("P5, A10: a secret is masked when shown and is never repeated in an error", () => {
    const env = { DATABASE_URL: "postgres://app:hunter2@db/millrace?sslpassword=hunter3", MILLRACE_ENCRYPTION_KEY: key };
    const { config } = loadConfig({ env });
    const printed = settings.map((setting) => maskedValue(setting, config)).join("\n");
    expect(printed).toContain("postgres://app:********@db/millrace");
    expect(printed).not.toMatch(/hunter/);
    expect(printed).not.toContain(key);
    const problems = problemsOf(() => loadConfig({ env: { DATABASE_URL: "mysql://app:hunter2@db", MILLRACE_ENCRYPTION_KEY: "hunter2" } }));
    expect(problems.join()).not.toContain("hunter2");
    expect(problems).toHaveLength(2);
  });

  it("A14, A10: further databases come as a map of names, are masked one by one, and need PostgreSQL", () => {
    const env = { DATABASE_URL: "postgres://db/millrace", MILLRACE_ENCRYPTION_KEY: key };
    const eu = "postgres://app:hunter2@eu/millrace?sslmode=require";
    const us = "postgres://us/millrace";
    const { config } = loadConfig({ env: { ...env, MILLRACE_DATABASES: `eu=${eu}  us=${us}` } });
    expect(config.databases).toEqual({ eu, us });
    expect(loadConfig({ env: { ...env, MILLRACE_DATABASES: `eu=${eu},us=${us}` } }).config.databases).toEqual({ eu, us });
    expect(loadConfig({ env, file: fileOf(`databases: { eu: "${eu}", us: "${us}" }\n`) }).config.databases).toEqual({ eu, us });
    expect(loadConfig({ env: {} }).config.databases).toEqual({});
    const [setting] = settings.filter(({ name }) => name === "databases");
    if (setting === undefined) throw new Error("there is such a setting");
    expect(maskedValue(setting, config)).toBe("eu=postgres://app:********@eu/millrace?sslmode=require us=postgres://us/millrace");
    for (const wrong of ["eu", "default=postgres://db/x", "EU=postgres://db/x", "eu=mysql://app:hunter2@db/x", `eu=${eu} eu=${us}`]) {
      const [problem] = problemsOf(() => loadConfig({ env: { ...env, MILLRACE_DATABASES: wrong } }));
      expect(problem).toBe(`databases: must be ${setting.bound}, got something else (from MILLRACE_DATABASES)`);
    }
    expect(problemsOf(() => loadConfig({ env: { MILLRACE_DATABASES: `eu=${eu}` } }))).toEqual([
      "databases: further databases need PostgreSQL as the default one; set DATABASE_URL",
    ]);
  });

  it("P18, P21: the egress policy opens exactly the ports, hosts and blocks that are named, and knows its own host", () => {
    const { config } = loadConfig({
      env: {
        MILLRACE_PUBLIC_URL: "https://queues.example.com",
        MILLRACE_EGRESS_ALLOW_PORTS: "8080,9000-9002",
        MILLRACE_EGRESS_ALLOW_CIDRS: "10.1.0.0/16,fd00::/8",
        MILLRACE_EGRESS_ALLOW_HOSTS: "billing",
      },
    });
    expect(egressPolicy(config)).toEqual({
      allowHosts: ["billing"],
      allowCidrs: ["10.1.0.0/16", "fd00::/8"],
      allowHttp: false,
      allowPorts: [8080, 9000, 9001, 9002],
      ownHosts: ["queues.example.com"],
    });
    const strict = egressPolicy(loadConfig().config);
    expect(strict).toEqual({ allowHosts: [], allowCidrs: [], allowHttp: false, allowPorts: [], ownHosts: [] });
  });

  it("A10: the table in the documentation has every setting with its variable, flag, default and bound", () => {
    const page = readFileSync(new URL("../../../docs/configuration.md", import.meta.url), "utf8");
    for (const { name, env, flag, default: fallback, bound, description } of settings) {
      expect(page).toContain(`| \`${name}\` | \`${env}\` | \`${flag}\` | ${fallback} | ${bound} | ${description} |`);
    }
    const rows = page.split("\n").filter((line) => /^\| `[a-zA-Z.]+` \| `[A-Z_]+` \|/.test(line));
    expect(rows).toHaveLength(settings.length);
  });
});
