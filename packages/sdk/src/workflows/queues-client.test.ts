import { createHash } from "node:crypto";
import { afterEach, describe, expect, it } from "vitest";
import { header, json, problem, type Scripted, scripted } from "../scripted.fixture.ts";
import { crashing } from "./crashing.fixture.ts";
import { QueuesClient } from "./queues-client.ts";
import { workflow } from "./workflow.ts";

let open: Scripted | undefined;
afterEach(() => open?.close());

/** A client of a server that answers as told. */
async function client(...given: Parameters<typeof scripted>) {
  open = await scripted(...given);
  const { server, waits } = open;
  const runtime = { wait: async (ms: number) => void waits.push(ms), random: () => 1, uuid: () => "fresh" };
  const queues = new QueuesClient({ apiKey: "mlr_key", organizationId: "acme", projectId: "shop", baseUrl: server.url, runtime });
  return { queues, server, waits };
}

const sent = (count: number) => json({ messages: Array.from({ length: count }, (_, n) => ({ messageId: `m-${n}` })) });
const hash = (text: string): string => createHash("sha256").update(text).digest("hex");

describe("QueuesClient", () => {
  it("W16: sends outside of workflows too, under a fresh key", async () => {
    const { queues, server } = await client(() => json({ messages: [{ messageId: "m-1", seq: "7" }] }));
    expect(await queues.send("q-1", [{ body: "hello", groupId: "g" }])).toEqual([{ messageId: "m-1", seq: "7" }]);
    const [request] = server.requests;
    expect(request).toMatchObject({ method: "POST", path: "/v1/organizations/acme/projects/shop/queues/q-1/messages" });
    expect(header(request, "idempotency-key")).toBe("fresh");
    expect(header(request, "authorization")).toBe("Bearer mlr_key");
    expect(request?.json()).toEqual({ messages: [{ body: "hello", groupId: "g" }] });
  });

  it.each([
    ["429", () => problem(429, "overloaded", { "retry-after": "3" }), 3000],
    ["500", () => problem(500, "internal"), 200],
    ["503", () => problem(503, "unavailable", { "retry-after": "2" }), 2000],
    ["a broken connection", () => ({ drop: "request" as const }), 200],
  ])("W16: %s is sent again with the same key, up to three times, after Retry-After", async (_, answer, waitMs) => {
    const { queues, server, waits } = await client(answer);
    await expect(queues.send("q", [{ body: "x" }])).rejects.toThrow();
    expect(server.requests).toHaveLength(4);
    expect(new Set(server.requests.map((request) => header(request, "idempotency-key"))).size).toBe(1);
    expect(waits[0]).toBe(waitMs);
  });

  it.each([
    [429, "quota_exceeded"],
    [400, "invalid_request"],
    [403, "permission_denied"],
    [404, "queue_not_found"],
    [409, "idempotency_conflict"],
  ])("W16: %i %s is not sent again", async (status, code) => {
    const { queues, server } = await client(() => problem(status, code, { "retry-after": "1" }));
    await expect(queues.send("q", [{ body: "x" }])).rejects.toMatchObject({ status, code });
    expect(server.requests).toHaveLength(1);
  });
});

describe("sendToQueue", () => {
  const messages = [{ body: "one", groupId: "g" }, { body: "two", groupId: "g", dedupId: "own" }, { body: "three" }];
  const order = (queues: QueuesClient) => workflow("order", ({ step }) => step.sendToQueue("notify", queues, "q-1", messages));

  it("W16, WF-15: an answer that is lost, and a death behind it, change neither key nor dedupIds; the result is the step's", async () => {
    let calls = 0;
    const { queues, server } = await client(() => {
      calls += 1;
      return calls === 1 ? { drop: "request" as const } : sent(3);
    });
    const run = crashing();
    await run.execute(order(queues), { at: 1, before: true });
    expect(await run.finish(order(queues))).toMatchObject({
      status: "completed",
      output: JSON.stringify([{ messageId: "m-0" }, { messageId: "m-1" }, { messageId: "m-2" }]),
    });
    const expected = hash("run-1:notify");
    expect(server.requests).toHaveLength(3);
    for (const request of server.requests) {
      expect(header(request, "idempotency-key")).toBe(`wfq_${expected}`);
      expect(request.json()).toEqual({
        messages: [
          { body: "one", groupId: "g", dedupId: `${expected}:0` },
          { body: "two", groupId: "g", dedupId: "own" },
          { body: "three" },
        ],
      });
    }
    // A replay sends nothing.
    await run.execute(order(queues));
    expect(server.requests).toHaveLength(3);
  });

  it("W16: a second send under the name has another key", async () => {
    const { queues, server } = await client(() => sent(1));
    const twice = workflow("twice", async ({ step }) => {
      await step.sendToQueue("notify", queues, "q", [{ body: "x" }]);
      await step.sendToQueue("notify", queues, "q", [{ body: "x" }]);
    });
    await crashing().finish(twice);
    expect(server.requests.map((request) => header(request, "idempotency-key"))).toEqual([
      `wfq_${hash("run-1:notify")}`,
      `wfq_${hash("run-1:notify#2")}`,
    ]);
  });

  it("W16, WF-15: a refusal fails the step at once, with the server's code; what is busy is tried again by the step", async () => {
    const { queues, server } = await client(() => problem(409, "idempotency_conflict"));
    expect(await crashing().finish(order(queues))).toMatchObject({
      status: "failed",
      error: { name: "ApiError", message: "idempotency_conflict: no: idempotency_conflict" },
    });
    expect(server.requests).toHaveLength(1);
    server.answer(() => (server.requests.length <= 5 ? problem(503, "unavailable") : sent(3)));
    const run = crashing();
    expect(await run.finish(order(queues))).toMatchObject({ status: "completed" });
    expect(run.steps()).toMatchObject([{ status: "completed", attempt: 2 }]);
  });

  it("W16: takes 1 to 10 messages", async () => {
    const { queues, server } = await client(() => sent(1));
    for (const count of [0, 11]) {
      const many = workflow("t", ({ step }) =>
        step.sendToQueue(
          "s",
          queues,
          "q",
          Array.from({ length: count }, () => ({ body: "x" })),
        ),
      );
      expect(await crashing().finish(many)).toMatchObject({
        status: "failed",
        error: { message: `messages: must be 1 to 10, got ${count}` },
      });
    }
    expect(server.requests).toHaveLength(0);
  });
});
