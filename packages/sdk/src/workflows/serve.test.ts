import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buildWorkflowCall, generateSecret, type Hmac, parseSecret, type SyncRequest, type Task } from "@millrace/contract/wire";
import { type Receiver, receiver } from "@millrace/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PushHandler } from "../handler.ts";
import { json } from "../scripted.fixture.ts";
import { serve, toNodeHandler } from "./serve.ts";
import { workflow } from "./workflow.ts";

const hmac: Hmac = (form, key, ...parts) => {
  const digest = createHmac("sha256", key);
  for (const part of parts) digest.update(part);
  return digest.digest(form);
};
const secretOf = (byte: number): string => generateSecret((length) => new Uint8Array(length).fill(byte));
const secret = secretOf(65);

const double = workflow<number>("double", ({ input, step }) => step.run("double", () => input * 2), { timeout: "1h", concurrency: 3 });
const large = workflow("large", () => "x".repeat(2 * 1024 * 1024));
const paged = workflow("paged", async ({ step }) => [await step.run("a", () => "new"), await step.run("b", () => "new")]);

const closers: (() => unknown)[] = [];
let server: Receiver;
beforeEach(async () => {
  server = await receiver({
    answer: (request) =>
      request.path === "/journal"
        ? json({ steps: [{ id: "b", type: "run", status: "completed", attempt: 1, order: 2, result: '"b"' }], next: null })
        : json({ executions: request.json<{ executions: unknown[] }>().executions.map(() => ({ ok: true, steps: [] })) }),
  });
});
afterEach(async () => {
  for (const close of closers.splice(0)) close();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await server.close();
});

const task = (name: string, given: Partial<Task> = {}): Task => ({
  type: "execute",
  protocol: "1.2",
  executionId: "e",
  token: "token",
  callbackUrl: server.url,
  now: 1000,
  leaseMs: 60_000,
  run: { id: "r", appId: "a", workflow: name, attempt: 1, createdAt: 0 },
  input: "21",
  cancelled: false,
  journal: { steps: [], next: null },
  ...given,
});

function request(call: Task | SyncRequest | object, key = secret): Request {
  const { headers, body } = buildWorkflowCall(call as Task, "msg", {
    hmac,
    keys: [parseSecret(key) as never],
    wallMs: Date.now(),
    version: "0",
  });
  return new Request("http://app.example.com/", { method: "POST", headers, body: new Uint8Array(body) });
}

