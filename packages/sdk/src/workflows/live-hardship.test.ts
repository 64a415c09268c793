import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { platform } from "../runtime.ts";
import { type LiveWorkflows, liveWorkflows } from "./live.fixture.ts";
import { QueuesClient } from "./queues-client.ts";
import { type AnyWorkflow, workflow } from "./workflow.ts";

let world: LiveWorkflows;
beforeAll(async () => {
  world = await liveWorkflows();
});
afterAll(() => world.close());

/** What a step waits between its tries is real time. */
const retry = { delay: 0 };
const queue = async (name: string, fifo: boolean): Promise<string> =>
  (await world.api<{ id: string }>("POST", "/queues", { name, type: fifo ? "fifo" : "standard" })).id;

interface Peeked {
  messages: { messageId: string; body: string; seq?: string }[];
}

describe("a send whose answer is lost", () => {
  it.each([
    ["standard", false],
    ["FIFO", true],
  ])("W16, WF-15: ten messages on a %s queue are stored once, under the ids that the step records", async (kind, fifo) => {
    const queueId = await queue(`lost-${kind}`, fifo);
    const answers: unknown[] = [];
    // Each answer of the first four requests is lost on its way back: the client's own tries, and then the step's.
    const client = new QueuesClient({
      ...world.connection,
      runtime: {
        wait: async () => {},
        async fetch(url, init) {
          const answer = await platform.fetch(url, init);
          answers.push(await answer.clone().json());
          if (answers.length <= 5) throw new TypeError("the connection broke");
          return answer;
        },
      },
    });
    const messages = Array.from({ length: 10 }, (_, n) => ({ body: `message ${n}`, ...(fifo ? { groupId: "g" } : {}) }));
    const tested = workflow("send", ({ step }) => step.sendToQueue("send", client, queueId, messages), { retry });
    const app = `sends-${kind}`;
    await world.push(app, [tested]);
    const id = await world.start(app, "send");
    await world.run(app, id, ({ status }) => status !== "queued");
    const { output } = await world.ended(app, id);
    const stored = await world.api<Peeked>("GET", `/queues/${queueId}/messages?limit=100`);
    expect(stored.messages.map(({ body }) => body).sort()).toEqual(messages.map(({ body }) => body).sort());
    const sent = output as { messageId: string; seq?: string }[];
    expect(sent.map(({ messageId }) => messageId).sort()).toEqual(stored.messages.map(({ messageId }) => messageId).sort());
    expect(answers).toHaveLength(6);
    for (const answer of answers)
      expect((answer as { messages: { messageId: string }[] }).messages.map(({ messageId }) => messageId)).toEqual(
        sent.map(({ messageId }) => messageId),
      );
    expect(sent.every(({ seq }) => (seq !== undefined) === fifo)).toBe(true);
    expect(await world.steps(app, id)).toMatchObject([{ id: "send", type: "send", status: "completed", attempt: 2 }]);
  });

  it("W16, WF-15: another batch under the step's key fails the step at once with the server's conflict", async () => {
    const queueId = await queue("changed", false);
    let tries = 0;
    // What is sent is not the same every time: the mistake that the key finds out.
    const messages = [{ body: "first" }];
    const client = new QueuesClient({
      ...world.connection,
      runtime: {
        wait: async () => {},
        async fetch(url, init) {
          tries += 1;
          const answer = await platform.fetch(url, init);
          if (tries > 4) return answer;
          if (tries === 4) messages.splice(0, 1, { body: "second" });
          throw new TypeError("the connection broke");
        },
      },
    });
    const tested = workflow("send", ({ step }) => step.sendToQueue("send", client, queueId, messages), { retry });
    await world.push("sends-changed", [tested]);
    const id = await world.start("sends-changed", "send");
    expect(await world.ended("sends-changed", id)).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("idempotency_conflict") },
    });
    const stored = await world.api<Peeked>("GET", `/queues/${queueId}/messages`);
    expect(stored.messages).toMatchObject([{ body: "first" }]);
  });
});

describe("code that changes under a sleeping run", () => {
  it("W8, WF-11: a build that lacks a recorded step stops the run, which names both steps; the build before lets it go on", async () => {
    const ran: string[] = [];
    const version = (charge: string): AnyWorkflow =>
      workflow("order", async ({ step }) => {
        await step.run(charge, () => void ran.push(charge));
        await step.sleep("rest", "1h");
        await step.run("ship", () => void ran.push("ship"));
      });
    let deployed: [code: AnyWorkflow, build: string] = [version("charge"), "v1"];
    await world.push("changing", () => [deployed[0]], {
      get buildId() {
        return deployed[1];
      },
    });
    const id = await world.start("changing", "order");
    await world.run("changing", id, ({ status }) => status === "waiting");
    deployed = [version("pay"), "v2"];
    await world.api("POST", "/apps/changing/sync");
    world.server.advance(3_600_000);
    const stopped = await world.run("changing", id, ({ reason }) => reason !== null);
    expect(stopped).toMatchObject({
      status: "waiting",
      reason: {
        code: "nondeterminism",
        message: "the journal has charge (run), which the code did not come to; it came to pay (run)",
      },
    });
    // No hot loop: it is not executed again before something changes.
    world.server.advance(600_000);
    expect(await world.run("changing", id, () => true)).toMatchObject({ executions: stopped.executions });
    expect(ran).toEqual(["charge"]);
    deployed = [version("charge"), "v3"];
    await world.api("POST", "/apps/changing/sync");
    expect(await world.ended("changing", id)).toMatchObject({ status: "completed" });
    expect(ran).toEqual(["charge", "ship"]);
  });
});

describe("a worker that stops", () => {
  it("W18, W6: ends the step that it began, records it, and gives the run back for the next worker", async () => {
    let finish: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let begun: () => void = () => {};
    const beginning = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const ran: string[] = [];
    const tested = workflow("long", async ({ step }) => {
      await step.run("first", async () => {
        ran.push("first");
        begun();
        await held;
      });
      await step.run("second", () => void ran.push("second"));
      return "done";
    });
    const first = await world.pull("draining", [tested]);
    const id = await world.start("draining", "long");
    await beginning;
    const stopping = first.stop();
    finish();
    expect(await stopping).toBe(1);
    expect(ran).toEqual(["first"]);
    expect(await world.steps("draining", id)).toMatchObject([{ id: "first", status: "completed" }]);
    await world.pull("draining", [tested]);
    expect(await world.ended("draining", id)).toMatchObject({ status: "completed", output: "done" });
    expect(ran).toEqual(["first", "second"]);
  });

  it("W18: a worker without rights ends with the refusal; without an app it says what to set", async () => {
    const { worker } = await import("./worker.ts");
    vi.stubEnv("MILLRACE_APP", "");
    await expect(worker({ ...world.connection, workflows: [] })).rejects.toThrow("No app. Set MILLRACE_APP, or pass app.");
    await expect(worker({ ...world.connection, apiKey: "mlr_wrong", app: "draining", workflows: [] })).rejects.toMatchObject({
      status: 401,
    });
    vi.unstubAllEnvs();
  });
});
