import { connect } from "node:net";
import { Fault } from "@millrace/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, openDoor } from "./door.suite.ts";

let door: Door;
beforeAll(async () => {
  door = await openDoor("sqlite", {
    handlers: () => ({
      GetQueueStats: () => Promise.reject(new Error("SELECT secret FROM api_key failed at /srv/store.ts:12")),
      GetRedrive: () => Promise.reject(new Fault("overloaded", "too much is waiting", { retryAfterSeconds: 2.5 })),
    }),
  });
  await door.shop("/queues", { json: { name: "orders" } });
});
afterAll(() => door.close());

const send = (json: unknown) => door.shop("/queues/orders/messages", { json });
const body = '{"n":12345678901234567890, "a":1e400,  "a":2}';

/** Sends bytes on a socket of its own; answers all that comes back until the server closes it. */
function rawExchange(text: string, port = door.port): Promise<string> {
  return new Promise((resolve, reject) => {
    let back = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      back += chunk;
    });
    socket.on("close", () => resolve(back));
    socket.on("error", reject);
  });
}

describe("requests", () => {
  it("A1, BODY-06: a message's body is opaque text and comes back character for character", async () => {
    const sent = await send({ messages: [{ body }] });
    expect(sent.status).toBe(200);
    expect(sent.headers["content-type"]).toBe("application/json; charset=utf-8");
    const received = await door.shop("/queues/orders/messages/receive", { json: {} });
    expect(received.json.messages[0].body).toBe(body);
  });

  it("A2: an unknown field is refused with the name that was probably meant", async () => {
    const answer = await send({ messages: [{ body: "a", delaySecond: 5 }] });
    expect(answer.status).toBe(400);
    expect(answer.json.error).toMatchObject({
      code: "invalid_request",
      message: "messages.0.delaySecond: unknown field; did you mean delaySeconds?",
      details: { path: "messages.0.delaySecond", index: 0 },
    });
    const far = await door.shop("/queues", { json: { name: "x", zebra: 1 } });
    expect(far.json.error.message).toBe("zebra: unknown field");
    const nested = await door.shop("/queues", { json: { name: "x", rateLimit: { count: 1, periodSecond: 1 } } });
    expect(nested.json.error.details.path).toBe("rateLimit.periodSecond");
    const query = await door.shop("/queues?limt=5");
    expect(query.json.error.message).toBe("limt: unknown field; did you mean limit?");
  });

  it.each([
    [{ name: "x", visibilityTimeoutSeconds: 0 }, "visibilityTimeoutSeconds", "must be at least 1", "0"],
    [{ name: "x", visibilityTimeoutSeconds: 43_201 }, "visibilityTimeoutSeconds", "must be at most 43,200", "43201"],
    [{ name: "x", delaySeconds: "5" }, "delaySeconds", "must be a number", "5"],
    [{ name: "x", delaySeconds: 1.5 }, "delaySeconds", "must be a whole number", "1.5"],
    [{ name: "x", groups: { concurrency: 1001 } }, "groups.concurrency", "must be at most 1,000", "1001"],
    [{ name: "x", type: "lifo" }, "type", "must be one of standard, fifo", "lifo"],
    [{ name: "a/b" }, "name", "must be 1 to 128 of letters, digits, _ . : -", "a/b"],
    [{}, "name", "is required", undefined],
    [[], "body", "must be an object", "an array of 0"],
    [null, "body", "must be an object", "null"],
    [{ name: { deep: true } }, "name", "must be a string", "an object"],
    [{ name: "x".repeat(5000) }, "name", "must be 1 to 128 of letters, digits, _ . : -", `${"x".repeat(99)}…`],
  ])("A2: %j is refused naming field, bound and what came", async (json, path, bound, got) => {
    const answer = await door.shop("/queues", { json });
    expect(answer.status).toBe(400);
    expect(answer.json.error.details).toEqual(got === undefined ? { path, bound } : { path, bound, got });
    expect(answer.json.error.requestId).toBe(answer.headers["x-request-id"]);
  });

  it("A2: an array out of bounds is told in entries", async () => {
    expect((await send({ messages: [] })).json.error.details.bound).toBe("must have at least 1 entry");
    expect((await send({ messages: Array(11).fill({ body: "" }) })).json.error.details.bound).toBe("must have at most 10 entries");
  });

  it("A2: malformed JSON is a 400 with its position, and a body that is no JSON a 415", async () => {
    const broken = await door.shop("/queues", { raw: '{"name":\n"x",}' });
    expect(broken.status).toBe(400);
    expect(broken.json.error.code).toBe("invalid_json");
    expect(broken.json.error.message).toContain("line 2, column 5 (offset 13)");
    for (const headers of [{ "content-type": "text/plain" }, { "content-type": "application/x-www-form-urlencoded" }]) {
      const answer = await door.shop("/queues", { raw: "name=x", headers });
      expect([answer.status, answer.json.error.code]).toEqual([415, "unsupported_media_type"]);
    }
    const packed = await door.shop("/queues", { json: { name: "x" }, headers: { "content-encoding": "gzip" } });
    expect(packed.status).toBe(415);
  });

  it("A2: a body over the operation's limit is a 413 naming it, announced or not, and the next request works", async () => {
    const raw = `{"name":"${"x".repeat(1024 * 1024)}"}`;
    const told = await door.shop("/queues", { raw });
    expect([told.status, told.json.error.code]).toEqual([413, "payload_too_large"]);
    expect(told.json.error.message).toContain("1,048,576 bytes");
    const chunked = await door.shop("/queues", { raw, headers: { "transfer-encoding": "chunked", "content-length": [] } });
    expect(chunked.status).toBe(413);
    const larger = await send({ messages: Array(10).fill({ body: "x".repeat(200_000) }) });
    expect(larger.status).toBe(200);
  });

  it("Q5: a lone surrogate is refused by its path", async () => {
    const answer = await door.shop("/queues/orders/messages", { raw: '{"messages":[{"body":"\\ud83d"}]}' });
    expect(answer.status).toBe(400);
    expect(answer.json.error.details.path).toBe("messages.0.body");
  });

  it("A2: parameters given twice or badly encoded, in query or path, are a 400", async () => {
    expect((await door.shop("/queues?limit=1&limit=2")).json.error.message).toBe("limit: must be given once");
    for (const path of ["/queues?cursor=%zz", "/queues?cursor=%ed%a0%80", "/queues/%ff", "/queues/%zz"]) {
      const answer = await door.shop(path);
      expect([path, answer.status, answer.json.error.code]).toEqual([path, 400, "invalid_request"]);
    }
  });

  it("A3: a limit in a query is written in digits, whatever else JavaScript reads as a number", async () => {
    expect((await door.shop("/queues?limit=2")).status).toBe(200);
    for (const limit of ["1e2", "0x10", "%201", "1.0", "+1", "-1", "", "Infinity", "1_0", "9".repeat(20)]) {
      const answer = await door.shop(`/queues?limit=${limit}`);
      expect([limit, answer.status, answer.json.error.message.slice(0, 48)]).toEqual([
        limit,
        400,
        expect.stringMatching(/^limit: must be a whole number, in digits/),
      ]);
    }
    expect((await door.shop("/queues?limit=201")).json.error.details).toMatchObject({ path: "limit", bound: "must be at most 200" });
  });

  it("A2: __proto__ in a body is an unknown field and pollutes nothing", async () => {
    const answer = await door.shop("/queues", { raw: '{"name":"x","__proto__":{"type":"fifo"}}' });
    expect([answer.status, answer.json.error.details.path]).toEqual([400, "__proto__"]);
    const attribute = await door.shop("/queues/orders/messages", { raw: '{"messages":[{"body":"","attributes":{"__proto__":{"x":1}}}]}' });
    expect(attribute.status).toBe(400);
    expect(({} as Record<string, unknown>).x).toBeUndefined();
  });

  it("A1: operations without a body take none, an empty one and {}, and refuse any other", async () => {
    for (const raw of ["", "{}"]) {
      const answer = await door.shop("/queues/nobody", { method: "DELETE", raw });
      expect(answer.status).toBe(404);
    }
    const refused = await door.shop("/queues/nobody", { method: "DELETE", raw: '{"force":true}' });
    expect([refused.status, refused.json.error.message]).toEqual([400, "body: this operation takes none"]);
  });
});

