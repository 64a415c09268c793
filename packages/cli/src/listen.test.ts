import { createHash, createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { ask, type DevServer, type Running, runCommand, startCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
let secret = "";
const servers: Server[] = [];
const queues = "/applications/dev/queues";

beforeAll(async () => {
  server = await startDev();
  const { body } = await ask(server, "GET", "/applications/dev/environments/production/signing-secret");
  secret = String(body?.secret);
});
afterAll(async () => {
  await server.stop();
});
afterEach(() => {
  for (const each of servers.splice(0)) {
    each.close();
    each.closeAllConnections();
  }
});

type Handler = (body: string, request: IncomingMessage, response: ServerResponse) => void;

/** A local app on a port of its own, or on a given one. */
async function startApp(handler: Handler, port = 0): Promise<number> {
  const app = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => handler(Buffer.concat(chunks).toString(), request, response));
  }).listen(port, "127.0.0.1");
  servers.push(app);
  await once(app, "listening");
  return (app.address() as AddressInfo).port;
}
/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const port = await startApp(() => {});
  const app = servers.pop();
  app?.close();
  if (app !== undefined) await once(app, "close");
  return port;
}
const listen = (...args: string[]): Running => startCommand(["listen", ...args], { cwd: server.cwd });
const send = (queue: string, ...messages: object[]) => ask(server, "POST", `${queues}/${queue}/messages`, { messages });
const make = (queue: string, settings: object = {}) => ask(server, "PUT", `${queues}/${queue}`, settings);
async function records(queue: string): Promise<Record<string, unknown>[]> {
  return ((await ask(server, "GET", `${queues}/${queue}/messages`)).body?.items ?? []) as Record<string, unknown>[];
}
async function stopped(running: Running): Promise<number | null> {
  running.process.kill("SIGINT");
  return (await running.ended).code;
}

