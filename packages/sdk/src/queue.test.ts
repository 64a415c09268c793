import { afterEach, describe, expect, it } from "vitest";
import { ApiError, type BatchMessage } from "./index.ts";
import { header, inTurn, json, problem, type Scripted, scripted } from "./scripted.fixture.ts";

const opened: Scripted[] = [];
const open = async (...given: Parameters<typeof scripted>): Promise<Scripted> => {
  const one = await scripted(...given);
  opened.push(one);
  return one;
};
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

const sent = json({ messageId: "m1", deduplicated: false, deliverAt: "2026-01-02T03:04:05.678Z" });
const refused = json({ messageId: null, error: "full", code: "backlog_full", retryable: true });

describe("sending", () => {
  it("C11: every option of a send is on the wire, and nothing that was not given", async () => {
    const { client, server } = await open(() => sent);
    const emails = client.queue<unknown>("emails", { environment: "staging", autoCreate: false });
    await emails.send(
      { to: "me" },
      { delay: "10m", groupKey: "g", deduplicationKey: "d", deploymentId: "dep", headers: { "x-tenant": "acme" } },
    );
    await emails.send("text", { at: new Date("2030-01-01T00:00:00Z") });
    await emails.send(Uint8Array.of(255), { at: 1_893_456_000_000 });
    const bodies = server.requests.map((request) => request.json());
    expect(bodies).toEqual([
      {
        environment: "staging",
        autoCreate: false,
        body: '{"to":"me"}',
        encoding: "utf8",
        contentType: "application/json",
        delaySeconds: 600,
        groupKey: "g",
        deduplicationKey: "d",
        deploymentId: "dep",
        headers: { "x-tenant": "acme" },
      },
      {
        environment: "staging",
        autoCreate: false,
        body: "text",
        encoding: "utf8",
        contentType: "text/plain; charset=utf-8",
        deliverAt: "2030-01-01T00:00:00.000Z",
      },
      {
        environment: "staging",
        autoCreate: false,
        body: "/w==",
        encoding: "base64",
        contentType: "application/octet-stream",
        deliverAt: "2030-01-01T00:00:00.000Z",
      },
    ]);
  });

  it("C11: what cannot be sent is refused before any call, by the name of the field", async () => {
    const { client, server } = await open(() => sent);
    const emails = client.queue<unknown>("emails");
    await expect(emails.send(1, { delay: "2y" as "2d" })).rejects.toThrow("delay: must be");
    await expect(emails.send(1, { delay: 1, at: 1 })).rejects.toThrow("either delay or at");
    await expect(emails.send(1, { at: "soon" })).rejects.toThrow("at: must be a date");
    await expect(emails.send(undefined)).rejects.toThrow("payload: must be");
    await expect(emails.sendBatch([{ payload: 1 }, { payload: 2, delay: -1 }])).rejects.toThrow("messages.1.delay: must be");
    expect(server.requests).toEqual([]);
  });

  it("C11: a message refused for now is sent again under a new key, since the old one stands for the refusal", async () => {
    const { client, server, waits } = await open(inTurn(refused, refused, sent));
    expect(await client.queue("emails").send(1)).toMatchObject({ messageId: "m1" });
    expect(server.requests.map((request) => header(request, "idempotency-key"))).toEqual(["key-1", "key-2", "key-3"]);
    expect(waits).toEqual([200, 400]);
    const full = await open(() => refused, { maxRetries: 1 });
    await expect(full.client.queue("emails").send(1)).rejects.toMatchObject({ code: "backlog_full", message: "full", retryable: true });
    const wrong = await open(() => json({ messageId: null, error: "too large", code: "payload_too_large", retryable: false }));
    await expect(wrong.client.queue("emails").send(1)).rejects.toMatchObject({ code: "payload_too_large", retryable: false });
    expect(wrong.server.requests).toHaveLength(1);
  });

  it("C11: a batch of any length goes out by hundreds; results come in order, and only what was refused for now is sent again", async () => {
    const tried = new Set<number>();
    const { client, server } = await open((request) => {
      const { messages } = request.json<{ messages: { body: string }[] }>();
      return json({
        results: messages.map(({ body }) => {
          const n = Number(body);
          if (n === 7) return { messageId: null, error: "bad header", code: "invalid_request", retryable: false };
          if (n % 50 !== 3 || tried.has(n)) return { messageId: `m${n}`, deduplicated: n === 5, deliverAt: "2026-01-01T00:00:00.000Z" };
          tried.add(n);
          return { messageId: null, error: "full", code: "backlog_full", retryable: true };
        }),
      });
    });
    const batch: BatchMessage<number>[] = Array.from({ length: 250 }, (_, payload) => ({ payload }));
    const results = await client.queue<number>("emails").sendBatch(batch);
    expect(results.map(({ messageId }) => messageId)).toEqual(batch.map(({ payload }) => (payload === 7 ? null : `m${payload}`)));
    expect(results[5]).toMatchObject({ deduplicated: true });
    expect(results[7]).toEqual({ messageId: null, error: "bad header", code: "invalid_request", retryable: false });
    const sizes = server.requests.map((request) => request.json<{ messages: unknown[] }>().messages.length);
    expect(sizes).toEqual([100, 100, 50, 5]);
    expect(await client.queue("emails").sendBatch([])).toEqual([]);
  });

  it("C11: large batches are cut before they are too long for a request", async () => {
    const { client, server } = await open((request) => {
      const { messages } = request.json<{ messages: unknown[] }>();
      return json({ results: messages.map((_, index) => ({ messageId: `m${index}` })) });
    });
    const payload = new Uint8Array(1024 * 1024);
    const results = await client.queue<Uint8Array>("emails").sendBatch(Array.from({ length: 40 }, () => ({ payload })));
    expect(results).toHaveLength(40);
    expect(server.requests.length).toBeGreaterThan(1);
    for (const { body } of server.requests) expect(body.length).toBeLessThan(40 * 1024 * 1024);
  });

  it("C11: when a later part of a batch fails, what was sent before is not lost sight of", async () => {
    const taken = json({ results: Array.from({ length: 100 }, (_, index) => ({ messageId: `m${index}` })) });
    const { client, server } = await open(inTurn(taken, problem(400, "invalid_request")));
    const results = await client.queue<number>("emails").sendBatch(Array.from({ length: 250 }, (_, payload) => ({ payload })));
    expect(results[99]).toMatchObject({ messageId: "m99" });
    expect(results[100]).toMatchObject({ messageId: null, code: "invalid_request", retryable: false });
    expect(results[249]).toMatchObject({ messageId: null, code: "not_sent", retryable: true });
    expect(server.requests).toHaveLength(2);
    const again = json({ results: [{ messageId: "m0" }, { messageId: null, error: "full", code: "backlog_full", retryable: true }] });
    const lost = await open(inTurn(again, problem(404, "queue_not_found")));
    expect(await lost.client.queue<number>("emails").sendBatch([{ payload: 1 }, { payload: 2 }])).toMatchObject([
      { messageId: "m0" },
      { messageId: null, code: "queue_not_found" },
    ]);
    const down = await open(() => problem(404, "queue_not_found"));
    await expect(down.client.queue("emails").sendBatch([{ payload: 1 }])).rejects.toMatchObject({ code: "queue_not_found" });
  });
});

