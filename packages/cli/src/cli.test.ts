import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, type DevServer, type Ended, newDirectory, runCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
const millrace = (args: readonly string[], stdin?: string): Promise<Ended> => runCommand(args, { cwd: server.cwd, stdin });
async function json<T>(args: readonly string[]): Promise<T> {
  const { code, stdout, stderr } = await millrace([...args, "--json"]);
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as T;
}

beforeAll(async () => {
  server = await startDev();
});
afterAll(async () => {
  await server.stop();
});

describe("millrace queues", { timeout: 120_000 }, () => {
  it("A17: makes, shows, changes, lists and deletes a queue by its name, beside a dev server without any set-up", async () => {
    const made = await json<{ id: string }>(["queues", "create", "life", "--visibility-timeout", "5m", "--rate-limit", "100/10s"]);
    expect(made).toMatchObject({
      name: "life",
      type: "standard",
      visibilityTimeoutSeconds: 300,
      rateLimit: { count: 100, periodSeconds: 10 },
    });
    await json(["queues", "create", "life-dead"]);
    const policy = ["--dead-letter-queue", "life-dead", "--max-receive-count", "4", "--no-rate-limit"];
    const changed = await json<{ redrivePolicy: unknown }>(["queues", "update", "life", ...policy]);
    expect(changed).toMatchObject({ visibilityTimeoutSeconds: 300, rateLimit: null, redrivePolicy: { maxReceiveCount: 4 } });
    expect(await json(["queues", "get", made.id])).toMatchObject({ name: "life" });
    const listed = await json<{ queues: { name: string }[] }>(["queues", "list"]);
    expect(listed.queues.map(({ name }) => name)).toEqual(expect.arrayContaining(["life", "life-dead"]));
    expect((await millrace(["queues", "delete", "life-dead", "--yes"])).code).toBe(5);
    expect((await millrace(["queues", "delete", "life", "--yes"])).code).toBe(0);
    expect((await millrace(["queues", "get", "life"])).code).toBe(4);
  });

  it("A17: prints tab-separated rows without colour when piped, also with FORCE_COLOR in the air", async () => {
    await millrace(["queues", "create", "piped"]);
    const { stdout } = await runCommand(["queues", "list"], { cwd: server.cwd, env: { FORCE_COLOR: "3" } });
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toBe("NAME\tTYPE\tSTATE\tVISIBILITY\tRETENTION\tID");
    expect(lines.find((line) => line.startsWith("piped\t"))).toMatch(/^piped\tstandard\tactive\t1m\t4d\t[0-9a-f-]{36}$/);
    expect(stdout).not.toContain("\u001b");
  });

  it("A17, W16: bounds what a project may send a day, and says so when it is over", async () => {
    const name = "limited";
    await ask(server, "POST", "/v1/organizations/dev/projects", { name });
    expect(await json(["projects", "update", "--project", name, "--max-messages-per-day", "1"])).toMatchObject({ maxMessagesPerDay: 1 });
    expect((await millrace(["queues", "create", "orders", "--project", name])).code).toBe(0);
    expect((await millrace(["messages", "send", "orders", "one", "--project", name])).code).toBe(0);
    const refused = await millrace(["messages", "send", "orders", "two", "--project", name]);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toMatch(/quota of messages is used up until midnight UTC/);
    expect((await millrace(["projects", "list"])).stdout).toMatch(/^limited\t[0-9a-f-]{36}\t1 of 1 messages today$/m);
    expect((await millrace(["projects", "get", "--project", name])).stdout).toMatch(/^quota\t1 of 1 messages today$/m);
    expect(await json(["projects", "update", "--project", name, "--no-max-messages-per-day"])).toMatchObject({ maxMessagesPerDay: null });
    expect((await millrace(["projects", "update"])).code).toBe(2);
    expect((await millrace(["messages", "send", "orders", "three", "--project", name])).code).toBe(0);
  });

  it("A17, Q16: pauses and resumes a queue, and shows its stats", async () => {
    await millrace(["queues", "create", "pausing"]);
    await millrace(["messages", "send", "pausing", "one"]);
    expect(await json(["queues", "pause", "pausing"])).toMatchObject({ paused: true });
    expect((await millrace(["messages", "receive", "pausing"])).stdout).not.toContain("one");
    expect(await json(["queues", "resume", "pausing"])).toMatchObject({ paused: false });
    expect(await json(["queues", "stats", "pausing"])).toMatchObject({ ready: 1, sent: 1, dead: 0 });
  });

  it("A17: what cannot be undone is not done without a terminal unless --yes is given, and says so", async () => {
    await millrace(["queues", "create", "kept"]);
    await millrace(["messages", "send", "kept", "one"]);
    for (const args of [
      ["queues", "purge", "kept"],
      ["queues", "delete", "kept"],
      ["queues", "subscriptions", "delete", "kept"],
      ["keys", "delete", "dev"],
    ]) {
      const { code, stderr } = await millrace(args);
      expect([code, stderr]).toEqual([2, expect.stringContaining("--yes")]);
    }
    expect(await json(["queues", "stats", "kept"])).toMatchObject({ ready: 1 });
    expect(await json(["queues", "purge", "kept", "--yes"])).toEqual({ purgedMessages: 1 });
  });
});

