import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, type DevServer, newDirectory, runCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
beforeAll(async () => {
  server = await startDev();
}, 60_000);
afterAll(() => server.stop());

const queues = ({ organization, project }: DevServer): string => `/v1/organizations/${organization}/projects/${project}/queues`;
const bodies = async (of: DevServer): Promise<string[]> => {
  const found: string[] = [];
  for (;;) {
    const { body } = await ask(of, "POST", `${queues(of)}/kept/messages/receive`, { maxMessages: 10 });
    const messages = (body as { messages: { body: string }[] }).messages;
    if (messages.length === 0) return found.sort();
    found.push(...messages.map((message) => message.body));
  }
};

it("A12: a backup made while messages are sent has every one that was answered before it, and a server starts on it with the old key", {
  timeout: 120_000,
}, async () => {
  await ask(server, "POST", queues(server), { name: "kept" });
  const sent: string[] = [];
  let going = true;
  const sending = (async () => {
    for (let i = 0; going; i++) {
      const answer = await ask(server, "POST", `${queues(server)}/kept/messages`, { messages: [{ body: `${i}`.padStart(5, "0") }] });
      expect(answer.status).toBeLessThan(300);
      sent.push(`${i}`.padStart(5, "0"));
    }
  })();
  while (sent.length < 20) await ask(server, "GET", "/healthz");
  const before = [...sent];
  const { code, stdout, stderr } = await runCommand(["backup", "copy.db", "--json"], { cwd: server.cwd });
  going = false;
  await sending;
  expect([code, JSON.parse(stdout)]).toEqual([0, { file: "copy.db", bytes: statSync(join(server.cwd, "copy.db")).size }]);
  expect(stderr).toContain("millrace.key");
  expect(readdirSync(join(server.cwd, ".millrace")).filter((name) => name.includes("backup"))).toEqual([]);
  expect(statSync(join(server.cwd, "copy.db")).mode & 0o077).toBe(0);

  const cwd = newDirectory();
  mkdirSync(join(cwd, ".millrace"));
  copyFileSync(join(server.cwd, "copy.db"), join(cwd, ".millrace", "millrace.db"));
  copyFileSync(join(server.cwd, ".millrace", "millrace.key"), join(cwd, ".millrace", "millrace.key"));
  const restored = await startDev(["--api-key", server.apiKey], { cwd });
  try {
    const found = await bodies(restored);
    expect(found.slice(0, before.length)).toEqual(before);
    expect(found).toEqual(sent.slice(0, found.length));
  } finally {
    await restored.stop();
  }
});

it("A12: a backup replaces nothing unless told to, and leaves nothing half done", async () => {
  await runCommand(["backup", "again.db"], { cwd: server.cwd });
  const { code, stderr } = await runCommand(["backup", "again.db"], { cwd: server.cwd });
  expect([code, stderr]).toEqual([2, expect.stringContaining("--force")]);
  expect((await runCommand(["backup", "--force", "again.db"], { cwd: server.cwd })).code).toBe(0);
  expect((await runCommand(["backup", "no/such/folder.db"], { cwd: server.cwd })).code).toBe(1);
  expect(existsSync(join(server.cwd, "again.db.partial"))).toBe(false);
});

it("A12, A6: a key of one project gets no backup and learns of no such thing, however much it may do there", async () => {
  const { organization, project } = server;
  const { body } = await ask(server, "POST", `/v1/organizations/${organization}/projects/${project}/keys`, {
    name: "one project",
    statements: [{ allow: ["*"], on: ["*"] }],
  });
  const { secret: apiKey } = body as { secret: string };
  expect((await ask({ url: server.url, apiKey }, "GET", "/backup")).status).toBe(404);
  expect((await ask({ url: server.url, apiKey: "mlr_nobody" }, "GET", "/backup")).status).toBe(401);
});

it("A7, A12: who took a copy of everything, or tried to, is in the audit log", async () => {
  const made = await ask(server, "POST", `/v1/organizations/${server.organization}/projects/${server.project}/keys`, {
    name: "curious",
    statements: [{ allow: ["*"], on: ["*"] }],
  });
  expect((await ask({ ...server, apiKey: (made.body as { secret: string }).secret }, "GET", "/backup")).status).toBe(404);
  expect((await runCommand(["backup", "audited.db"], { cwd: server.cwd })).code).toBe(0);
  const { body } = await ask(server, "GET", `/v1/organizations/${server.organization}/audit?limit=2`);
  expect((body as { calls: unknown[] }).calls).toMatchObject([
    { operation: "Backup", key: { name: "dev" }, path: "/backup", status: 200, code: null },
    { operation: "Backup", key: { name: "curious" }, project: server.project, status: 404, code: "not_found" },
  ]);
});