describe("a queue", () => {
  it("C11: ensure, info, pause, resume, purge and redrive are the calls of the API", async () => {
    const record = {
      name: "emails",
      createdAt: "2026-01-01T00:00:00.000Z",
      stats: { ready: 1, oldestReadyAt: null, nextScheduledAt: "2026-01-02T00:00:00.000Z" },
    };
    const { client, server } = await open((request) => {
      if (request.path.endsWith("/purge")) return json({ purgedMessages: 3 });
      if (request.path.endsWith("/redrive")) return json({ redrivenMessages: 2 });
      return json({ ...record, ...(request.method === "PUT" ? { created: true } : {}) });
    });
    const emails = client.queue("emails", { environment: "staging" });
    const settings = {
      consumerPath: "/api/queues/emails",
      visibilityTimeout: "2m",
      retention: "4d",
      delay: 0,
      maxAttempts: 5,
      deadLetter: true,
      retryBackoff: { min: "5s", max: "15m" },
      deduplicationWindow: "1d",
      concurrency: 10,
      rateLimit: { count: 5, period: "1m" },
    } as const;
    expect(await emails.ensure(settings)).toMatchObject({ created: true, createdAt: new Date("2026-01-01T00:00:00.000Z") });
    expect((await emails.info()).stats).toEqual({ ready: 1, oldestReadyAt: null, nextScheduledAt: new Date("2026-01-02T00:00:00.000Z") });
    await emails.pause();
    await emails.resume();
    expect(await emails.purge("dead")).toBe(3);
    expect(await emails.redrive(["m1"])).toBe(2);
    await emails.ensure({ consumerPath: null, rateLimit: null });
    const at = "/applications/shop/queues/emails";
    const environment = "staging";
    expect(server.requests.map(({ method, path, text }) => [method, path, text === "" ? undefined : JSON.parse(text)])).toEqual([
      [
        "PUT",
        at,
        {
          environment,
          consumerPath: "/api/queues/emails",
          visibilityTimeoutSeconds: 120,
          retentionSeconds: 345_600,
          delaySeconds: 0,
          maxAttempts: 5,
          deadLetter: true,
          retryBackoffMinSeconds: 5,
          retryBackoffMaxSeconds: 900,
          deduplicationWindowSeconds: 86_400,
          concurrency: 10,
          rateLimit: { count: 5, periodSeconds: 60 },
        },
      ],
      ["GET", `${at}?environment=staging`, undefined],
      ["POST", `${at}/pause`, { environment }],
      ["POST", `${at}/resume`, { environment }],
      ["POST", `${at}/purge`, { environment, scope: "dead" }],
      ["POST", `${at}/redrive`, { environment, messageIds: ["m1"] }],
      ["PUT", at, { environment, consumerPath: null, rateLimit: null }],
    ]);
  });

  it("C11: cancel says whether there was such a message", async () => {
    const { client, server } = await open(
      inTurn(json({ deleted: true }), problem(404, "message_not_found"), problem(404, "queue_not_found")),
    );
    expect(await client.queue("emails").cancel("m/1")).toBe(true);
    expect(server.requests[0]).toMatchObject({ method: "DELETE", path: "/applications/shop/queues/emails/messages/m%2F1" });
    expect(await client.queue("emails").cancel("m1")).toBe(false);
    await expect(client.queue("emails").cancel("m1")).rejects.toThrow(ApiError);
  });

  it("C11: schedule makes a schedule or changes the one of that name; unschedule says whether there was one", async () => {
    const record = json({ name: "digest", nextRunAt: "2026-01-01T07:00:00.000Z", lastRunAt: null });
    const { client, server } = await open(inTurn(problem(409, "schedule_exists"), record, json({}), problem(404, "schedule_not_found")));
    const emails = client.queue<{ kind: string }>("emails");
    const schedule = await emails.schedule("digest", { cron: "0 7 * * 1-5", timezone: "Europe/Berlin", payload: { kind: "digest" } });
    expect(schedule).toEqual({ name: "digest", nextRunAt: new Date("2026-01-01T07:00:00.000Z"), lastRunAt: null });
    const fields = { cron: "0 7 * * 1-5", timezone: "Europe/Berlin", body: '{"kind":"digest"}', contentType: "application/json" };
    expect(server.requests.map(({ method, path, text }) => [method, path, JSON.parse(text)])).toEqual([
      ["POST", "/applications/shop/queues/emails/schedules", { name: "digest", ...fields }],
      ["PATCH", "/applications/shop/queues/emails/schedules/digest", fields],
    ]);
    expect(await emails.unschedule("digest")).toBe(true);
    expect(await emails.unschedule("digest")).toBe(false);
  });
});

