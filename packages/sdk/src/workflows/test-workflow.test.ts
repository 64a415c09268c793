import { describe, expect, it } from "vitest";
import { CancelledError } from "./errors.ts";
import { QueuesClient } from "./queues-client.ts";
import { testWorkflow } from "./test-workflow.ts";
import { workflow } from "./workflow.ts";

const queues = new QueuesClient({ apiKey: "mlr_none", organizationId: "o", projectId: "p", baseUrl: "http://127.0.0.1:1" });
const order = workflow<{ orderId: number }, string>("order", async ({ input, step }) => {
  await step.run("place", () => input.orderId);
  const paid = await step.waitForMessage("paid", { queueId: "payments", key: `order:${input.orderId}`, timeoutSeconds: 86_400 });
  if (paid === null) return step.run("cancel", () => "cancelled");
  await step.sendToQueue("notify", queues, "shipping", [{ body: paid.body }]);
  return step.run("ship", () => `shipped for ${paid.body}`);
});

/** A clock that says how far it was moved. */
function clockFrom(start: number) {
  let now = start;
  return {
    now: () => now,
    advance(ms: number) {
      now += ms;
    },
  };
}

describe("testWorkflow", () => {
  it("W18: runs to the end with the messages it is given, and keeps what would be sent", async () => {
    const run = await testWorkflow(order, {
      input: { orderId: 7 },
      messages: [
        { queueId: "payments", key: "order:8", body: "another's" },
        { queueId: "payments", key: "order:7", body: "19.99" },
      ],
    });
    expect(run).toMatchObject({ status: "completed", output: "shipped for 19.99", error: undefined });
    expect(run.sent).toMatchObject(
      [{ queueId: "shipping", messages: [{ body: "19.99" }], idempotencyKey: /^wfq_[0-9a-f]{64}$/ }].map((sent) => ({
        ...sent,
        idempotencyKey: expect.stringMatching(sent.idempotencyKey),
      })),
    );
    expect(run.steps.map(({ id, type, status }) => `${id} ${type} ${status}`)).toEqual([
      "place run completed",
      "paid wait completed",
      "notify send completed",
      "ship run completed",
    ]);
  });

  it("W18: sleeps and timeouts take no time, but move the clock", async () => {
    const clock = clockFrom(1_000_000);
    const run = await testWorkflow(order, { input: { orderId: 7 }, clock });
    expect(run).toMatchObject({ status: "completed", output: "cancelled", executions: 2 });
    expect(clock.now()).toBe(1_000_000 + 86_400_000);
    const now = await testWorkflow(
      async ({ step }) => {
        await step.sleep("a", "2h");
        await step.sleepUntil("b", 1_000_000 + 10_000_000);
        return step.now();
      },
      { clock: clockFrom(1_000_000) },
    );
    expect(now.output).toBe(new Date(11_000_000).toISOString());
  });

  it("W18, W15: a message after some time comes to who waits then, or looks back", async () => {
    const waits = (lookback: number) =>
      testWorkflow(
        async ({ step }) => {
          await step.sleep("first", 60);
          return step.waitForMessage("m", { queueId: "q", key: "k", timeoutSeconds: 30, lookback });
        },
        { messages: [{ queueId: "q", key: "k", body: "early", after: 10 }] },
      );
    expect((await waits(0)).output).toBeNull();
    expect((await waits(50)).output).toMatchObject({ body: "early" });
    expect((await waits(49)).output).toBeNull();
  });

  it("W18, W14: a message comes to everybody who waits when it comes, and to nobody else", async () => {
    const on = { queueId: "q", key: "k", timeoutSeconds: 60 };
    const run = await testWorkflow(
      async ({ step }) => {
        const both = await Promise.all([step.waitForMessage("a", on), step.waitForMessage("b", { ...on, lookback: 60 })]);
        return [...both, await step.waitForMessage("c", { ...on, lookback: 60 })].map((message) => message?.body);
      },
      { messages: [{ queueId: "q", key: "k", body: "once", after: 10 }] },
    );
    expect(run.output).toEqual(["once", "once", null]);
  });

  it("W18, W3: a run whose waits take longer than its time ends as timedOut", async () => {
    const slow = (timeout?: "1h") => workflow("slow", async ({ step }) => step.sleep("long", "40d"), { timeout });
    const clock = clockFrom(0);
    expect(await testWorkflow(slow("1h"), { clock })).toMatchObject({
      status: "timedOut",
      error: { code: "timeout", message: "the run took longer than 3600 s" },
      steps: [{ id: "long", status: "cancelled" }],
    });
    expect(clock.now()).toBe(3_600_000);
    expect(await testWorkflow(slow())).toMatchObject({ status: "timedOut", output: undefined });
  });

  it("W18: other workflows that it starts are what the test says", async () => {
    const parent = workflow("parent", async ({ step }) => {
      const sum = await step.startRun<number>("sum", "add", { a: 1, b: 2 });
      const { runId } = await step.startRun("beside", "log", sum, { wait: false });
      const failed = await step.startRun("bad", "fails", null).catch((error: Error) => error.message);
      const missing = await step.startRun("missing", "nowhere", null).catch((error: Error) => error.message);
      return { sum, started: runId.length > 0, failed, missing };
    });
    const run = await testWorkflow(parent, {
      runs: {
        add: (input) => (input as { a: number; b: number }).a + (input as { b: number }).b,
        log: () => null,
        fails: () => {
          throw new Error("child failed");
        },
      },
    });
    expect(run.output).toEqual({
      sum: 3,
      started: true,
      failed: "child failed",
      missing: "testWorkflow was given no run of nowhere: add it to runs",
    });
  });

  it("W18, W10: a run is cancelled on request, in its longest sleep", async () => {
    const run = await testWorkflow(
      async ({ step }) => {
        try {
          await step.sleep("long", "365d");
        } catch (error) {
          await step.run("release", () => error instanceof CancelledError);
          throw error;
        }
      },
      { cancelAfter: "1d" },
    );
    expect(run).toMatchObject({ status: "cancelled", error: { name: "CancelledError" } });
    expect(run.steps.at(-1)).toMatchObject({ id: "release", result: true });
  });

  it("W18, W8: a function that is not the same every time does not pass", async () => {
    let calls = 0;
    await expect(testWorkflow(() => ++calls)).rejects.toThrow("a replay of the run ended with 2 instead of 1");
    let odd = 0;
    await expect(
      testWorkflow(async ({ step }) => {
        await step.run(`step ${++odd}`, () => 1);
        await step.sleep("nap", 1);
      }),
    ).rejects.toThrow("the journal has step 1 (run), which the code did not come to; it came to step 2 (run)");
  });

  it("W18: a run that fails is told with its error", async () => {
    await expect(
      testWorkflow(async ({ step }) =>
        step.run(
          "a",
          () => {
            throw new Error("no");
          },
          { retry: 0 },
        ),
      ),
    ).resolves.toMatchObject({
      status: "failed",
      error: { message: "no" },
    });
  });
});
