import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DevServer, type Ended, runCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
const millrace = (...args: string[]): Promise<Ended> => runCommand(args, { cwd: server.cwd });
const write = (name: string, text: string): void => writeFileSync(join(server.cwd, name), text);

beforeAll(async () => {
  server = await startDev();
});
afterAll(async () => {
  await server.stop();
});

describe("millrace apply", { timeout: 120_000 }, () => {
  it("C10, A17: shows a plan, applies it, is idempotent, and --check ends with 8 while there is something to change", async () => {
    write(
      "gigadrive.yaml",
      "services:\n  queues:\n    emails:\n      consumer: /api/queues/emails\n      maxAttempts: 5\n      visibilityTimeout: 2m\n      schedules:\n        digest: { cron: 0 7 * * * }\n",
    );
    const check = await millrace("apply", "--check");
    expect(check.code).toBe(8);
    expect(check.stdout).toContain("+\tcreate\tqueue\temails");
    expect((await millrace("queues", "get", "emails")).code).toBe(4);
    const applied = await millrace("apply");
    expect([applied.code, applied.stderr]).toEqual([0, "Applied: 2 created, 0 changed, 0 removed, 0 unchanged.\n"]);
    const again = await millrace("apply", "--check");
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining("=\tunchanged\tschedule\temails/digest")]);
    write("other.yaml", "services: { queues: { emails: { maxAttempts: 6 } } }\n");
    const changed = JSON.parse((await millrace("apply", "other.yaml", "--json")).stdout);
    expect(changed).toMatchObject({ applied: true, changes: [{ name: "emails", action: "change", fields: ["maxAttempts"] }] });
  });

  it("C10, A17: a removal takes --prune, and where nobody can be asked --yes", async () => {
    write("prune.yaml", "services: { queues: { emails: {}, extra: {} } }\n");
    await millrace("apply", "prune.yaml");
    write("prune.yaml", "services: { queues: { emails: {} } }\n");
    expect((await millrace("apply", "prune.yaml")).stdout).not.toContain("extra");
    const asked = await millrace("apply", "prune.yaml", "--prune");
    expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("--yes")]);
    expect((await millrace("queues", "get", "extra")).code).toBe(0);
    expect((await millrace("apply", "prune.yaml", "--prune", "--yes")).stdout).toContain("-\tremove\tqueue\textra");
    expect((await millrace("queues", "get", "extra")).code).toBe(4);
  });

  it("C10: every fault of a file is told with its line and column, also one that only the server finds", async () => {
    const faults = async (text: string): Promise<string> => {
      write("bad.yaml", text);
      const { code, stderr } = await millrace("apply", "bad.yaml");
      expect(code).toBe(2);
      return stderr;
    };
    expect(await faults("services:\n  queues:\n    a:\n      retension: 1d\n    b:\n      retention: 1s\n")).toBe(
      "bad.yaml:4:7: services.queues.a.retension: no such setting; did you mean retention?\n" +
        "bad.yaml:6:7: services.queues.b.retention: must be from 60 to 1209600 seconds, got 1\n",
    );
    expect(await faults("services:\n  queues:\n    a: {\n")).toMatch(/^bad\.yaml:\d+:\d+: is not valid YAML/);
    expect(await faults("services:\n  queues:\n    a:\n      schedules:\n        s: { timezone: Mars/Base, cron: '@daily' }\n")).toContain(
      "bad.yaml:5:14: services.queues.a.schedules.s.timezone: an IANA time zone",
    );
    expect(await faults("services:\n  queues:\n    a.b:\n      schedules:\n        s.t: { cron: '61 * * * *' }\n")).toContain(
      "bad.yaml:5:16: services.queues.a.b.schedules.s.t.cron: five fields",
    );
    expect((await millrace("queues", "get", "a")).code).toBe(4);
    expect((await millrace("apply", "nowhere.yaml")).code).toBe(2);
  });

  it("C10: a file may share settings by anchors and merges; one without the section is told of", async () => {
    write(
      "merge.yaml",
      "defaults: &d { maxAttempts: 3 }\nservices:\n  queues:\n    m1: { <<: *d, consumer: /m1 }\n    m2: *d\n    m3: { <<: *d, retention: 1s }\n",
    );
    expect((await millrace("apply", "merge.yaml")).stderr).toMatch(/^merge\.yaml:6:19: services\.queues\.m3\.retention: .*\n$/);
    write("merge.yaml", "defaults: &d { maxAttempts: 3 }\nservices:\n  queues:\n    m1: { <<: *d, consumer: /m1 }\n    m2: *d\n");
    expect((await millrace("apply", "merge.yaml")).code).toBe(0);
    for (const name of ["m1", "m2"]) expect((await millrace("queues", "get", name, "--json")).stdout).toContain('"maxAttempts":3');
    write("merge.yaml", "queues: { m1: {} }\n");
    const none = await millrace("apply", "merge.yaml");
    expect([none.code, none.stderr]).toEqual([0, expect.stringContaining("merge.yaml declares no queues")]);
  });
});