describe("receiving", () => {
  const record = (id: string, more: object = {}) => ({
    id,
    body: '{"n":1}',
    encoding: "utf8",
    contentType: "application/json",
    headers: { "x-tenant": "acme", "not a header": "x" },
    attempts: 2,
    groupKey: null,
    deduplicationKey: "d",
    deploymentId: null,
    createdAt: "2026-01-01T00:00:00.000Z",
    expiresAt: null,
    leaseExpiresAt: "2026-01-01T00:01:00.000Z",
    lastDeliveredAt: "2026-01-01T00:00:00.000Z",
    receipt: `r-${id}`,
    ...more,
  });

  it("C11: a received message has its payload and facts, and is acknowledged, given back or kept by its receipt", async () => {
    const { client, server } = await open(
      inTurn(
        json({ messages: [record("m1"), record("m2", { body: "/w==", encoding: "base64", contentType: "application/octet-stream" })] }),
        json({ results: [{ messageId: "m1", acknowledged: true }] }),
        json({ status: "retrying" }),
        json({ leaseExpiresAt: "2026-01-01T00:02:00.000Z" }),
        json({ results: [{ messageId: "m1", acknowledged: false, code: "receipt_mismatch" }] }),
      ),
    );
    const [first, second] = await client.queue<unknown>("emails").receive({ maxMessages: 2, wait: "5s", visibilityTimeout: "1m" });
    expect(first).toMatchObject({
      payload: { n: 1 },
      messageId: "m1",
      queue: "emails",
      attempt: 2,
      deduplicationKey: "d",
      groupKey: undefined,
      createdAt: new Date("2026-01-01T00:00:00.000Z"),
      expiresAt: undefined,
    });
    expect(first?.headers.get("x-tenant")).toBe("acme");
    expect(second?.payload).toEqual(Uint8Array.of(255));
    await first?.ack();
    await second?.nack({ delay: "30s", countAttempt: false, error: "später" });
    await second?.extend("2m");
    await expect(first?.ack()).rejects.toMatchObject({ code: "receipt_mismatch" });
    const at = "/applications/shop/queues/emails/messages";
    expect(server.requests.map(({ path, text }) => [path, JSON.parse(text)])).toEqual([
      [`${at}/receive`, { maxMessages: 2, waitSeconds: 5, visibilityTimeoutSeconds: 60 }],
      [`${at}/ack`, { messages: [{ messageId: "m1", receipt: "r-m1" }] }],
      [`${at}/m2/nack`, { receipt: "r-m2", delaySeconds: 30, countAttempt: false, error: "sp?ter" }],
      [`${at}/m2/extend`, { receipt: "r-m2", visibilityTimeoutSeconds: 120 }],
      [`${at}/ack`, { messages: [{ messageId: "m1", receipt: "r-m1" }] }],
    ]);
  });

  it("C11, C12: a payload that is not valid goes to the dead letters and is not handed out", async () => {
    const { client, server } = await open(
      inTurn(json({ messages: [record("m1", { body: "{" }), record("m2")] }), json({ status: "dead" })),
    );
    const received = await client.queue<unknown>("emails").receive({ maxMessages: 2 });
    expect(received.map(({ messageId }) => messageId)).toEqual(["m2"]);
    expect(server.requests[1]?.json()).toMatchObject({
      receipt: "r-m1",
      deadLetter: true,
      error: expect.stringContaining("cannot be read"),
    });
  });
});
