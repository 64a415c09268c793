import { afterEach, describe, expect, it, vi } from "vitest";
import { ApiError, ConfigurationError, ConnectionError, Millrace, queue, RequestTimeoutError } from "./index.ts";
import { header, inTurn, json, problem, type Scripted, scripted } from "./scripted.fixture.ts";

const opened: Scripted[] = [];
const open = async (...given: Parameters<typeof scripted>): Promise<Scripted> => {
  const one = await scripted(...given);
  opened.push(one);
  return one;
};
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const one of opened.splice(0)) await one.close();
});

const sent = json({ messageId: "m1", deduplicated: false, deliverAt: "2026-01-02T03:04:05.678Z" });
const never = new Promise<never>(() => {});

describe("calls that may be repeated", () => {
  it("C11: a send is repeated under one Idempotency-Key when the server is busy, the connection breaks or no answer comes", async () => {
    const answers = inTurn(
      problem(503, "overloaded"),
      { drop: "request" },
      { drop: "body", body: "{}" },
      problem(409, "idempotency_in_progress"),
      sent,
    );
    const { client, server, waits } = await open(answers);
    expect(await client.queue("emails").send({ to: "me" })).toEqual({
      messageId: "m1",
      deduplicated: false,
      deliverAt: new Date("2026-01-02T03:04:05.678Z"),
    });
    expect(server.requests.map((request) => header(request, "idempotency-key"))).toEqual(Array(5).fill("key-1"));
    expect(new Set(server.requests.map(({ text }) => text)).size).toBe(1);
    expect(waits).toEqual([200, 400, 800, 1600]);
    await client.queue("emails").send({ to: "me" });
    expect(header(server.requests[5], "idempotency-key")).toBe("key-2");
  });

  it("C11: without an answer in time a send is repeated, and at last rejects with a RequestTimeoutError", async () => {
    const { client, server } = await open(() => ({ after: never }), { timeoutMs: 500, maxRetries: 1 });
    await expect(client.queue("emails").send(1)).rejects.toThrow(new RequestTimeoutError(500));
    expect(server.requests.map((request) => header(request, "idempotency-key"))).toEqual(["key-1", "key-1"]);
  });

  it("C11: what could take effect twice is not repeated: a receive whose answer was lost", async () => {
    const { client, server } = await open(inTurn({ drop: "request" }, json({ messages: [] })));
    await expect(client.queue("emails").receive()).rejects.toThrow(ConnectionError);
    expect(server.requests).toHaveLength(1);
    const busy = await open(inTurn(problem(429, "overloaded"), problem(503, "unavailable"), json({ messages: [] })));
    expect(await busy.client.queue("emails").receive()).toEqual([]);
    expect(busy.server.requests).toHaveLength(3);
  });

  it("C11: Retry-After is waited for, up to 30 s; asked for more, the call fails and says how long", async () => {
    const { client, waits } = await open(inTurn(problem(429, "overloaded", { "retry-after": "7" }), sent));
    await client.queue("emails").send(1);
    expect(waits).toEqual([7000]);
    const long = await open(() => problem(429, "overloaded", { "retry-after": "31" }));
    const error = await long.client
      .queue("emails")
      .send(1)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ status: 429, retryAfterMs: 31_000, retryable: true });
    expect(long.server.requests).toHaveLength(1);
  });

  it("C11: tries end; what the client did wrong is not tried again", async () => {
    const busy = await open(() => problem(503, "overloaded"), { maxRetries: 2 });
    await expect(busy.client.queue("emails").info()).rejects.toMatchObject({ code: "overloaded", status: 503 });
    expect(busy.server.requests).toHaveLength(3);
    const { client, server } = await open(() => problem(403, "permission_denied"));
    await expect(client.queue("emails").send(1)).rejects.toMatchObject({ retryable: false });
    expect(server.requests).toHaveLength(1);
  });
});