describe("millrace listen", { timeout: 120_000 }, () => {
  it("A17, C2, C3: forwards signed requests and settles each message by the answer: done, deferred, dead-lettered, tried again", async () => {
    await make("work", { consumerPath: "/api/work" });
    const own = (request: IncomingMessage, name: string): string => String(request.headers[`x-gigadrive-queue-${name}`]);
    const seen: string[] = [];
    const port = await startApp((body, request, response) => {
      const [, t = "", v1] = /^t=(\d+),v1=(.*)$/.exec(own(request, "signature")) ?? [];
      const text = [
        t,
        own(request, "name"),
        own(request, "message-id"),
        own(request, "attempt"),
        createHash("sha256").update(body).digest("hex"),
      ];
      const signed = createHmac("sha256", secret).update(text.join(".")).digest("hex") === v1;
      seen.push(`${request.url} ${signed} ${request.headers["x-kind"]} ${request.headers["content-type"]} ${own(request, "attempt")}`);
      if (body === "defer") response.setHeader("x-gigadrive-queue-retry-after", "3600");
      if (body === "dead")
        response.setHeader("x-gigadrive-queue-action", "dead-letter").setHeader("x-gigadrive-queue-error", "no such user");
      if (body === "retry") response.writeHead(503, { "retry-after": "1800" }).end("not now");
      else response.end();
    });
    const running = listen("work", "--forward", `http://127.0.0.1:${port}`, "--output", "json");
    await running.said(/"event":"connected"/);
    const kinds = ["ack", "defer", "dead", "retry"];
    await send("work", ...kinds.map((kind) => ({ body: kind, contentType: "text/csv", headers: { "x-kind": kind } })));
    await running.said(/(?:.*"event":"forwarded".*\n){4}/);
    expect(await stopped(running)).toBe(0);
    expect(seen.sort()).toEqual([...kinds].sort().map((kind) => `/api/work true ${kind} text/csv 1`));
    const lines = running
      .stdout()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(
      lines
        .filter(({ event }) => event === "forwarded")
        .map(({ outcome }) => outcome)
        .sort(),
    ).toEqual(["ack", "dead-letter", "defer", "retry"]);
    const left = Object.fromEntries(
      (await records("work")).map(({ body, state, attempts, lastError }) => [body, [state, attempts, lastError]]),
    );
    expect(left).toEqual({
      defer: ["scheduled", 0, null],
      dead: ["dead", 1, "no such user"],
      retry: ["scheduled", 1, "HTTP 503: not now"],
    });
  });

  it("A17: while the local port is closed messages wait without an attempt, and nothing says connected before it is proven", async () => {
    await make("waits");
    await send("waits", { body: "one" });
    const port = await freePort();
    const running = listen("waits", "--forward", `http://127.0.0.1:${port}/hook`);
    await running.noted(/holding waits: nothing listens at 127\.0\.0\.1:\d+/);
    expect(running.stderr()).not.toContain("connected");
    expect((await records("waits"))[0]).toMatchObject({ state: "ready", attempts: 0, lastDeliveredAt: null });
    const urls: unknown[] = [];
    await startApp((_, request, response) => {
      urls.push([request.url, request.headers["x-gigadrive-queue-attempt"]]);
      response.end();
    }, port);
    await running.noted(/connected: waits goes to/);
    await running.said(/^waits {2}[0-9a-f-]{36} {2}attempt 1 {2}200 in \d+ ms {2}done$/m);
    expect(urls).toEqual([["/hook", "1"]]);
    expect(await records("waits")).toEqual([]);
    expect(await stopped(running)).toBe(0);
  });

  it("A17, C6, Q9: messages of a group are forwarded one at a time, and those behind one that failed wait for it", async () => {
    await make("ordered", { type: "fifo", retryBackoffMinSeconds: 1, retryBackoffMaxSeconds: 1 });
    const seen: string[] = [];
    let open = 0;
    const port = await startApp((body, request, response) => {
      const attempt = request.headers["x-gigadrive-queue-attempt"];
      seen.push(`${body} ${attempt} beside ${open}`);
      open++;
      setImmediate(() => {
        open--;
        response.writeHead(body === "two" && attempt === "1" ? 500 : 204).end();
      });
    });
    await send("ordered", ...["one", "two", "three", "four"].map((body) => ({ body, groupKey: "g" })));
    const running = listen("ordered", "--forward", `http://127.0.0.1:${port}`);
    await running.said(/(?:.* done\n(?:.* retry .*\n)?){4}/);
    expect(seen).toEqual(["one 1 beside 0", "two 1 beside 0", "two 2 beside 0", "three 1 beside 0", "four 1 beside 0"]);
    expect(await stopped(running)).toBe(0);
    expect(await records("ordered")).toEqual([]);
  });

  it("A17, P25: a stop lets the open delivery finish, gives nothing else away and ends with 0", async () => {
    await make("slow");
    let answer: () => void = () => {};
    const arrived = new Promise<void>((resolve) => {
      void startApp((_body, _request, response) => {
        answer = () => response.end();
        resolve();
      }).then(async (port) => {
        running = listen("slow", "--forward", `http://127.0.0.1:${port}`, "--concurrency", "1");
        await send("slow", { body: "one" }, { body: "two" });
      });
    });
    let running = undefined as unknown as Running;
    await arrived;
    running.process.kill("SIGINT");
    await running.noted(/Stopping/);
    answer();
    expect((await running.ended).code).toBe(0);
    expect(running.stdout()).toMatch(/^slow {2}\S+ {2}attempt 1 {2}200 in \d+ ms {2}done\n$/);
    expect(await records("slow")).toMatchObject([{ body: "two", state: "ready", attempts: 0 }]);
  });

  it("A17: a stop while it waits for messages ends at once; a queue that is not there and a URL that is none are refused", async () => {
    await make("idle");
    const port = await startApp(() => {});
    const running = listen("idle", "--forward", `http://127.0.0.1:${port}`);
    await running.noted(/connected: idle/);
    expect(await stopped(running)).toBe(0);
    const missing = await runCommand(["listen", "nowhere", "--forward", `http://127.0.0.1:${port}`], { cwd: server.cwd });
    expect([missing.code, missing.stderr]).toEqual([4, expect.stringContaining("queue_not_found")]);
    expect((await runCommand(["listen", "idle", "--forward", "localhost"], { cwd: server.cwd })).code).toBe(2);
  });
});