describe("millrace messages", { timeout: 120_000 }, () => {
  it("A17: sends, peeks, receives and acknowledges; what was acknowledged is gone, and its receipt answers 4", async () => {
    await millrace(["queues", "create", "post"]);
    const sent = await json<{ messages: { messageId: string }[] }>(["messages", "send", "post", "hello", "--attribute", "a=b=c"]);
    expect(await json(["messages", "peek", "post"])).toMatchObject({
      messages: [{ body: "hello", state: "ready", attributes: { a: "b=c" } }],
    });
    const received = await json<{ messages: { messageId: string; receipt: string }[] }>(["messages", "receive", "post", "--wait", "5s"]);
    expect(received.messages).toMatchObject([{ messageId: sent.messages[0]?.messageId, body: "hello" }]);
    const receipt = received.messages[0]?.receipt ?? "";
    expect((await millrace(["messages", "ack", "post", receipt])).code).toBe(0);
    expect((await millrace(["messages", "ack", "post", receipt])).code).toBe(4);
    expect((await millrace(["messages", "ack", "post", "made-up"])).code).toBe(5);
  });

  it("A17: when some receipts are good and some are not, it ends with 7 and names the bad ones", async () => {
    await millrace(["queues", "create", "partly"]);
    await millrace(["messages", "send", "partly", "one"]);
    const received = await json<{ messages: { receipt: string }[] }>(["messages", "receive", "partly"]);
    const { code, stderr } = await millrace(["messages", "ack", "partly", received.messages[0]?.receipt ?? "", "made-up"]);
    expect(code).toBe(7);
    expect(stderr).toContain("made-up: receipt_mismatch");
  });

  it("Q5: reads bodies from standard input: one whole, or every line one", async () => {
    await millrace(["queues", "create", "input"]);
    await millrace(["messages", "send", "input", "--file", "-"], "two\nlines\n");
    const lines = Array.from({ length: 23 }, (_, i) => `line ${i}`).join("\n");
    const { stdout } = await millrace(["messages", "send", "input", "--file", "-", "--lines"], `${lines}\n`);
    expect(stdout.trimEnd().split("\n")).toHaveLength(23);
    const { messages } = await json<{ messages: { body: string }[] }>(["messages", "peek", "input", "--limit", "50"]);
    expect(messages.map(({ body }) => body).sort()).toEqual(["two\nlines\n", ...lines.split("\n")].sort());
  });

  it("A17, Q14: sends dead letters back and watches it done", async () => {
    await millrace(["queues", "create", "dead-end"]);
    await millrace(["queues", "create", "work", "--dead-letter-queue", "dead-end", "--max-receive-count", "1"]);
    await millrace(["messages", "send", "work", "poison"]);
    const base = `/v1/organizations/dev/projects/dev/queues/work/messages`;
    const { body } = await ask(server, "POST", `${base}/receive`, {});
    const receipt = (body as { messages: { receipt: string }[] }).messages[0]?.receipt;
    await ask(server, "POST", `${base}/visibility`, { receipts: [{ receipt, visibilityTimeoutSeconds: 0 }] });
    expect((await millrace(["messages", "redrive", "dead-end"])).code).toBe(2);
    const job = await millrace(["messages", "redrive", "dead-end", "--all", "--watch", "--json"]);
    expect([job.code, JSON.parse(job.stdout)]).toMatchObject([0, { state: "done", selected: 1, moved: 1, remaining: 0 }]);
    expect((await json<{ messages: unknown[] }>(["messages", "receive", "work", "--wait", "10s"])).messages).toMatchObject([
      { body: "poison" },
    ]);
  });
});

