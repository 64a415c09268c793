import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type Examples, example, openExamples } from "./example.fixture.ts";
import { type PushHandler, toNodeHandler } from "./index.ts";
import type { Live } from "./live.fixture.ts";

let examples: Examples;
let server: Live;
const start: Examples["start"] = (...given) => examples.start(...given);
beforeAll(async () => {
  examples = await openExamples();
  server = examples.server;
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});
afterAll(() => examples.close());

/** Lines that an example in this process writes. */
function said(): () => Promise<string> {
  const lines: string[] = [];
  let wake = (): void => {};
  vi.spyOn(console, "log").mockImplementation((line: string) => {
    lines.push(line);
    wake();
  });
  return async () => {
    while (lines.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return lines.shift() as string;
  };
}

describe("the examples", () => {
  it("C11, C13, C15: the producer sends once however often it runs, and the worker handles, and stops cleanly when told", async () => {
    const first = start("producer", ["orders", "3"]);
    const ids = [await first.line(), await first.line(), await first.line()];
    for (const id of ids) expect(id).toMatch(/^sent [0-9a-f-]{36}$/);
    const again = start("producer", ["orders", "3"]);
    for (const id of ids) expect(await again.line()).toBe(`${id}, as before`);
    const worker = start("worker", ["orders"]);
    const handled = [await worker.line(), await worker.line(), await worker.line()];
    expect(handled.sort()).toEqual([1, 2, 3].map((order) => `handled order ${order}, attempt 1`));
    worker.child.kill("SIGTERM");
    expect(await worker.line()).toBe("stopped after 3 handled and 0 given back");
    expect((await server.client.queue("orders").info()).stats).toMatchObject({ acknowledged: 3, ready: 0, inflight: 0 });
  });

  it("C12, C15: the node:http server is pushed to", async () => {
    const app = start("node-server", [], { PORT: "0", MILLRACE_QUEUE_SIGNING_SECRET: server.secret });
    const port = await app.port();
    await server.register("server", `http://127.0.0.1:${port}`);
    const emails = server.client.queue<{ to: string }>("emails");
    await emails.ensure({ consumerPath: "/api/queues/emails" });
    await emails.send({ to: "ada@example.com" });
    expect(await app.line()).toBe("handled ada@example.com, attempt 1");
  });

  it("C12: the route handler sends, defers and gives up as it says", async () => {
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", server.secret);
    const { POST } = (await import(example("route-handler"))) as { POST: PushHandler };
    const line = said();
    await server.deploy("route", toNodeHandler(POST));
    const emails = server.client.queue<{ to: string; template: string }>("emails");
    await emails.ensure({ consumerPath: "/api/queues/emails" });
    await emails.send({ to: "ada@example.com", template: "welcome" });
    expect(await line()).toMatch(/^sent welcome to ada@example.com \([0-9a-f-]{36}\)$/);
    await emails.send({ to: "ada@example.com", template: "no such" });
    await server.until(
      () => emails.info(),
      ({ stats }) => stats.dead === 1,
    );
    await emails.send({ to: "ada@busy.example", template: "welcome" });
    await server.until(
      () => emails.info(),
      ({ stats }) => stats.scheduled === 1,
    );
    expect((await emails.info()).stats).toMatchObject({ dead: 1, scheduled: 1 });
  });

  it("C12: the consumer with Zod handles what fits and gives up what does not, with the reason", async () => {
    vi.stubEnv("MILLRACE_QUEUE_SIGNING_SECRET", server.secret);
    const { POST } = (await import(example("zod-consumer"))) as { POST: PushHandler };
    const line = said();
    await server.deploy("zod", toNodeHandler(POST));
    const orders = server.client.queue<unknown>("orders");
    await orders.ensure({ consumerPath: "/api/queues/orders" });
    await orders.send({ id: "o-1", cents: 1250 });
    expect(await line()).toBe("charged order o-1: 12.50");
    await orders.send({ id: "", cents: 1250 });
    const { items } = await server.until(
      () => server.ask<{ items: { lastError: string }[] }>("GET", "/queues/orders/messages?state=dead"),
      (page) => page.items.length === 1,
    );
    expect(items[0]?.lastError).toMatch(/^the payload is not valid: id: /);
  });

  it("T5, T6, T8, T10: the webhook of a topic subscribes, confirms by itself and gets what its filter lets through", async () => {
    const { line, child } = start("topic-webhook", ["news"], { PORT: "0" });
    const said = [await line(), await line()].sort();
    expect(said).toEqual(["confirming news", expect.stringMatching(/^subscribed [0-9a-f-]{36}$/)]);
    const { topics } = server.client;
    const subscription = topics.subscription(said[1]?.split(" ")[1] ?? "");
    await server.until(
      () => subscription.info(),
      ({ state }) => state === "confirmed",
    );
    const [filtered, matched] = [
      await topics.topic("news").publish("not for it", { attributes: { store: "paris" } }),
      await topics.topic("news").publish("for it", { attributes: { store: "berlin" } }),
    ];
    expect(await line()).toBe(`got for it {"store":"berlin"} (${matched.messageId})`);
    const [verdict] = await topics.explain(filtered.messageId);
    expect(verdict).toMatchObject({
      outcome: "filtered_out",
      filter: { failures: [{ key: "store", expected: ["berlin"], got: "paris" }] },
    });
    child.kill("SIGTERM");
  });
});
