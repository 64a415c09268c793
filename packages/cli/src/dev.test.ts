import { execFile } from "node:child_process";
import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, it } from "vitest";
import { ask, newDirectory, type Running, runCommand, startCommand, startDev } from "./command.fixture.ts";

const queues = "/v1/organizations/dev/projects/dev/queues";
const started: Running[] = [];
function kept<R extends Running>(running: R): R {
  started.push(running);
  return running;
}
afterEach(() => {
  for (const { process } of started.splice(0)) process.kill("SIGKILL");
});

describe("millrace dev", { timeout: 120_000 }, () => {
  it("A9: --json prints one line when ready, with a key that may do everything in organization dev, project dev", async () => {
    const server = kept(await startDev());
    expect(server.stdout().trimEnd().split("\n")).toHaveLength(1);
    expect(Object.keys(JSON.parse(server.stdout())).sort()).toEqual(["apiKey", "organization", "project", "url"]);
    expect(server).toMatchObject({ organization: "dev", project: "dev", apiKey: expect.stringMatching(/^mlr_[0-9A-Za-z]{49}$/) });
    expect((await ask(server, "POST", queues, { name: "orders" })).status).toBe(201);
    expect((await ask(server, "POST", "/v1/organizations", { name: "other" })).status).toBe(201);
  });

  it("P25, A9: SIGTERM ends it with 0, and the next start has the same key and the same queues", async () => {
    const first = await startDev();
    await ask(first, "POST", queues, { name: "orders" });
    const { code } = await first.stop();
    expect(code).toBe(0);
    const second = kept(await startDev([], { cwd: first.cwd }));
    expect(second.apiKey).toBe(first.apiKey);
    expect((await ask(second, "GET", `${queues}/orders`)).status).toBe(200);
  });

  it("P25: a second signal ends it at once, though a delivery is still open", async () => {
    let arrived: () => void = () => {};
    const delivery = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const endpoint = createServer(() => arrived()).listen(0, "127.0.0.1");
    await once(endpoint, "listening");
    const { port } = endpoint.address() as AddressInfo;
    const server = kept(await startDev());
    await ask(server, "POST", queues, { name: "slow" });
    const target = { kind: "https", url: `http://127.0.0.1:${port}/slow`, timeoutSeconds: 60 };
    await ask(server, "POST", "/v1/organizations/dev/projects/dev/subscriptions", { queueId: "slow", target });
    await ask(server, "POST", `${queues}/slow/messages`, { messages: [{ body: "one" }] });
    await delivery;
    server.process.kill("SIGTERM");
    await server.noted(/Stopping/);
    expect(server.process.exitCode).toBeNull();
    server.process.kill("SIGTERM");
    expect((await server.ended).code).toBe(130);
    endpoint.closeAllConnections();
    endpoint.close();
  });

  it("A9: --api-key sets the key, --data the directory; what is kept there is for its owner alone", async () => {
    const apiKey = "a-key-of-my-own";
    const cwd = newDirectory();
    const server = kept(await startDev(["--api-key", apiKey, "--data", "elsewhere"], { cwd }));
    expect(server.apiKey).toBe(apiKey);
    expect((await ask(server, "GET", queues)).status).toBe(200);
    expect((await ask({ ...server, apiKey: "another-key" }, "GET", queues)).status).toBe(401);
    const file = join(cwd, "elsewhere", "dev.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ url: server.url, apiKey });
  });

  it("A9, A18: the commands it proposes work as printed, wherever its data is", async () => {
    const cwd = newDirectory();
    const elsewhere = kept(startCommand(["dev", "--port", "0", "--data", "elsewhere"], { cwd }));
    const [, settings = ""] = await elsewhere.said(/^ {2}export (.*)\n/m);
    const env = Object.fromEntries(settings.split(" ").map((setting) => setting.split("=", 2)));
    expect((await runCommand(["queues", "create", "orders"], { cwd, env })).code).toBe(0);

    const beside = kept(startCommand(["dev", "--port", "0"], { cwd: newDirectory() }));
    await beside.said(/in this directory:\n/);
    expect(beside.stdout()).not.toContain("export ");
  });

  it("A9: a DATABASE_URL that is lying about is left alone", async () => {
    const server = kept(await startDev([], { env: { DATABASE_URL: "postgres://nobody@127.0.0.1:9/none" } }));
    expect((await ask(server, "GET", queues)).status).toBe(200);
  });

  it("A9: a port in use is told with the way out, not with a stack", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await runCommand(["dev", "--port", String(port)], { cwd: newDirectory() });
    other.close();
    expect(code).toBe(1);
    expect(stderr).toContain(`Port ${port}`);
    expect(stderr).toContain(`--port ${port + 1}`);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  it("A9, C10, A14: the queues of millrace.yaml are there at the start, wherever a server places them, follow its changes, and survive a fault in it", async () => {
    const cwd = newDirectory();
    const declare = (text: string) => writeFileSync(join(cwd, "millrace.yaml"), text);
    declare(`databases: { eu: "postgres://eu/millrace" }
services:
  queues:
    orders: { database: eu, visibilityTimeout: 2m, deadLetterQueue: orders-dead, maxAttempts: 4, concurrency: 5, schedules: { nightly: { cron: "@daily" } } }
    orders-dead: { database: eu, retention: 14d }
`);
    const server = kept(await startDev([], { cwd }));
    const settings = async () => (await ask(server, "GET", `${queues}/orders`)).body;
    expect(await settings()).toMatchObject({ visibilityTimeoutSeconds: 120, redrivePolicy: { maxReceiveCount: 4 } });
    expect(server.stderr()).toContain("schedule orders/nightly created");
    expect((await ask(server, "GET", "/applications/dev/queues/orders")).body).toMatchObject({
      concurrency: 5,
      source: "config",
      database: "default",
    });
    declare("services:\n  queues:\n    orders: { visibilityTimeuot: 3m }\n");
    await server.noted(
      /millrace\.yaml:3:15: services\.queues\.orders\.visibilityTimeuot: no such setting; did you mean visibilityTimeout\?/,
    );
    declare("services:\n  queues:\n    orders: { visibilityTimeout: 180, rateLimit: { count: 5, period: 1m } }\n");
    await server.noted(/orders changed \(visibilityTimeout, rateLimit\)/);
    expect(await settings()).toMatchObject({ visibilityTimeoutSeconds: 180, rateLimit: { count: 5, periodSeconds: 60 } });
    expect(await settings()).toMatchObject({ redrivePolicy: { maxReceiveCount: 4 } });
    const { stderr } = await server.stop();
    const again = kept(await startDev([], { cwd }));
    expect(stderr).toContain("orders created");
    expect(again.stderr()).not.toMatch(/created|changed/);
  });

  it("A9: a second server on the same data, and a key that is too short, are refused with what to do", async () => {
    const server = kept(await startDev());
    const second = await runCommand(["dev", "--port", "0"], { cwd: server.cwd });
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining("Stop it first")]);
    expect(JSON.parse(readFileSync(join(server.cwd, ".millrace", "dev.json"), "utf8"))).toMatchObject({ url: server.url });
    const short = await runCommand(["dev", "--port", "0", "--api-key", "short"], { cwd: newDirectory() });
    expect([short.code, short.stderr]).toEqual([2, expect.stringContaining("8 to 200")]);
    expect(short.stderr).not.toContain("got short");
  });

  it("P26: with --virtual-clock the clock is moved over HTTP and leases follow; without it there is no such route", async () => {
    const server = kept(await startDev(["--virtual-clock"]));
    await ask(server, "POST", queues, { name: "orders" });
    await ask(server, "POST", `${queues}/orders/messages`, { messages: [{ body: "one" }, { body: "later", delaySeconds: 7200 }] });
    const receive = async () => (await ask(server, "POST", `${queues}/orders/messages/receive`, { maxMessages: 10 })).body?.messages;
    expect(await receive()).toMatchObject([{ body: "one", receiveCount: 1 }]);
    expect(await receive()).toEqual([]);
    const moved = await ask(server, "POST", "/dev/clock/advance", { seconds: 61 });
    expect(moved).toMatchObject({ status: 200, body: { offsetMs: 61_000 } });
    expect(await receive()).toMatchObject([{ body: "one", receiveCount: 2 }]);
    await ask(server, "POST", "/dev/clock/advance", { ms: 7_200_000 });
    expect(await receive()).toHaveLength(2);
    for (const body of [{}, { ms: -1 }, { ms: 1, seconds: 1 }, { minutes: 1 }]) {
      expect((await ask(server, "POST", "/dev/clock/advance", body)).status).toBe(400);
    }
    const plain = kept(await startDev());
    expect((await ask(plain, "POST", "/dev/clock/advance", { seconds: 1 })).status).toBe(404);
  });

  it("P26: the virtual clock stands where it was after a restart, with the flag or without, and goes on from there", async () => {
    const first = await startDev(["--virtual-clock"]);
    await ask(first, "POST", queues, { name: "orders" });
    await ask(first, "POST", "/dev/clock/advance", { seconds: 7200 });
    await ask(first, "POST", `${queues}/orders/messages`, { messages: [{ body: "one" }] });
    const peeked = (await ask(first, "GET", `${queues}/orders/messages`)).body as { messages: { expiresAt: string }[] };
    const expiresAt = peeked.messages[0]?.expiresAt ?? "";
    // Killed: nothing is left to a shutdown.
    first.process.kill("SIGKILL");
    await first.ended;
    const plain = await startDev([], { cwd: first.cwd });
    const received = (await ask(plain, "POST", `${queues}/orders/messages/receive`, {})).body as {
      messages: { body: string; leaseExpiresAt: string }[];
    };
    expect(received.messages).toMatchObject([{ body: "one" }]);
    expect(Date.parse(received.messages[0]?.leaseExpiresAt ?? "") - Date.now()).toBeGreaterThan(7_200_000);
    await plain.stop();
    const second = kept(await startDev(["--virtual-clock"], { cwd: first.cwd }));
    const moved = await ask(second, "POST", "/dev/clock/advance", { ms: Date.parse(expiresAt) - Date.now() - 7_200_000 });
    expect(moved.body?.offsetMs).toBeGreaterThan(7_200_000);
    expect((await ask(second, "POST", `${queues}/orders/messages/receive`, {})).body?.messages).toEqual([]);
  });

  it("C7: --app makes the app on this machine the deployment, prints the secret that deliveries to it are signed with, and refuses other addresses", async () => {
    let arrived: (request: { url: string | undefined; signed: boolean; body: string }) => void = () => {};
    const delivery = new Promise<{ url: string | undefined; signed: boolean; body: string }>((resolve) => {
      arrived = resolve;
    });
    let secret = "";
    const app = createServer((request, response) => {
      const own = (name: string): string => String(request.headers[`x-gigadrive-queue-${name}`]);
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        const [, t = "", v1] = /^t=(\d+),v1=(.*)$/.exec(own("signature")) ?? [];
        const hash = createHash("sha256").update(body).digest("hex");
        const text = [t, own("name"), own("message-id"), own("attempt"), hash].join(".");
        arrived({ url: request.url, signed: createHmac("sha256", secret).update(text).digest("hex") === v1, body });
        response.end();
      });
    }).listen(0, "127.0.0.1");
    await once(app, "listening");
    const address = `http://localhost:${(app.address() as AddressInfo).port}`;
    const server = await startDev(["--app", address]);
    secret = String((JSON.parse(server.stdout()) as { queueSigningSecret: string }).queueSigningSecret);
    await ask(server, "PUT", "/applications/dev/queues/emails", { consumerPath: "/api/queues/emails" });
    await ask(server, "POST", "/applications/dev/queues/emails/messages", { json: { to: "ada" } });
    expect(await delivery).toEqual({ url: "/api/queues/emails", signed: true, body: '{"to":"ada"}' });
    await server.stop();
    const plain = kept(startCommand(["dev", "--port", "0", "--app", address], { cwd: server.cwd }));
    await plain.said(new RegExp(`GIGADRIVE_QUEUE_SIGNING_SECRET=${secret}\n`));
    app.close();
    app.closeAllConnections();
    const bare = await runCommand(["dev", "--port", "0", "--app", "localhost:3000"], { cwd: server.cwd });
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringContaining("such as http://localhost:3000")]);
    const elsewhere = await runCommand(["dev", "--port", "0", "--app", "http://user@localhost:1"], { cwd: newDirectory() });
    expect([elsewhere.code, elsewhere.stderr]).toEqual([2, expect.stringContaining("no user name or password")]);
  });

  it("A9, P9: --demo prints every delivery, verified, with the retry of a refused one, and curl lines that work when pasted", async () => {
    const demo = kept(startCommand(["dev", "--port", "0", "--demo"], { cwd: newDirectory() }));
    await demo.said(/signature ok {2}done \{"order":1,/);
    const curls = demo.stdout().match(/^ {2}curl .*$/gm) ?? [];
    expect(curls).toHaveLength(2);
    for (const line of curls) {
      const { stdout } = await promisify(execFile)("/bin/sh", ["-c", line]);
      expect(JSON.parse(stdout)).not.toHaveProperty("error");
    }
    await demo.said(/signature ok {2}done hello from curl/);
    await demo.said(/failed \{"order":5,[^\n]*\n/);
    await demo.said(/done \{"order":5,[^\n]*attempt 2/);
    demo.process.kill("SIGINT");
    expect((await demo.ended).code).toBe(0);
    expect(demo.stdout()).not.toContain("does not hold");
  });
});