describe("millrace queues subscriptions", { timeout: 120_000 }, () => {
  it("A17, P2: prints the signing secret once when made and once when rotated, and in no other command", async () => {
    await millrace(["queues", "create", "pushed"]);
    const url = "http://127.0.0.1:9/hook";
    const flags = ["--url", url, "--timeout", "5s", "--batch-size", "3", "--concurrency", "4", "--paused"];
    const made = await millrace(["queues", "subscriptions", "create", "pushed", ...flags]);
    expect(made.code).toBe(0);
    const [secret = ""] = /whsec_[A-Za-z0-9_-]{43}/.exec(made.stdout) ?? [];
    expect(secret).not.toBe("");
    expect(made.stderr).toContain("once");
    const shown = await json<{ signingSecret: null }>(["queues", "subscriptions", "get", "pushed"]);
    expect(shown).toMatchObject({
      signingSecret: null,
      batchSize: 3,
      maxConcurrency: 4,
      state: "paused",
      target: { url, timeoutSeconds: 5 },
    });
    const rotated = await json<{ signingSecret: string }>(["queues", "subscriptions", "rotate-secret", "pushed"]);
    expect(rotated.signingSecret).toMatch(/^whsec_/);
    for (const args of [
      ["get", "pushed"],
      ["list"],
      ["list", "--json"],
      ["update", "pushed", "--concurrency", "5"],
      ["resume", "pushed", "--json"],
      ["pause", "pushed"],
    ]) {
      const { code, stdout, stderr } = await millrace(["queues", "subscriptions", ...args]);
      expect(code).toBe(0);
      expect(stdout + stderr).not.toContain("whsec_");
    }
  });

  it("A17, P1: a second subscription is a conflict; a queue without one answers 4 and says how to make one", async () => {
    await millrace(["queues", "create", "single"]);
    const create = ["queues", "subscriptions", "create", "single", "--url", "http://localhost:9/hook", "--paused"];
    expect((await millrace(create)).code).toBe(0);
    expect((await millrace(create)).code).toBe(5);
    expect((await millrace(["queues", "subscriptions", "delete", "single", "--yes"])).code).toBe(0);
    const gone = await millrace(["queues", "subscriptions", "get", "single"]);
    expect([gone.code, gone.stderr]).toEqual([4, expect.stringContaining("--url")]);
  });
});