describe("errors", () => {
  it("C11: a refusal is an ApiError with the server's code, message, request id and details", async () => {
    const { client } = await open(() => problem(404, "queue_not_found"));
    const error = await client
      .queue("emails")
      .info()
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({
      name: "ApiError",
      status: 404,
      code: "queue_not_found",
      message: "no: queue_not_found",
      requestId: "req_1",
      details: { path: "x" },
    });
  });

  it("C11: answers that are not the server's are errors too, never a crash: pages, arrays, null, redirects", async () => {
    for (const [answer, code] of [
      [{ status: 404, body: "<html>" }, "http_404"],
      [{ status: 500, body: "null" }, "http_500"],
      [{ status: 400, body: "[]" }, "http_400"],
      [{ status: 302, headers: { location: "http://127.0.0.1:1/" } }, "http_302"],
      [{ status: 200, body: "<html>" }, "invalid_answer"],
    ] as const) {
      const { client } = await open(() => answer);
      await expect(client.queue("emails").info()).rejects.toMatchObject({ code });
    }
  });

  it("C11: a server that is not there is a ConnectionError that names it", async () => {
    const { server } = await open(() => ({}));
    await server.close();
    opened.pop();
    const client = new Millrace({ url: server.url, apiKey: "k", project: "p", maxRetries: 0 });
    await expect(client.queue("emails").send(1)).rejects.toThrow(`cannot reach ${server.url}`);
  });

  it("C11: an aborted call rejects with the signal's reason and is not repeated", async () => {
    const { client, server } = await open(() => ({ after: never }));
    const stop = new AbortController();
    const receiving = client.queue("emails").receive({ wait: 20, signal: stop.signal });
    await server.next();
    stop.abort(new Error("enough"));
    await expect(receiving).rejects.toThrow("enough");
    await expect(client.queue("emails").receive({ signal: stop.signal })).rejects.toThrow("enough");
    expect(server.requests).toHaveLength(1);
  });
});

describe("who calls", () => {
  it("C15: the environment says where, as whom and which project; what is passed wins", async () => {
    const { server } = await open(() => sent);
    vi.stubEnv("MILLRACE_URL", `${server.url}/`);
    vi.stubEnv("MILLRACE_API_KEY", "mlr_env");
    vi.stubEnv("MILLRACE_PROJECT", "my shop");
    await queue("emails").send(1);
    expect(server.requests[0]).toMatchObject({
      path: "/applications/my%20shop/queues/emails/messages",
      headers: { authorization: "Bearer mlr_env" },
    });
    await new Millrace({ apiKey: "mlr_other", project: "other", environment: "staging" }).queue("a:b").send(1);
    expect(server.requests[1]).toMatchObject({
      path: "/applications/other/queues/a%3Ab/messages",
      headers: { authorization: "Bearer mlr_other" },
    });
    expect(server.requests[1]?.json()).toMatchObject({ environment: "staging" });
  });

  it("C15: what is missing is said when it is needed, not before", async () => {
    for (const name of ["MILLRACE_URL", "MILLRACE_API_KEY", "MILLRACE_PROJECT"]) vi.stubEnv(name, undefined);
    const handle = new Millrace().queue("emails");
    expect(handle.handler(() => {})).toBeTypeOf("function");
    await expect(handle.send(1)).rejects.toThrow("Set MILLRACE_PROJECT");
    await expect(new Millrace({ project: "shop" }).queue("emails").send(1)).rejects.toThrow("Set MILLRACE_API_KEY");
    expect(() => new Millrace({ url: "localhost:7400" })).toThrow(ConfigurationError);
    expect(() => new Millrace({ url: "7400" })).toThrow("7400 is not an http or https URL");
  });

  it("C15: client credentials are traded for a token once, again before it ends, and again when it is refused", async () => {
    let now = 1_000_000;
    let tokens = 0;
    let refuse = false;
    const credentials = { clientId: "key 1", clientSecret: "mlr_s&cret" };
    const { client, server } = await open(
      (request) => {
        if (request.path === "/oauth/token") return json({ access_token: `t${++tokens}`, token_type: "Bearer", expires_in: 3600 });
        if (!refuse) return sent;
        refuse = false;
        return problem(401, "unauthorized");
      },
      { credentials, runtime: { now: () => now } },
    );
    const handle = client.queue("emails");
    const used = () => server.requests.filter(({ path }) => path !== "/oauth/token").map((request) => header(request, "authorization"));
    await Promise.all([handle.send(1), handle.send(2), handle.send(3)]);
    expect(used()).toEqual(Array(3).fill("Bearer t1"));
    expect(server.requests.filter(({ path }) => path === "/oauth/token").map(({ text }) => text)).toEqual([
      "grant_type=client_credentials&client_id=key+1&client_secret=mlr_s%26cret",
    ]);
    now += 3_539_999;
    await handle.send(4);
    expect(used().at(-1)).toBe("Bearer t1");
    now += 1;
    await handle.send(5);
    expect(used().at(-1)).toBe("Bearer t2");
    refuse = true;
    await handle.send(6);
    expect(used().slice(-2)).toEqual(["Bearer t2", "Bearer t3"]);
  });

  it("C15: credentials that are refused are an ApiError, at once", async () => {
    const { client, server } = await open(() => json({ error: "invalid_client", error_description: "the client is unknown" }, 401), {
      credentials: { clientId: "x", clientSecret: "y" },
    });
    await expect(client.queue("emails").send(1)).rejects.toMatchObject({
      code: "invalid_client",
      status: 401,
      message: "the client is unknown",
    });
    expect(server.requests).toHaveLength(1);
  });
});