describe("routes and methods", () => {
  it("A1: a path that is not there is a 404, another method a 405 that names what is allowed", async () => {
    expect((await door.request("/v2/queues")).json.error.code).toBe("not_found");
    const answer = await door.shop("/queues/orders", { method: "PUT", json: {} });
    expect([answer.status, answer.json.error.code, answer.headers.allow]).toEqual([
      405,
      "method_not_allowed",
      "DELETE, GET, HEAD, OPTIONS, PATCH",
    ]);
    const health = await door.request("/healthz", { method: "POST", json: {} });
    expect([health.status, health.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });

  it("A1: HEAD answers what GET would without a body, OPTIONS what is allowed, and no origin is let in", async () => {
    const head = await door.shop("/queues/orders", { method: "HEAD" });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(Number(head.headers["content-length"])).toBeGreaterThan(100);
    const options = await door.shop("/queues", { method: "OPTIONS", key: null, headers: { origin: "https://evil.example" } });
    expect([options.status, options.headers.allow]).toEqual([204, "GET, HEAD, OPTIONS, POST"]);
    expect(options.headers["access-control-allow-origin"]).toBeUndefined();
    expect((await door.request("/nothing", { method: "OPTIONS" })).status).toBe(404);
  });

  it("A2: the request id of the caller is kept when it is sane and replaced when it is not", async () => {
    const kept = await door.request("/healthz", { headers: { "x-request-id": "trace-1/2:3" } });
    expect(kept.headers["x-request-id"]).toBe("trace-1/2:3");
    for (const bad of ["x".repeat(129), "a b", '"><script>', ""]) {
      const made = await door.request("/healthz", { headers: { "x-request-id": bad } });
      expect(made.headers["x-request-id"]).toMatch(/^[\w-]{12}\.[0-9a-z]+$/);
    }
  });

  it("A2: what nobody expected is a 500 that tells nothing, logged under its request id", async () => {
    const answer = await door.shop("/queues/orders/stats");
    expect([answer.status, answer.json.error.code]).toEqual([500, "internal"]);
    expect(answer.text).not.toMatch(/SELECT|store\.ts|api_key/);
    expect(door.logged.at(-1)).toMatchObject({ requestId: answer.json.error.requestId });
  });

  it("A4: an overloaded answer says when to come back, in whole seconds", async () => {
    const answer = await door.shop("/queues/orders/redrives/x");
    expect([answer.status, answer.headers["retry-after"]]).toEqual([503, "3"]);
  });

  it("A2: every answer forbids type guessing and storing", async () => {
    for (const path of ["/healthz", "/v1/organizations", "/nothing", "/docs"]) {
      const { headers } = await door.request(path);
      expect([headers["x-content-type-options"], headers["cache-control"]]).toEqual(["nosniff", "no-store"]);
    }
  });
});

describe("connections", () => {
  it("A2: what is not HTTP, or has headers without end, gets a Problem and a closed connection", async () => {
    const nonsense = await rawExchange("HELLO\r\n\r\n");
    expect(nonsense).toMatch(/^HTTP\/1.1 400 [\s\S]*"code":"invalid_request"/);
    const large = await rawExchange(`GET /healthz HTTP/1.1\r\nHost: x\r\nA: ${"x".repeat(20_000)}\r\n\r\n`);
    expect(large).toMatch(/^HTTP\/1.1 431 /);
  });

  it("A4: a client that sends its headers or its body too slowly is cut off with a 408", async () => {
    const hasty = await openDoor("sqlite", { limits: { headersTimeoutMs: 100, requestTimeoutMs: 200 } });
    const head = `POST /v1/organizations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${hasty.apiKey}\r\n`;
    expect(await rawExchange(head, hasty.port)).toMatch(/^HTTP\/1.1 408 [\s\S]*"code":"invalid_request"/);
    const slow = `${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{`;
    expect(await rawExchange(slow, hasty.port)).toMatch(/^HTTP\/1.1 408 /);
    await hasty.close();
  });

  it("A2: a truncated body gets no effect and no 5xx", async () => {
    const before = door.logged.length;
    await new Promise<void>((resolve) => {
      const socket = connect(door.port, "127.0.0.1", () => {
        socket.write(`POST /v1/organizations/acme/projects/shop/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${door.apiKey}\r\n`);
        socket.write('Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name":"cut"');
        socket.end();
      });
      socket.on("close", () => resolve());
      socket.resume();
    });
    expect((await door.shop("/queues/cut")).status).toBe(404);
    expect(door.logged.length).toBe(before);
  });
});

describe("probes", () => {
  it("A1: /healthz and /readyz answer without a key, /readyz is a 503 while the store is away, / leads on", async () => {
    expect((await door.request("/healthz", { key: null })).json).toEqual({ status: "ok" });
    expect((await door.request("/readyz", { key: null })).status).toBe(200);
    expect((await door.request("/", { key: null })).headers.location).toBe("/docs");
    const away = await openDoor("sqlite", { ready: () => Promise.reject(new Error("no connection to postgres://user:pw@db")) });
    const answer = await away.request("/readyz", { key: null });
    expect([answer.status, answer.headers["retry-after"], answer.json]).toEqual([503, "1", { status: "unavailable" }]);
    await away.close();
  });

  it("A1: /metrics counts requests by operation and status, and nothing a client can choose is a label", async () => {
    await door.shop("/queues/%3Cscrawl%3E");
    const { text } = await door.request("/metrics", { key: null });
    expect(text).toMatch(/millrace_http_requests_total\{operation="GetQueue",status="404"\} [1-9]/);
    expect(text).not.toContain("scrawl");
  });
});
