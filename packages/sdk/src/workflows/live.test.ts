import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RetryLaterError } from "../outcome.ts";
import type { StepContext } from "./attempt.ts";
import { CancelledError } from "./errors.ts";
import { type LiveWorkflows, liveWorkflows } from "./live.fixture.ts";
import { workflow } from "./workflow.ts";

let world: LiveWorkflows;
let queueId: string;
beforeAll(async () => {
  world = await liveWorkflows();
  ({ id: queueId } = await world.api<{ id: string }>("POST", "/queues", { name: "payments" }));
});
afterAll(() => world.close());

const calls: string[] = [];
const add = workflow<{ a: number; b: number }, number>("add", async ({ input, step }) =>
  step.run("sum", ({ stepId }) => {
    calls.push(stepId);
    return input.a + input.b;
  }),
);
const everything = workflow<{ orderId: number }, unknown>("everything", async ({ input, step, run }) => {
  const at = await step.now();
  const id = await step.uuid();
  const chance = await step.random();
  const parts = await Promise.all([1, 2, 3].map((n) => step.run("part", () => n * input.orderId)));
  let tries = 0;
  const flaky = await step.run(
    "flaky",
    ({ attempt }) => {
      tries += 1;
      if (attempt < 2) throw new Error("not yet");
      return attempt;
    },
    { retry: { delay: 0 } },
  );
  await step.sleep("rest", "1s");
  const sum = await step.startRun("sum up", add, { a: parts[0] ?? 0, b: 1 });
  const { runId } = await step.startRun("beside", add, { a: 1, b: 1 }, { wait: false });
  const nothing = await step.waitForMessage("paid", { queueId, key: `order:${input.orderId}`, timeoutSeconds: 1 });
  return {
    at: at.getTime() > 0,
    id: id.length,
    chance: chance < 1,
    parts,
    flaky,
    tries,
    sum,
    runId: runId.length,
    nothing,
    run: run.attempt,
  };
});
const cancellable = workflow("cancellable", async ({ step }) => {
  try {
    await step.sleep("long", "30d");
  } catch (error) {
    await step.run("cleanup", () => error instanceof CancelledError);
    throw error;
  }
});

const patient = workflow("patient", async ({ step }) => {
  let tries = 0;
  return step.run(
    "asked too early",
    ({ attempt }) => {
      tries += 1;
      if (tries === 1) throw new RetryLaterError(0);
      return { tries, attempt };
    },
    { retry: 0 },
  );
});

/** Runs whose endless step was begun. */
const busy = new Set<string>();
const endless = workflow("busy", async ({ step }) => {
  const forever = ({ signal, runId }: StepContext) => {
    busy.add(runId);
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
  };
  try {
    await step.run("endless", forever);
  } catch (error) {
    await step.run("undo", () => true);
    throw error;
  }
});
const beside = workflow<{ queueId: string }, unknown[]>("beside", async ({ input, step }) => {
  let stop = (_: string): void => {};
  return Promise.all([
    step.waitForMessage("word", { queueId: input.queueId, key: "word", timeoutSeconds: 3600 }).then((message) => {
      stop(`told to ${message?.body}`);
      return message?.body;
    }),
    step.run("until told", () => new Promise<string>((resolve) => (stop = resolve))),
  ]);
});

describe.each(["push", "pull"] as const)("workflows by %s", (mode) => {
  const app = `app-${mode}`;
  beforeAll(() => world[mode](app, [add, everything, cancellable, patient, endless, beside]) as Promise<unknown>);

  it("W7: a first try that asks for a later one is not counted", async () => {
    const id = await world.start(app, "patient", null);
    expect(await world.ended(app, id)).toMatchObject({ status: "completed", output: { tries: 2, attempt: 1 } });
  });

  it("W6, W18: a run is executed and answers its output", async () => {
    const id = await world.start(app, "add", { a: 2, b: 40 });
    expect(await world.ended(app, id)).toMatchObject({ status: "completed", output: 42 });
  });

  it("W7: every kind of step is carried out, recorded, and survives the executions between", async () => {
    const id = await world.start(app, "everything", { orderId: 7 });
    const started = await world.run(app, id, ({ status }) => status === "waiting");
    expect(started.executions).toBeGreaterThan(0);
    world.server.advance(1500);
    await world.server.until(
      () => world.steps(app, id),
      (steps) => steps.some(({ id, status }) => id === "paid" && status === "pending"),
    );
    world.server.advance(1500);
    expect(await world.ended(app, id)).toMatchObject({
      status: "completed",
      output: { at: true, id: 36, chance: true, parts: [7, 14, 21], flaky: 2, sum: 8, runId: 36, nothing: null, run: 1 },
    });
    expect((await world.steps(app, id)).map(({ id }) => id)).toEqual([
      "now",
      "uuid",
      "random",
      "part",
      "part#2",
      "part#3",
      "flaky",
      "rest",
      "sum up",
      "beside",
      "paid",
    ]);
  });

  it("W10: a cancelled run hears of it in its sleep, cleans up, and ends cancelled", async () => {
    const id = await world.start(app, "cancellable");
    await world.run(app, id, ({ status }) => status === "waiting");
    await world.api("POST", `/apps/${app}/runs/${id}/cancel`);
    expect(await world.ended(app, id)).toMatchObject({ status: "cancelled" });
    expect(await world.steps(app, id)).toMatchObject([
      { id: "long", status: "cancelled" },
      { id: "cleanup", status: "completed", result: true },
    ]);
  });

  it("W10: a step under way hears of the cancellation by its signal, and the run cleans up and ends cancelled", async () => {
    const id = await world.start(app, "busy");
    await world.server.until(
      () => world.run(app, id, ({ status }) => status === "running"),
      () => busy.has(id),
    );
    await world.api("POST", `/apps/${app}/runs/${id}/cancel`);
    expect(await world.ended(app, id)).toMatchObject({ status: "cancelled" });
    expect(await world.steps(app, id)).toMatchObject([
      { id: "endless", status: "failed", attempt: 1, error: { code: "cancelled" } },
      { id: "undo", status: "completed", result: true },
    ]);
  });

  it("W14: a message that comes while another step is under way is given to the code at once", async () => {
    const { id: queueId } = await world.api<{ id: string }>("POST", "/queues", { name: `news-${mode}` });
    const target = { kind: "workflow", mode: "resume", appId: app, workflow: "beside", correlationAttribute: "key" };
    await world.api("POST", "/subscriptions", { queueId, target });
    const id = await world.start(app, "beside", { queueId });
    await world.server.until(
      () => world.steps(app, id),
      (steps) => steps.some((step) => step.id === "word" && step.status === "pending"),
    );
    await world.api("POST", `/queues/${queueId}/messages`, { messages: [{ body: "stop", attributes: { key: "word" } }] });
    expect(await world.ended(app, id)).toMatchObject({ status: "completed", output: ["stop", "told to stop"], executions: 1 });
  });
});
