import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, openDoor } from "../door.suite.ts";

describe("the Gigadrive door", () => {
  let door: Door;
  beforeAll(async () => {
    door = await openDoor("sqlite");
  });
  afterAll(() => door.close());
  const app = (path: string, asked?: Asked): Promise<Answered> => door.request(`/applications/shop${path}`, asked);
  const send = (queue: string, json: unknown, headers: Record<string, string> = {}) => app(`/queues/${queue}/messages`, { json, headers });
  const code = (answer: Answered): unknown => [answer.status, answer.json?.error?.code];

  it("Q2: a queue made here has this door's defaults, is known to the other one, and unknown fields are passed over", async () => {
    const made = await app("/queues", { json: { name: "defaults", colour: "blue", environment: "production" } });
    expect(made.status).toBe(201);
    expect(made.json).toMatchObject({
      name: "defaults",
      environment: "production",
      type: "standard",
      mode: "pull",
      consumerPath: null,
      visibilityTimeoutSeconds: 60,
      retentionSeconds: 345_600,
      delaySeconds: 0,
      maxAttempts: 10,
      deadLetter: true,
      retryBackoffMinSeconds: 5,
      retryBackoffMaxSeconds: 900,
      deduplicationWindowSeconds: 86_400,
      concurrency: 100,
      rateLimit: null,
      paused: false,
      source: "api",
    });
    expect(Object.keys(made.json.stats)).toEqual([
      ...["ready", "scheduled", "waiting", "inflight", "dead", "bytes", "sent", "acknowledged", "failed", "deadLettered"],
      ...["oldestReadyAt", "nextScheduledAt"],
    ]);
    expect((await door.shop("/queues/defaults")).json).toMatchObject({ id: made.json.id, maxAttempts: 10, deadLetter: "list" });
    expect(code(await app("/queues", { json: { name: "defaults" } }))).toEqual([409, "queue_exists"]);
    expect(code(await app("/queues/nowhere"))).toEqual([404, "queue_not_found"]);
    expect(code(await door.request("/applications/nowhere/queues"))).toEqual([404, "project_not_found"]);
  });

  it("Q2: PUT makes a queue or changes what is given, and says which; out of bounds is a 400 that names field and bound", async () => {
    const put = (json: unknown) => app("/queues/placed", { method: "PUT", json });
    expect((await put({ maxAttempts: 3, deadLetter: false })).json).toMatchObject({ created: true, maxAttempts: 3, deadLetter: false });
    expect((await put({ visibilityTimeoutSeconds: 90, consumerPath: "/api/x" })).json).toMatchObject({
      created: false,
      maxAttempts: 3,
      deadLetter: false,
      mode: "push",
      visibilityTimeoutSeconds: 90,
    });
    expect((await app("/queues/placed", { method: "PUT" })).json).toMatchObject({ created: false, consumerPath: "/api/x" });
    for (const [field, value] of [
      ["maxAttempts", 101],
      ["concurrency", 0],
      ["retentionSeconds", 59],
      ["consumerPath", "api"],
      ["consumerPath", "/a/../b"],
      ["consumerPath", "/a/%2e%2E/b"],
      ["consumerPath", `/${"x".repeat(512)}`],
      ["consumerPath", "/a b"],
    ] as const) {
      const answer = await put({ [field]: value });
      expect(code(answer)).toEqual([400, "invalid_request"]);
      expect(answer.json.error.details.path).toBe(field);
    }
    expect(code(await app("/queues/..%2f", { method: "PUT", json: {} }))).toEqual([400, "invalid_request"]);
    expect((await app("/queues/placed", { method: "PATCH", json: { consumerPath: null } })).json.mode).toBe("pull");
    expect((await app("/queues/placed/pause", { method: "POST", json: {} })).json.paused).toBe(true);
    expect((await app("/queues/placed/resume", { method: "POST" })).json.paused).toBe(false);
    const page = (await app("/queues?offset=1&limit=1&anything=1")).json;
    expect([page.items.length, page.total]).toEqual([1, (await app("/queues")).json.items.length]);
    expect((await app("/queues/placed", { method: "DELETE" })).json).toEqual({ purgedMessages: 0 });
  });

  it("Q5, Q11: one message is answered with its id, whether it was a repeat, and when it is due; a missing queue is made on the way", async () => {
    const first = await send("auto", { json: { a: 1 }, deduplicationKey: "k", delaySeconds: 30 });
    expect(first.status).toBe(200);
    expect(first.json).toEqual({
      messageId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      deduplicated: false,
      deliverAt: new Date(door.clock.now() + 30_000).toISOString(),
    });
    expect((await send("auto", { body: "other", deduplicationKey: "k" })).json).toEqual({ ...first.json, deduplicated: true });
    expect((await app("/queues/auto")).json).toMatchObject({ source: "auto", mode: "pull", maxAttempts: 10 });
    const deliverAt = new Date(door.clock.now() + 3_600_000).toISOString();
    expect((await send("auto", { body: "later", deliverAt })).json.deliverAt).toBe(deliverAt);
    expect(code(await send("never", { body: "x", autoCreate: false }))).toEqual([404, "queue_not_found"]);
    expect(code(await app("/queues/never"))).toEqual([404, "queue_not_found"]);
    expect(code(await send("..", { body: "x" }))).toEqual([404, "queue_not_found"]);
  });

  it("BODY-07, C2: headers that are reserved, malformed or too many are a 400 at send that names them", async () => {
    const refused = async (headers: Record<string, string>) => {
      const answer = await send("headers", { body: "x", headers });
      expect(code(answer), JSON.stringify(headers)).toEqual([400, "invalid_request"]);
      return answer.json.error.details.path as string;
    };
    for (const name of [
      ...["x-gigadrive-queue-signature", "X-Gigadrive-Queue-Attempt", "Host", "Content-Length", "Transfer-Encoding", "Connection"],
      ...["Expect", "authorization", "Cookie", "webhook-id", "traceparent", "TE", "upgrade"],
    ])
      expect(await refused({ [name]: "x" })).toBe(`headers.${name}`);
    expect(await refused({ "a name": "x" })).toBe("headers");
    for (const value of ["a\r\nb: c", "a\nb", "\u0000", "caf\u00e9", " padded"])
      expect(await refused({ fine: value })).toBe("headers.fine");
    expect(await refused({ "X-A": "1", "x-a": "2" })).toBe("headers.x-a");
    expect(await refused({ "Content-Type": "text/csv", "content-type": "text/plain" })).toBe("headers.content-type");
    expect(await refused(Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x-${i}`, "v".repeat(1_024)])))).toBe("headers");
    expect(await refused(Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`x-${i}`, "v".repeat(1_024)])))).toBe("headers");
    const { messageId } = (await send("headers", { body: "x", headers: { "X-Tenant": "acme", "Content-Type": "text/csv" } })).json;
    expect((await app(`/queues/headers/messages/${messageId}`)).json).toMatchObject({
      headers: { "x-tenant": "acme" },
      contentType: "text/csv",
    });
  });

  it("Q5: a batch answers each message in order; what is refused fails alone and says whether to try again", async () => {
    const messages = [
      { body: "good" },
      { body: "bad", delaySeconds: -1 },
      { body: "AAEC/w==", encoding: "base64" },
      { body: "not base64", encoding: "base64" },
      "no object",
      { json: null },
      { headers: { host: "x" }, body: "x" },
    ];
    const { status, json } = await send("batch", { messages });
    expect(status, JSON.stringify(json)).toBe(200);
    expect(json.results.map(({ messageId, code }: { messageId: string | null; code?: string }) => code ?? typeof messageId)).toEqual([
      ...["string", "invalid_request", "string", "invalid_request", "invalid_request", "string", "invalid_request"],
    ]);
    expect(json.results[1]).toEqual({
      messageId: null,
      error: "messages.1: delaySeconds: must be at least 0, got -1",
      code: "invalid_request",
      retryable: false,
    });
    const bodies = (await app("/queues/batch/messages")).json.items.map(({ body, encoding, contentType }: Record<string, string>) => [
      body,
      encoding,
      contentType,
    ]);
    expect(bodies).toEqual([
      ["good", "utf8", "text/plain; charset=utf-8"],
      ["AAEC/w==", "base64", "application/octet-stream"],
      ["null", "utf8", "application/json"],
    ]);
    expect((await send("batch", { messages: Array.from({ length: 100 }, () => ({ body: "x" })) })).json.results).toHaveLength(100);
    expect(code(await send("batch", { messages: Array.from({ length: 101 }, () => ({ body: "x" })) }))).toEqual([400, "invalid_request"]);
    const large = { messages: Array.from({ length: 100 }, () => ({ body: "x".repeat(200_000) })) };
    expect((await send("batch", large)).json.results.every((each: { messageId: unknown }) => each.messageId !== null)).toBe(true);
  });

  it("Q2: a full queue refuses message by message, to be tried again", async () => {
    await app("/queues/small", { method: "PUT", json: { maxBytes: 100 } });
    const { json } = await send("small", { messages: [{ body: "x".repeat(60) }, { body: "x".repeat(60) }, { body: "x".repeat(30) }] });
    expect(json.results.map(({ code, retryable }: { code?: string; retryable?: boolean }) => [code, retryable])).toEqual([
      [undefined, undefined],
      ["backlog_full", true],
      [undefined, undefined],
    ]);
    const alone = await send("small", { body: "x".repeat(60) }, { "idempotency-key": "full" });
    expect([alone.status, alone.json]).toMatchObject([200, { messageId: null, code: "backlog_full", retryable: true }]);
    await app("/queues/small/purge", { json: { scope: "all" } });
    expect((await send("small", { body: "x".repeat(60) }, { "idempotency-key": "full" })).json.messageId).not.toBeNull();
  });

  it("Q12: a batch under an Idempotency-Key is stored once and answered alike", async () => {
    const body = { messages: [{ body: "once" }, { body: "bad", delaySeconds: -1 }] };
    const first = await send("idem", body, { "idempotency-key": "b1" });
    expect((await send("idem", body, { "idempotency-key": "b1" })).json).toEqual(first.json);
    expect((await app("/queues/idem")).json.stats.ready).toBe(1);
    expect(code(await send("idem", { body: "other" }, { "idempotency-key": "b1" }))).toEqual([409, "idempotency_conflict"]);
  });

  it("Q5: lists cut bodies to a preview at a character and page by offset; a single message is whole", async () => {
    const body = `${"x".repeat(1_023)}\u{1F600}`;
    const { messageId } = (await send("peek", { body })).json;
    await send("peek", { body: "later", delaySeconds: 60 });
    const { items, total } = (await app("/queues/peek/messages")).json;
    expect(total).toBe(2);
    expect(Object.keys(items[0]).sort()).toEqual(
      [
        ...["id", "state", "body", "encoding", "bodyTruncated", "contentType", "headers", "attempts", "sizeBytes", "groupKey"],
        ...["deduplicationKey", "deploymentId", "source", "lastError", "createdAt", "deliverAt", "expiresAt", "leaseExpiresAt"],
        ...["lastDeliveredAt", "deadAt", "receipt"],
      ].sort(),
    );
    expect(items[0]).toMatchObject({ id: messageId, body: "x".repeat(1_023), bodyTruncated: true, encoding: "utf8", sizeBytes: 1_027 });
    expect((await app(`/queues/peek/messages/${messageId}`)).json).toMatchObject({ body, bodyTruncated: false, receipt: null });
    const scheduled = (await app("/queues/peek/messages?state=scheduled")).json;
    expect([scheduled.total, scheduled.items[0].body]).toEqual([1, "later"]);
    expect((await app("/queues/peek/messages?offset=1&limit=5")).json.items).toHaveLength(1);
    expect((await app(`/queues/peek/messages/${messageId}`, { method: "DELETE" })).status).toBe(200);
    expect(code(await app(`/queues/peek/messages/${messageId}`, { method: "DELETE" }))).toEqual([404, "message_not_found"]);
    expect(code(await app("/queues/peek/messages/nonsense"))).toEqual([404, "message_not_found"]);
  });

  it("Q8: received messages are acknowledged, extended and given back by id and receipt, and only by those", async () => {
    await send("pull", { messages: ["a", "b", "c", "d", "e"].map((body) => ({ body })) });
    const received = (await app("/queues/pull/messages/receive", { json: { maxMessages: 100, visibilityTimeoutSeconds: 50 } })).json
      .messages;
    expect(received.map(({ body }: { body: string }) => body)).toEqual(["a", "b", "c", "d", "e"]);
    const [a, b, c, d, e] = received;
    expect(a).toMatchObject({ state: "inflight", attempts: 1, receipt: expect.any(String) });
    expect(Date.parse(a.leaseExpiresAt) - Date.parse(a.lastDeliveredAt)).toBe(50_000);
    const call = (message: { id: string }, verb: string, json: object) => app(`/queues/pull/messages/${message.id}/${verb}`, { json });
    expect(code(await call(a, "ack", { receipt: b.receipt }))).toEqual([409, "receipt_mismatch"]);
    expect((await call(a, "ack", { receipt: a.receipt })).json).toEqual({ messageId: a.id, acknowledged: true });
    expect(code(await call(a, "ack", { receipt: a.receipt }))).toEqual([404, "message_not_found"]);
    const extended = await call(b, "extend", { receipt: b.receipt, visibilityTimeoutSeconds: 500 });
    expect(extended.json).toEqual({ leaseExpiresAt: new Date(door.clock.now() + 500_000).toISOString() });
    const back = await call(c, "nack", { receipt: c.receipt, delaySeconds: 7, error: "busy" });
    expect(back.json).toEqual({ status: "retrying", deliverAt: new Date(door.clock.now() + 7_000).toISOString() });
    expect((await app(`/queues/pull/messages/${c.id}`)).json).toMatchObject({ state: "scheduled", attempts: 1, lastError: "busy" });
    expect((await call(d, "nack", { receipt: d.receipt, deadLetter: true, error: "bad" })).json).toEqual({ status: "dead" });
    expect((await app(`/queues/pull/messages/${d.id}`)).json).toMatchObject({ state: "dead", lastError: "bad" });
    expect((await call(e, "nack", { receipt: e.receipt, countAttempt: false })).json.status).toBe("retrying");
    expect((await app(`/queues/pull/messages/${e.id}`)).json).toMatchObject({ state: "ready", attempts: 0 });
    const acks = { messages: [b, c, a].map(({ id, receipt }) => ({ messageId: id, receipt })) };
    expect((await app("/queues/pull/messages/ack", { json: acks })).json.results).toEqual([
      { messageId: b.id, acknowledged: true },
      { messageId: c.id, acknowledged: false, code: "receipt_mismatch" },
      { messageId: a.id, acknowledged: false, code: "message_not_found" },
    ]);
    const [again] = (await app("/queues/pull/messages/receive", { json: {} })).json.messages;
    const after = Date.parse((await call(again, "nack", { receipt: again.receipt })).json.deliverAt) - door.clock.now();
    expect(after).toBeGreaterThanOrEqual(4_000);
    expect(after).toBeLessThanOrEqual(6_000);
    expect((await app("/queues/pull/redrive", { json: { messageIds: [d.id, "nonsense"] } })).json).toEqual({ redrivenMessages: 1 });
    expect((await app("/queues/pull/purge", { json: { scope: "dead" } })).status).toBe(200);
  });

  it("A5: client credentials of /oauth/token open this door", async () => {
    const statements = [{ allow: ["queues.*"], on: ["*"] }];
    const key = (await door.shop("/keys", { json: { name: "client", statements } })).json;
    const basic = Buffer.from(`${key.id}:${key.secret}`).toString("base64");
    const token = await door.request("/oauth/token", {
      key: null,
      raw: "grant_type=client_credentials",
      headers: { "content-type": "application/x-www-form-urlencoded", authorization: `Basic ${basic}` },
    });
    const sent = await app("/queues/tokens/messages", { json: { body: "x" }, key: token.json.access_token });
    expect([sent.status, typeof sent.json.messageId]).toEqual([200, "string"]);
    expect(code(await app("/queues/tokens", { key: "mlr_wrong" }))).toEqual([401, "unauthorized"]);
  });

  it("A6: a key reaches the environments, queues and secrets that its statements name, and others do not exist for it", async () => {
    await app("/environments", { json: { slug: "staging" } });
    await app("/queues/orders", { method: "PUT", json: { environment: "staging" } });
    await app("/queues/orders", { method: "PUT", json: {} });
    const keyFor = async (allow: string[], on: string[]): Promise<string> =>
      (await door.shop("/keys", { json: { name: "k", statements: [{ allow, on }] } })).json.secret;
    const production = await keyFor(["queues.*"], ["acme/shop/queues/*"]);
    expect((await app("/queues/orders", { key: production })).json.environment).toBe("production");
    expect(code(await app("/queues/orders?environment=staging", { key: production }))).toEqual([404, "queue_not_found"]);
    expect(code(await app("/environments/production/signing-secret", { key: production }))).toEqual([404, "environment_not_found"]);
    const staging = await keyFor(["queues.messages.send", "deployments.*"], ["acme/shop/environments/staging*"]);
    const json = { body: "x", environment: "staging" };
    expect((await app("/queues/orders/messages", { json, key: staging })).json.messageId).not.toBeNull();
    const maker = await keyFor(["queues.queues.create"], ["acme/shop/environments/staging*"]);
    // Sending does not include making queues, nor the other way round.
    expect(code(await app("/queues/fresh/messages", { json, key: maker }))).toEqual([403, "permission_denied"]);
    expect(code(await app("/queues/fresh?environment=staging"))).toEqual([404, "queue_not_found"]);
    expect(code(await app("/queues/fresh/messages", { json, key: staging }))).toEqual([403, "permission_denied"]);
    expect(code(await app("/environments/staging/signing-secret", { key: staging }))).toEqual([403, "permission_denied"]);
    expect(
      code(
        await app("/deployments/dpl_1", { method: "PUT", json: { url: "https://a.example.com", environment: "production" }, key: staging }),
      ),
    ).toEqual([404, "environment_not_found"]);
    const put = await app("/deployments/dpl_1", {
      method: "PUT",
      json: { url: "https://a.example.com", environment: "staging" },
      key: staging,
    });
    expect(put.json).toMatchObject({ id: "dpl_1", environment: "staging", state: "registered" });
    expect((await app("/deployments/dpl_1/promote", { method: "POST", json: {}, key: staging })).json.state).toBe("current");
    expect(code(await app("/deployments/dpl_1/promote", { method: "POST", key: production }))).toEqual([404, "deployment_not_found"]);
    expect((await app("/environments/staging/signing-secret")).json).toEqual({ secret: expect.stringMatching(/^whsec_/), next: null });
  });

  it("A5: a key may name the environment that its calls mean; another one is named as ever", async () => {
    const statements = [{ allow: ["queues.*"], on: ["*"] }];
    const made = await door.shop("/keys", { json: { name: "staging", environment: "staging", statements } });
    expect(made.json.environment).toBe("staging");
    const key: string = made.json.secret;
    expect((await app("/queues/orders", { key })).json.environment).toBe("staging");
    expect((await app("/queues/orders?environment=production", { key })).json.environment).toBe("production");
    expect(code(await door.shop("/keys", { json: { name: "x", environment: "nowhere", statements } }))).toEqual([
      404,
      "environment_not_found",
    ]);
  });

  it("C7, P18: a deployment's URL keeps to the endpoint rules, and its id to one environment", async () => {
    const put = (url: string, environment = "production") => app("/deployments/dpl_9", { method: "PUT", json: { url, environment } });
    for (const url of ["http://app.example.com", "https://10.0.0.1", "https://app.example.com:8443", "https://u:p@app.example.com"]) {
      const answer = await put(url);
      expect(code(answer)).toEqual([400, "invalid_target"]);
      expect(answer.json.error.details.path).toBe("url");
    }
    expect(code(await put("https://app.example.com/base?x=1"))).toEqual([400, "invalid_request"]);
    expect((await put("https://app.example.com/base")).json.state).toBe("registered");
    expect(code(await put("https://app.example.com", "staging"))).toEqual([400, "invalid_request"]);
    expect(code(await put("https://app.example.com", "nowhere"))).toEqual([404, "environment_not_found"]);
    expect(code(await app("/deployments/dpl_0"))).toEqual([404, "deployment_not_found"]);
    expect((await app("/deployments/dpl_9", { method: "DELETE" })).json.state).toBe("retired");
    expect((await app("/environments")).json.items.map(({ slug }: { slug: string }) => slug)).toEqual(["production", "staging"]);
    expect(code(await app("/environments", { json: { slug: "staging" } }))).toEqual([409, "name_taken"]);
  });
});
