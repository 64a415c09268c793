import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve, toNodeHandler, workflow } from "@millrace/sdk/workflows";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DevServer, type Ended, runCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
let app: Server;
let url: string;
let secret = "not known yet";
const millrace = (...args: string[]): Promise<Ended> => runCommand(args, { cwd: server.cwd });
async function json<T>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await millrace(...args, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as T;
}

const charge = workflow<{ orderId: number }>("charge", async ({ input, step }) => {
  const charged = await step.run("charge", () => ({ order: input.orderId }));
  if (input.orderId < 0) throw new Error("no such order");
  return charged;
});
const approval = workflow("approval", async ({ step }) => step.sleep("think", "30d"));

beforeAll(async () => {
  server = await startDev();
  const handler = toNodeHandler((request) => serve([charge, approval], { signingSecret: secret })(request));
  app = createServer((request, response) => void handler(request, response));
  await new Promise<void>((resolve) => app.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(app.address() as AddressInfo).port}`;
});
afterAll(async () => {
  app.close();
  app.closeAllConnections();
  await server.stop();
});

describe("millrace apps and runs", { timeout: 120_000 }, () => {
  it("A17, W1, W2: makes, syncs, shows, changes and deletes an app by its name", async () => {
    const made = await json<{ signingSecret: string; mode: string }>("apps", "create", "billing", "--url", url);
    expect(made).toMatchObject({ mode: "push", signingSecret: expect.stringMatching(/^whsec_/) });
    secret = made.signingSecret;
    expect(await json("apps", "sync", "billing")).toMatchObject({ syncError: null, signingSecret: null });
    const { workflows } = await json<{ workflows: { name: string }[] }>("workflows", "apps", "workflows", "billing");
    expect(workflows.map(({ name }) => name).sort()).toEqual(["approval", "charge"]);
    const rotated = await json<{ signingSecret: string }>("apps", "rotate-secret", "billing");
    expect(rotated.signingSecret).not.toBe(secret);
    expect((await millrace("apps", "list")).stdout).toMatch(/^billing\tpush\tactive\thealthy\t/m);
    await json("apps", "create", "spare");
    expect((await millrace("apps", "delete", "spare", "--yes")).code).toBe(0);
    expect((await millrace("apps", "get", "spare")).code).toBe(4);
  });

  it("A17, W17: run results are switched on, narrowed and switched off", async () => {
    await json("queues", "create", "run-results");
    expect(await json("apps", "update", "billing", "--notify-queue", "run-results", "--notify-on", "failed,timedOut")).toMatchObject({
      notifications: { on: ["failed", "timedOut"], workflows: null, groupBy: "run" },
    });
    expect(await json("apps", "update", "billing", "--notify-workflows", "charge")).toMatchObject({
      notifications: { on: ["failed", "timedOut"], workflows: ["charge"] },
    });
    expect((await millrace("apps", "get", "billing")).stdout).toMatch(
      /^run results\tto \S+ on failed, timedOut, of charge, grouped by run$/m,
    );
    expect(await json("apps", "update", "billing", "--notify-workflows", "*")).toMatchObject({ notifications: { workflows: null } });
    expect(await json("apps", "update", "billing", "--no-notify")).toMatchObject({ notifications: null });
    expect((await millrace("apps", "update", "billing", "--notify-on", "sometimes")).code).toBe(2);
    expect((await millrace("apps", "update", "billing", "--notify-on", "failed")).stderr).toContain("--notify-queue");
  });

  it("A17, W3: starts a run and follows it, draws its steps, prints what went in and came out", async () => {
    const followed = await millrace("runs", "start", "billing", "charge", "--input", '{"orderId":7}', "--tail");
    expect([followed.code, followed.stdout.split("\t").slice(0, 3)]).toEqual([0, ["charge", "run", "completed"]]);
    const id = /run ([0-9a-f-]{36})/.exec(followed.stderr)?.[1] ?? "";
    const shown = await millrace("runs", "get", "billing", id);
    expect(shown.stdout).toMatch(/^status\tcompleted$/m);
    expect(shown.stdout).toMatch(/^charge\trun\tcompleted\t1\t\+/m);
    expect((await millrace("runs", "get", "billing", id, "--input")).stdout).toBe('{"orderId":7}\n');
    expect((await millrace("runs", "get", "billing", id, "--output")).stdout).toBe('{"order":7}\n');
    expect((await millrace("runs", "start", "billing", "charge", "--input", "{")).code).toBe(2);
    expect((await millrace("runs", "start", "billing", "nothing")).code).toBe(4);
  });

  it("A17, W3: a run that fails ends its tail with 1; it is listed, and retried by filter", async () => {
    const { id } = await json<{ id: string }>("runs", "start", "billing", "charge", "--input", '{"orderId":-1}');
    expect((await millrace("runs", "tail", "billing", id)).code).toBe(1);
    const failed = await millrace("workflows", "runs", "list", "billing", "--status", "failed");
    expect(failed.stdout).toContain(`${id}\tcharge\tfailed\t1\t1\t`);
    expect(failed.stdout).toContain("Error: no such order");
    expect(await json("runs", "retry", "billing", "--status", "failed")).toEqual({ runIds: [id] });
    expect((await millrace("runs", "tail", "billing", id)).code).toBe(1);
    expect(await json("runs", "get", "billing", id)).toMatchObject({ attempt: 2 });
  });

  it("A17, W10: cancels a run that sleeps; naming none is a mistake", async () => {
    const { id } = await json<{ id: string }>("runs", "start", "billing", "approval");
    expect(await json("runs", "cancel", "billing", id)).toEqual({ runIds: [id] });
    expect((await millrace("runs", "tail", "billing", id)).stderr).toContain("cancelled");
    expect((await millrace("runs", "cancel", "billing")).code).toBe(2);
  });

  it("A17, W12, W14: subscribes workflows to queues, to start and to resume, and says what is missing", async () => {
    await json("queues", "create", "orders");
    await json("queues", "create", "payments");
    const target = ["--workflow-app", "billing", "--workflow", "charge"];
    expect(await json("queues", "subscriptions", "create", "orders", ...target)).toMatchObject({
      target: { kind: "workflow", mode: "start", workflow: "charge" },
      batchSize: 1,
      signingSecret: null,
    });
    const resume = [...target, "--mode", "resume", "--correlation-attribute", "orderKey", "--keep-unmatched", "1h"];
    expect(await json("queues", "subscriptions", "create", "payments", ...resume)).toMatchObject({
      target: { mode: "resume", correlationAttribute: "orderKey", keepUnmatchedSeconds: 3600 },
    });
    const { stdout } = await millrace("queues", "subscriptions", "list");
    expect(stdout).toContain("starts charge");
    expect(stdout).toContain("resumes charge by orderKey");
    expect((await millrace("queues", "subscriptions", "create", "orders", ...target, "--mode", "resume")).stderr).toContain(
      "--correlation-attribute",
    );
    expect((await millrace("queues", "subscriptions", "create", "orders", "--workflow-app", "billing")).code).toBe(2);
  });
});