/** The same handler behind `node:http`, which is called without a `Request`. */
const onNode =
  (handler: PushHandler): PushHandler =>
  async (given) => {
    const listener = toNodeHandler(handler);
    const http = createServer((request, response) => void listener(request, response)).listen(0, "127.0.0.1");
    await once(http, "listening");
    closers.push(() => {
      http.close();
      http.closeAllConnections();
    });
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`;
    return fetch(url, { method: "POST", headers: given.headers, body: await given.arrayBuffer(), signal: given.signal });
  };

describe.each([
  ["as a route handler", (handler: PushHandler) => handler],
  ["on node:http", onNode],
])("serve %s", (_, on) => {
  const served = (...given: Parameters<typeof serve>): PushHandler => on(serve(...given));
  const handler = served([double, large, paged], { signingSecret: secret, buildId: "b-1" });
  const answer = async (call: Task | SyncRequest | object) => (await handler(request(call))).json() as Promise<Record<string, unknown>>;

  it("W2: a sync is answered with the workflows and the build", async () => {
    expect(await answer({ type: "sync", protocol: "1.2", appId: "a" })).toEqual({
      protocol: "1.2",
      buildId: "b-1",
      sdk: expect.stringMatching(/^millrace-typescript\//),
      workflows: [{ name: "double", timeoutMs: 3_600_000, concurrency: 3 }, { name: "large" }, { name: "paged" }],
    });
  });

  it("W2: without a name given to it, the build is named by the functions' texts and by what is announced with them", async () => {
    const built = async (workflows: Parameters<typeof serve>[0]) => {
      const made = await served(workflows, { allowUnsigned: true })(new Request("http://x/", { method: "POST", body: '{"type":"sync"}' }));
      return ((await made.json()) as { buildId: string }).buildId;
    };
    expect(await built([double, large])).toBe(await built([large, double]));
    expect(await built([double])).not.toBe(await built([workflow("double", () => 1)]));
    expect(await built([double])).not.toBe(await built([workflow("double", double.run, { concurrency: 2 })]));
    expect(await built([double])).not.toBe(await built([workflow("double", double.run, { timeout: "1h" })]));
    vi.stubEnv("MILLRACE_BUILD_ID", "from-ci");
    expect(await built([double])).toBe("from-ci");
  });

  it("W6: a task is executed: its step is recorded first, then its answer is the response", async () => {
    expect(await answer(task("double"))).toEqual({ protocol: "1.2", buildId: "b-1", status: "completed", output: "42" });
    expect(server.requests.map(({ path }) => path)).toEqual(["/steps"]);
    expect(server.requests[0]?.json()).toMatchObject({
      executions: [{ token: "token", steps: [{ id: "double", result: "42", attempt: 1 }] }],
    });
  });

  it("W6: an answer over 1 MiB is reported by a call of its own", async () => {
    expect(await answer(task("large"))).toMatchObject({ status: "ended" });
    expect(server.requests.map(({ path }) => path)).toEqual(["/end"]);
    expect(server.requests[0]?.json()).toMatchObject({ buildId: "b-1", executions: [{ token: "token", answer: { status: "completed" } }] });
  });

  it("W6: the rest of a long journal is fetched before anything is replayed", async () => {
    const journal = { steps: [{ id: "a", type: "run" as const, status: "completed" as const, order: 1, result: '"a"' }], next: "1" };
    expect(await answer(task("paged", { journal }))).toMatchObject({ status: "completed", output: '["a","b"]' });
    expect(server.requests.map(({ path }) => path)).toEqual(["/journal"]);
  });

  it("W6, W2: an unknown workflow and an unknown major block the run, and say so", async () => {
    expect(await answer(task("triple"))).toMatchObject({ status: "blocked", reason: { code: "workflow_not_found" } });
    expect(await answer(task("double", { protocol: "2.0" }))).toMatchObject({
      status: "blocked",
      reason: { code: "protocol_unsupported" },
    });
    expect(await answer(task("double", { protocol: "1.9" }))).toMatchObject({ status: "completed" });
  });

  it("P4, W6: what is not genuine is 401, whoever forged it; both secrets count while one takes over", async () => {
    expect((await handler(request(task("double"), secretOf(66)))).status).toBe(401);
    const bare = new Request("http://x/", { method: "POST", body: JSON.stringify(task("double")) });
    expect((await handler(bare)).status).toBe(401);
    const changed = request(task("double"));
    const forged = new Request("http://x/", { method: "POST", headers: changed.headers, body: JSON.stringify(task("large")) });
    expect((await handler(forged)).status).toBe(401);
    expect(server.requests).toHaveLength(0);
    vi.stubEnv("MILLRACE_WORKFLOWS_SIGNING_SECRET", `${secretOf(67)}, ${secret}`);
    expect((await served([double])(request(task("double")))).status).toBe(200);
  });

  it("W6: without a secret nothing is served, and the log says what to set", async () => {
    const told = vi.spyOn(console, "error").mockImplementation(() => {});
    expect((await served([double])(request(task("double")))).status).toBe(500);
    expect((await served([double], { signingSecret: ["", ""] })(request(task("double")))).status).toBe(500);
    expect(told).toHaveBeenCalledTimes(2);
    expect(told.mock.calls[0]?.[0]).toContain("MILLRACE_WORKFLOWS_SIGNING_SECRET");
  });

  it("W6: what is no call of the protocol is 400", async () => {
    expect((await handler(request({ type: "dance" }))).status).toBe(400);
    const open = served([double], { allowUnsigned: true });
    expect((await open(new Request("http://x/", { method: "POST", body: "{" }))).status).toBe(400);
  });

  it("W6: a body of more than 32 MiB is 413, and nothing of it is looked at", async () => {
    const long = new Request("http://x/", { method: "POST", body: new Uint8Array(32 * 1024 * 1024 + 1) });
    expect((await handler(long)).status).toBe(413);
  });

  it("W6, W9: a call whose caller has hung up is lost: what was begun hears of it, and nothing more is carried out", async () => {
    const ran: string[] = [];
    let begun = (): void => {};
    let told = (): void => {};
    const [beginning, telling] = [new Promise<void>((resolve) => (begun = resolve)), new Promise<void>((resolve) => (told = resolve))];
    const patient = workflow("patient", async ({ step }) => {
      await step.run("first", async ({ signal }) => {
        signal.addEventListener("abort", () => told());
        begun();
        await telling;
      });
      await step.run("second", () => ran.push("second"));
    });
    const hangUp = new AbortController();
    const call = new Request(request(task("patient")), { signal: hangUp.signal });
    const answered = served([patient], { signingSecret: secret })(call).catch(() => {});
    await beginning;
    hangUp.abort();
    await telling;
    await answered;
    expect(ran).toEqual([]);
    expect(server.requests).toHaveLength(0);
  });

  it("W18: two workflows of one name are a mistake", () => {
    expect(() => serve([double, workflow("double", () => 1)])).toThrow("workflows: two have the name double");
    expect(() => workflow("no spaces", () => 1)).toThrow("name: must be 1 to 128");
    expect(() => workflow("w", () => 1, { concurrency: 0 })).toThrow("concurrency: must be a whole number from 1 to 1000, got 0");
  });
});