describe("millrace audit", { timeout: 120_000 }, () => {
  it("A7, A17: lists who did what with which outcome, newest first", async () => {
    await millrace(["queues", "create", "audited"]);
    await millrace(["queues", "create", "audited"]);
    const { calls } = await json<{ calls: { operation: string; status: number; code: string | null }[] }>(["audit", "--limit", "2"]);
    expect(calls).toMatchObject([
      { operation: "CreateQueue", status: 409, code: "queue_exists" },
      { operation: "CreateQueue", status: 201, code: null },
    ]);
    const { stdout } = await millrace(["audit", "--limit", "1"]);
    expect(stdout).toMatch(/^AT\tKEY\tFROM\tOPERATION\tOUTCOME\tPATH\n\S+Z\tdev\t127\.0\.0\.1\tCreateQueue\tqueue_exists\t\/v1\//);
  });
});

describe("millrace keys", { timeout: 120_000 }, () => {
  it("A5, A17: a key is printed once, works, is listed without its secret, and stops working when deleted by name", async () => {
    const made = await json<{ secret: string }>(["keys", "create", "sender", "--allow", "queues.queues.list", "--expires", "1d"]);
    expect(made.secret).toMatch(/^mlr_/);
    const listed = await millrace(["keys", "list"]);
    expect(listed.stdout).toContain("sender");
    expect(listed.stdout + listed.stderr).not.toContain(made.secret);
    const withKey = (args: readonly string[]) => runCommand(args, { cwd: server.cwd, env: { MILLRACE_API_KEY: made.secret } });
    expect((await withKey(["queues", "list"])).code).toBe(0);
    const refused = await withKey(["queues", "create", "forbidden"]);
    expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining("queues.queues.create")]);
    expect((await millrace(["keys", "delete", "sender", "--yes"])).code).toBe(0);
    expect((await withKey(["queues", "list"])).code).toBe(3);
  });
});

describe("exit codes", { timeout: 120_000 }, () => {
  it("A17: what is not understood ends with 2, before anything is asked of a server", async () => {
    for (const args of [
      ["bogus"],
      ["queues", "lst"],
      ["queues", "list", "--jsn"],
      ["queues", "create"],
      ["queues", "create", "x", "--delay", "1w"],
    ]) {
      const { code, stdout, stderr } = await millrace(args);
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(/error:/);
    }
    expect((await millrace(["queues", "create", "no spaces"])).code).toBe(2);
  });

  it("A17: a server that is not there ends with 6 and says what to do", async () => {
    const env = { MILLRACE_URL: "http://127.0.0.1:9", MILLRACE_API_KEY: "k", MILLRACE_ORGANIZATION: "dev", MILLRACE_PROJECT: "dev" };
    const { code, stderr } = await runCommand(["queues", "list"], { cwd: newDirectory(), env });
    expect([code, stderr]).toEqual([6, expect.stringContaining("millrace dev")]);
  });

  it("A17: finds the only organization and project that the key reaches; where there are several it asks which", async () => {
    const elsewhere = newDirectory();
    const { secret } = await json<{ secret: string }>(["keys", "create", "narrow", "--allow", "queues.*"]);
    await ask(server, "POST", "/v1/organizations", { name: "second" });
    const list = (key: string) =>
      runCommand(["queues", "list"], { cwd: elsewhere, env: { MILLRACE_URL: server.url, MILLRACE_API_KEY: key } });
    expect((await list(secret)).code).toBe(0);
    const { code, stderr } = await list(server.apiKey);
    expect([code, stderr]).toEqual([2, expect.stringContaining("Give --organization")]);
    expect(stderr).toContain("dev, second");
  });

  it("A5: a wrong key ends with 3", async () => {
    const { code, stderr } = await runCommand(["queues", "list"], { cwd: server.cwd, env: { MILLRACE_API_KEY: "mlr_wrong" } });
    expect(code).toBe(3);
    expect(stderr).not.toContain("mlr_wrong");
  });

  it("A17: --help ends with 0 and has examples, for every command that does something", async () => {
    const { code, stdout } = await millrace(["queues", "subscriptions", "create", "--help"]);
    expect(code).toBe(0);
    for (const flag of ["--url", "--timeout", "--batch-size", "--concurrency", "--paused", "Examples:"]) expect(stdout).toContain(flag);
  });
});
