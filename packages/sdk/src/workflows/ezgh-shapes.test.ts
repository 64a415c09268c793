/** Programs in the shapes of EZGH's examples compile with the package's types (this file's types are checked) and run against a server. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type LiveWorkflows, liveWorkflows } from "./live.fixture.ts";

type Shapes = typeof import("./ezgh-shapes.fixture.ts");

describe.each(["push", "pull"] as const)("workflows in the shapes of EZGH's examples, by %s", (mode) => {
  let world: LiveWorkflows;
  let shapes: Shapes;
  const app = `billing-${mode}`;
  const queueId: Record<string, string> = {};
  beforeAll(async () => {
    world = await liveWorkflows();
    for (const [name, type] of [
      ["payments", "standard"],
      ["orders", "fifo"],
      ["stock", "standard"],
    ] as const)
      queueId[name] = (await world.api<{ id: string }>("POST", "/queues", { name, type })).id;
    vi.stubEnv("MILLRACE_URL", world.server.url);
    vi.stubEnv("SHOP_API_KEY", world.server.apiKey);
    vi.stubEnv("SHOP_ORGANIZATION_ID", "acme");
    vi.stubEnv("SHOP_PROJECT_ID", "shop");
    vi.stubEnv("PAYMENTS_QUEUE_ID", queueId.payments ?? "");
    vi.stubEnv("ORDERS_QUEUE_ID", queueId.stock ?? "");
    vi.resetModules();
    shapes = await import("./ezgh-shapes.fixture.ts");
    await world[mode](app, [shapes.purchase, shapes.announce]);
    const target = { kind: "workflow", mode: "resume", appId: app, workflow: "purchase", correlationAttribute: "purchaseKey" };
    await world.api("POST", "/subscriptions", { queueId: queueId.payments, target });
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await world.close();
  });
  const waiting = async (purchaseId: string): Promise<string> => {
    const id = await world.start(app, "purchase", { purchaseId });
    await world.server.until(
      () => world.steps(app, id),
      (steps) => steps.some((step) => step.id === "payment" && step.status === "pending"),
    );
    return id;
  };

  it("W18, W14: a message with the run's key resumes it, and its body is the text that was sent", async () => {
    const id = await waiting("p-1");
    const messages = [{ body: '{"cents":1999}', attributes: { purchaseKey: "purchase:p-1" } }];
    await world.api("POST", `/queues/${queueId.payments}/messages`, { messages });
    expect(await world.ended(app, id)).toMatchObject({ status: "completed", output: null });
    expect(shapes.done.filter((each) => each.includes("p-1"))).toEqual(["reserve p-1", "dispatch p-1 for 1999"]);
    const [, paid] = await world.steps(app, id);
    expect(paid?.result).toEqual({
      messageId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      body: '{"cents":1999}',
      attributes: { purchaseKey: "purchase:p-1" },
      sentAt: expect.stringMatching(/Z$/),
      queueId: queueId.payments,
    });
  });

  it("W18, W14: no message in time is null, and no error", async () => {
    const id = await waiting("p-2");
    world.server.advance(7_200_000);
    expect(await world.ended(app, id)).toMatchObject({ status: "completed", output: { dropped: "p-2" }, error: null });
    expect(shapes.done.filter((each) => each.includes("p-2"))).toEqual(["reserve p-2", "drop p-2"]);
  });

  it("W18, W16: a step sends with a client of its own, and the queue has the message once", async () => {
    const id = await world.start(app, "announce", { purchaseId: "p-3" });
    expect(await world.ended(app, id)).toMatchObject({ status: "completed" });
    const { messages } = await world.api<{ messages: { body: string; messageId: string }[] }>(
      "POST",
      `/queues/${queueId.stock}/messages/receive`,
      { maxMessages: 10 },
    );
    expect(messages).toMatchObject([{ body: '{"id":"p-3","shelf":12}', attributes: { purchaseId: "p-3" } }]);
    expect((await world.steps(app, id))[1]).toMatchObject({ id: "tell", type: "send", result: [{ messageId: messages[0]?.messageId }] });
  });

  it("W18, W16: the client sends outside of workflows too, and on a FIFO queue answers where the message stands", async () => {
    const sent = await shapes.queues.send(queueId.orders ?? "", [{ body: "hello", groupId: "g", dedupId: "d" }]);
    expect(sent).toEqual([{ messageId: expect.any(String), seq: expect.stringMatching(/^\d+$/) }]);
  });
});
