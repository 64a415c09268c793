import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { expense } from "../../../../examples/workflows/approval.ts";
import { thumbnails } from "../../../../examples/workflows/fan-out.ts";
import { nightly } from "../../../../examples/workflows/nightly.ts";
import { order } from "../../../../examples/workflows/order.ts";
import { trip } from "../../../../examples/workflows/saga.ts";
import { type Examples, openExamples } from "../example.fixture.ts";
import { testWorkflow } from "./test-workflow.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockImplementation(() => {});
  return () => vi.restoreAllMocks();
});

describe("the examples of workflows, without a server", () => {
  it("W18: an order is shipped when it is paid, and cancelled when it is not", async () => {
    const paid = await testWorkflow(order, {
      input: { orderId: 7, cents: 1999 },
      messages: [{ queueId: "", key: "order:7", body: "19.99", after: "2h" }],
    });
    expect(paid).toMatchObject({ status: "completed", output: { status: "shipped", paid: "19.99" } });
    expect(paid.sent).toMatchObject([{ messages: [{ body: '{"id":7,"cents":1999}', attributes: { orderId: "7" } }] }]);
    const late = await testWorkflow(order, {
      input: { orderId: 7, cents: 1999 },
      messages: [{ queueId: "", key: "order:7", body: "19.99", after: "25h" }],
    });
    expect(late).toMatchObject({ output: { status: "cancelled" }, sent: [] });
  });

  it("W7, W18: the fan-out makes every thumbnail, the busy one at its second try", async () => {
    const run = await testWorkflow(thumbnails, { input: { images: ["a.png", "slow.png", "b.png"] } });
    expect(run).toMatchObject({ status: "completed", output: { made: 3, bytes: 1800 } });
    expect(run.steps.map(({ id }) => id)).toEqual(["shrink a.png", "shrink slow.png", "shrink b.png"]);
  });

  it("W10, W18: the saga undoes what it did, in reverse, when the charge fails or the run is cancelled", async () => {
    const input = { flight: "LH1", hotel: "Ritz", card: "good" };
    expect(await testWorkflow(trip, { input })).toMatchObject({ output: { confirmation: "F-LH1 and H-Ritz" } });
    const declined = await testWorkflow(trip, { input: { ...input, card: "expired" } });
    expect(declined).toMatchObject({ status: "failed", error: { message: "the card has expired" } });
    const undone = ["cancel hotel", "cancel flight"];
    expect(declined.steps.map(({ id }) => id).slice(-2)).toEqual(undone);
    const cancelled = await testWorkflow(trip, { input, cancelAfter: "30m" });
    expect(cancelled).toMatchObject({ status: "cancelled" });
    expect(cancelled.steps.map(({ id }) => id).slice(-2)).toEqual(undone);
  });

  it("W15, W18: an expense waits for its decision, early ones too, and expires", async () => {
    const input = { id: "e-1", cents: 90_000, by: "ada" };
    const decided = (approved: boolean) => [{ queueId: "", key: "expense:e-1", body: JSON.stringify({ approved }), after: "1d" as const }];
    expect((await testWorkflow(expense, { input: { ...input, cents: 100 } })).output).toBe("paid");
    expect((await testWorkflow(expense, { input, messages: decided(true) })).output).toBe("paid");
    expect((await testWorkflow(expense, { input, messages: decided(false) })).output).toBe("refused");
    expect((await testWorkflow(expense, { input })).output).toBe("expired");
  });

  it("W12, W18: the nightly run's input is the message", async () => {
    const input = { messageId: "m", body: '{"kind":"daily"}', attributes: {}, sentAt: "2026-10-13T03:00:00.000Z", queueId: "q" };
    expect((await testWorkflow(nightly, { input })).output).toEqual({ day: "2026-10-13", lines: 5 });
  });
});

describe("the examples of workflows, against a server", { timeout: 120_000 }, () => {
  let examples: Examples;
  const project = "/v1/organizations/acme/projects/shop";
  beforeAll(async () => {
    examples = await openExamples();
  });
  afterAll(() => examples.close());

  async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const { url, apiKey } = examples.server;
    const answer = await fetch(`${url}${project}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  }
  const runIs = (app: string, id: string, status: string) =>
    examples.server.until(
      () => api<{ status: string }>("GET", `/apps/${app}/runs/${id}`),
      (run) => run.status === status,
    );

  it("W6, W14, W16: the push app takes an order, waits for its payment, and ships it to a queue", async () => {
    const [payments, warehouse] = await Promise.all(
      ["payments", "warehouse"].map((name) => api<{ id: string }>("POST", "/queues", { name })),
    );
    const { signingSecret } = await api<{ signingSecret: string }>("POST", "/apps", {
      name: "push-shop",
      mode: "push",
      url: "http://127.0.0.1:1",
    });
    const program = examples.start("../workflows/server", [], {
      PORT: "0",
      MILLRACE_ORGANIZATION: "acme",
      MILLRACE_WORKFLOWS_SIGNING_SECRET: signingSecret,
      PAYMENTS_QUEUE_ID: payments?.id ?? "",
      WAREHOUSE_QUEUE_ID: warehouse?.id ?? "",
    });
    await api("PATCH", "/apps/push-shop", { url: `http://127.0.0.1:${await program.port()}/api/workflows` });
    await api("POST", "/apps/push-shop/sync");
    await api("POST", "/subscriptions", {
      queueId: payments?.id,
      target: { kind: "workflow", mode: "resume", appId: "push-shop", workflow: "order", correlationAttribute: "orderKey" },
    });
    const { id } = await api<{ id: string }>("POST", "/apps/push-shop/runs", { workflow: "order", input: { orderId: 7, cents: 1999 } });
    expect(await runIs("push-shop", id, "waiting")).toMatchObject({ status: "waiting" });
    await api("POST", `/queues/${payments?.id}/messages`, { messages: [{ body: "19.99", attributes: { orderKey: "order:7" } }] });
    expect(await runIs("push-shop", id, "completed")).toMatchObject({ status: "completed", error: null });
    const { messages } = await api<{ messages: { body: string }[] }>("POST", `/queues/${warehouse?.id}/messages/receive`, {});
    expect(messages).toMatchObject([{ body: '{"id":7,"cents":1999}' }]);
  });

  it("W6, W12: the pull worker runs what the schedule starts at night, and stops cleanly", async () => {
    await api("POST", "/apps", { name: "jobs", mode: "pull" });
    const env = { MILLRACE_ORGANIZATION: "acme", MILLRACE_APP: "jobs" };
    const program = examples.start("../workflows/worker", [], env);
    expect(await program.line()).toBe("working");
    const setUp = examples.start("../workflows/nightly", ["jobs"], env);
    expect(await setUp.line()).toBe("runs of nightly start at 3 each night");
    examples.server.advance(24 * 3_600_000);
    expect(await program.line()).toMatch(/^report of \d{4}-\d{2}-\d{2}: 5 lines$/);
    program.child.kill("SIGTERM");
    expect(await program.line()).toMatch(/^stopped after \d+ executions$/);
  });
});