describe("millrace schedules and deployments", { timeout: 120_000 }, () => {
  it("A17, C9: makes, lists, changes, switches and deletes a schedule of a queue", async () => {
    await millrace("queues", "create", "ticks");
    const made = await millrace(
      "schedules",
      "create",
      "ticks",
      "hourly",
      "@hourly",
      "--timezone",
      "Europe/Berlin",
      "--body",
      "tick",
      "--json",
    );
    expect(JSON.parse(made.stdout)).toMatchObject({
      name: "hourly",
      cron: "@hourly",
      timezone: "Europe/Berlin",
      body: "tick",
      enabled: true,
    });
    expect((await millrace("schedules", "create", "ticks", "hourly", "@hourly")).code).toBe(5);
    const bad = await millrace("schedules", "create", "ticks", "bad", "* * *");
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("cron: five fields")]);
    const updated = await millrace("schedules", "update", "ticks", "hourly", "--cron", "0 7 * * *", "--header", "x-a=b", "--json");
    expect(JSON.parse(updated.stdout)).toMatchObject({ cron: "0 7 * * *", headers: { "x-a": "b" }, timezone: "Europe/Berlin" });
    expect((await millrace("schedules", "disable", "ticks", "hourly")).stderr).toContain("disabled");
    expect((await millrace("schedules", "list", "ticks")).stdout).toMatch(/^hourly\t0 7 \* \* \*\tEurope\/Berlin\tdisabled\t-\t/m);
    expect((await millrace("schedules", "enable", "ticks", "hourly")).stderr).toMatch(/runs next at \d{4}-/);
    expect((await millrace("schedules", "delete", "ticks", "hourly")).code).toBe(2);
    expect((await millrace("schedules", "delete", "ticks", "hourly", "--yes")).code).toBe(0);
    expect((await millrace("schedules", "delete", "ticks", "hourly", "--yes")).code).toBe(4);
  });

  it("A17, C7: registers, promotes, lists and retires a deployment", async () => {
    const registered = await millrace("deployments", "register", "d1", "http://localhost:3999", "--json");
    expect(JSON.parse(registered.stdout)).toMatchObject({ id: "d1", state: "registered" });
    const second = await millrace("deployments", "register", "d2", "http://localhost:3998", "--promote", "--json");
    expect(JSON.parse(second.stdout)).toMatchObject({ id: "d2", state: "current" });
    await millrace("deployments", "promote", "d1");
    const { stdout } = await millrace("deployments", "list");
    expect(stdout).toMatch(/^d2\tregistered\tproduction\t/m);
    expect(stdout).toMatch(/^d1\tcurrent\tproduction\t/m);
    expect((await millrace("deployments", "retire", "d1")).code).toBe(2);
    expect(JSON.parse((await millrace("deployments", "retire", "d1", "--yes", "--json")).stdout)).toMatchObject({ state: "retired" });
    expect((await millrace("deployments", "promote", "nowhere")).code).toBe(4);
  });
});
