/** The examples for web frameworks, pushed to by a server. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type Examples, example, openExamples } from "./example.fixture.ts";
import { toNodeHandler } from "./index.ts";
import type { Live } from "./live.fixture.ts";

let examples: Examples;
let server: Live;
beforeAll(async () => {
  examples = await openExamples();
  server = examples.server;
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
afterAll(() => examples.close());

describe("the examples for frameworks", () => {
  it("C12: an Express app is pushed to ahead of its body parser, refuses what is not signed, and its other routes parse", async () => {
    const shop = examples.start("express-server", [], { PORT: "0", MILLRACE_QUEUE_SIGNING_SECRET: server.secret });
    const port = await shop.port();
    const base = `http://127.0.0.1:${port}`;
    await server.register("express", base);
    const orders = server.client.queue<{ order: number }>("orders");
    await orders.ensure({ consumerPath: "/api/queues/orders" });
    await orders.send({ order: 7 });
    expect(await shop.line()).toBe("shipped order 7, attempt 1");
    await orders.send({ order: -1 });
    const { stats } = await server.until(
      () => orders.info(),
      (info) => info.stats.scheduled === 1 && info.stats.acknowledged === 1,
    );
    expect(stats).toMatchObject({ scheduled: 1, acknowledged: 1, dead: 0 });
    const post = (path: string) =>
      fetch(base + path, { method: "POST", headers: { "content-type": "application/json" }, body: '{"order":1}' });
    expect((await post("/api/queues/orders")).status).toBe(401);
    expect(await (await post("/orders")).json()).toEqual({ accepted: { order: 1 } });
  });

  it("C12: a Hono app hands its requests on as they are, books, gives up with the reason, and refuses what is not signed", async () => {
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", server.secret);
    const { default: app } = (await import(example("hono-app"))) as { default: { fetch(request: Request): Response | Promise<Response> } };
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    await server.deploy(
      "hono",
      toNodeHandler(async (request) => app.fetch(request)),
    );
    const invoices = server.client.queue<{ number: string }>("invoices");
    await invoices.ensure({ consumerPath: "/api/queues/invoices" });
    const { messageId } = await invoices.send({ number: "INV-1" });
    await invoices.send({ number: "1" });
    const { stats } = await server.until(
      () => invoices.info(),
      (info) => info.stats.acknowledged === 1 && info.stats.dead === 1,
    );
    expect(stats).toMatchObject({ acknowledged: 1, dead: 1 });
    expect(log.mock.calls).toEqual([[`booked INV-1 (${messageId})`]]);
    const { items } = await server.ask<{ items: { lastError: string }[] }>("GET", "/queues/invoices/messages?state=dead");
    expect(items[0]?.lastError).toBe("1 is no invoice");
    const unsigned = new Request("http://localhost/api/queues/invoices", { method: "POST", body: '{"number":"INV-2"}' });
    expect((await app.fetch(unsigned)).status).toBe(401);
  });
});
