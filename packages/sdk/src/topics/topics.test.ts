import { type OperationName, operations, routes } from "@millrace/contract";
import { afterEach, describe, expect, it } from "vitest";
import type { z } from "zod";
import { header, inTurn, json, problem, type Scripted, scripted } from "../scripted.fixture.ts";

let opened: Scripted | undefined;
afterEach(() => opened?.close());
const served = async (...given: Parameters<typeof scripted>): Promise<Scripted> => {
  opened = await scripted(...given);
  return opened;
};

const iso = "2026-01-02T03:04:05.006Z";
const topic = { id: "t1", name: "orders", display_name: null, retry_policy: { max_attempts: 3 }, created_at: iso };
const subscription = {
  id: "s1",
  state: "pending",
  filter_policy: { some_key: ["x"] },
  status: { last_error: { class: "http", at: iso } },
  confirmable_until: iso,
};
const taken = { message_id: "m1", accepted_at: iso };

/** An answer to any call of this door. */
function answer(path: string, method: string) {
  if (method === "DELETE") return { status: 204 };
  if (/\/signing_secret$/.test(path)) return json({ signing_secret: { secret: "whsec_x" } });
  if (/\/filter_policies\/test$/.test(path)) return json({ result: { matched: true, failures: [] } });
  if (/\/explanation/.test(path)) return json({ notification: taken, verdicts: [], meta: { marker: null } });
  if (/\/publish_batch$/.test(path)) return json({ results: [{ id: "0", notification: taken }] });
  if (/\/publish$|\/v1\/notifications\//.test(path)) return json({ notification: { ...taken, filtered_out: 1 } });
  if (/\/deliveries(\?|$)/.test(path)) return json({ deliveries: [{ id: "d1", next_attempt_at: null }], meta: { marker: null } });
  if (/\/v1\/deliveries\//.test(path)) return json({ delivery: { id: "d1", last_status: 500 } });
  if (method === "GET" && /\/subscriptions\?/.test(path)) return json({ subscriptions: [subscription], meta: { marker: null } });
  if (/\/subscriptions/.test(path)) return json({ subscription });
  if (method === "GET" && /\/topics\?/.test(path)) return json({ topics: [topic], meta: { marker: null } });
  return json({ topic });
}

/** The operation that a request is. */
function operationOf(method: string, path: string): OperationName | undefined {
  const found = Object.entries(routes).find(
    ([, route]) => route.method === method && new RegExp(`^${route.path.replace(/\{\w+\}/g, "[^/]+")}$`).test(path),
  );
  return found?.[0] as OperationName | undefined;
}

/** Names in `given` that the schema does not know, however nested: this door passes over them, so a misspelled one would go unseen. */
function unknownNames(schema: z.ZodType, given: unknown, path = ""): string[] {
  const { shape, innerType } = schema.def as { shape?: Record<string, z.ZodType>; innerType?: z.ZodType };
  if (innerType !== undefined) return unknownNames(innerType, given, path);
  if (shape === undefined || typeof given !== "object" || given === null) return [];
  return Object.entries(given).flatMap(([name, value]) => {
    const below = shape[name];
    return below === undefined ? [`${path}${name}`] : unknownNames(below, value, `${path}${name}.`);
  });
}

describe("topics of a client", () => {
  it("T2, C11: every call is an operation of the contract, carries only what its schema knows and takes, and names the account", async () => {
    const { client, server } = await served(({ path, method }) => answer(path, method));
    const { topics } = client;
    const retryPolicy = { maxAttempts: 5, minDelay: "1s", maxDelay: "1h", timeout: 10, maxAge: "2d" } as const;
    await topics.create("orders", { displayName: "Orders", fifo: true, retryPolicy });
    await topics.ensure("orders", { displayName: null });
    await topics.list();
    await topics.notification("m1");
    await topics.delivery("d1");
    await topics.redeliver("d1");
    await topics.explain("m1", { subscriptionId: "s1" });
    await topics.testFilter({ store: ["berlin"] }, { scope: "attributes", attributes: { store: "paris" }, message: "m" });
    const orders = client.topic("crn:millrace:notifications:local:shop:topic/orders");
    const options = {
      subject: "s",
      attributes: { text: "a", number: 1.5, list: ["a", 1], bytes: Uint8Array.of(1, 2), typed: { type: "Number", value: "7" } },
      perProtocol: { webhook: "w", queue: { q: 1 } },
      groupKey: "g",
      deduplicationKey: "d",
    } as const;
    await orders.publish({ order: 7 }, options);
    await orders.publishBatch([{ message: "a", ...options }]);
    await orders.subscribe(
      { webhook: "https://hooks.example.com" },
      {
        rawMessageDelivery: true,
        filterPolicy: { store: ["berlin"] },
        filterPolicyScope: "message",
        retryPolicy,
        deadLetterQueue: "failures",
        maxInFlight: 5,
        rateLimit: { count: 10, period: "1m" },
      },
    );
    await orders.subscribe({ queue: "orders" }, { deadLetterQueue: null, rateLimit: null, retryPolicy: null, filterPolicy: null });
    await orders.subscriptions();
    await orders.info();
    await orders.update({ retryPolicy: null });
    await orders.delete();
    const one = topics.subscription("s1");
    await one.info();
    await one.update({ rawMessageDelivery: false });
    await one.requestConfirmation();
    await one.signingSecret();
    await one.rotateSigningSecret();
    await one.deliveries({ state: "failed" });
    await one.delete();

    const seen = new Set<string>();
    for (const request of server.requests) {
      const { method, path, text, headers } = request;
      const { pathname, searchParams } = new URL(path, "http://m");
      const name = operationOf(method, pathname);
      expect(name, `${method} ${path}`).toBeDefined();
      const operation = operations[name as OperationName];
      seen.add(name as string);
      const given = text === "" ? undefined : JSON.parse(text);
      expect([name, unknownNames(operation.body, given)]).toEqual([name, []]);
      expect([name, operation.body.safeParse(given).error]).toEqual([name, undefined]);
      expect([name, operation.query.safeParse(Object.fromEntries(searchParams)).error]).toEqual([name, undefined]);
      expect(headers["x-account-id"]).toBe("shop");
      expect([name, headers["idempotency-key"] !== undefined]).toEqual([name, operation.idempotent]);
    }
    expect(seen.size).toBe(21);
  });

  it("T2, C11: answers come in camel case with dates, and what is the user's own stays as it is", async () => {
    const { client } = await served(({ path, method }) => answer(path, method));
    expect(await client.topic("orders").info()).toEqual({
      id: "t1",
      name: "orders",
      displayName: null,
      retryPolicy: { maxAttempts: 3 },
      createdAt: new Date(iso),
    });
    expect(await client.topics.subscription("s1").info()).toEqual({
      id: "s1",
      state: "pending",
      filterPolicy: { some_key: ["x"] },
      status: { lastError: { class: "http", at: new Date(iso) } },
      confirmableUntil: new Date(iso),
    });
    expect(await client.topic("orders").publish("x")).toEqual({ messageId: "m1", acceptedAt: new Date(iso), filteredOut: 1 });
  });

  it("T3: text is published as it is, other values as JSON, and values become attributes of their type", async () => {
    const { client, server } = await served(() => json({ notification: taken }));
    const orders = client.topic("orders");
    await orders.publish("plain", { attributes: { a: "x", b: 2, c: ["y"], d: Uint8Array.of(255) } });
    await orders.publish({ order: 7 });
    await orders.publish("d", { perProtocol: { queue: { q: 1 } } });
    const bodies = server.requests.map(({ text }) => JSON.parse(text));
    expect(bodies).toEqual([
      {
        message: "plain",
        attributes: {
          a: "x",
          b: { type: "Number", value: 2 },
          c: { type: "String.Array", value: ["y"] },
          d: { type: "Binary", value: "/w==" },
        },
      },
      { message: '{"order":7}' },
      { message: { default: "d", queue: '{"q":1}' }, message_structure: "json" },
    ]);
    await expect(orders.publish(Uint8Array.of(1))).rejects.toThrow(/^message: must be text/);
    await expect(orders.publish("x", { attributes: { a: true as never } })).rejects.toThrow(/^attributes\.a: must be/);
  });

  it("T3: a publication whose answer is lost is repeated under its key, so that it is published once", async () => {
    const { client, server } = await served(inTurn(problem(503, "overloaded"), json({ notification: taken }, 200)));
    await client.topic("orders").publish("x");
    const keys = server.requests.map((request) => header(request, "idempotency-key"));
    expect(keys).toEqual(["key-1", "key-1"]);
  });

  it("T3: a batch of any size goes out by tens, with a result for each in order", async () => {
    const { client, server } = await served(({ text }) => {
      const { entries } = JSON.parse(text) as { entries: { id: string; message: string }[] };
      const results = entries.map(({ id, message }) =>
        message === "5"
          ? { id, error: { code: "invalid_request", message: "no" } }
          : { id, notification: { message_id: `m${message}`, accepted_at: iso } },
      );
      return json({ results: results.reverse() });
    });
    const results = await client.topic("orders").publishBatch(Array.from({ length: 23 }, (_, at) => ({ message: String(at) })));
    expect(server.requests).toHaveLength(3);
    expect(results.map(({ messageId }) => messageId)).toEqual(Array.from({ length: 23 }, (_, at) => (at === 5 ? null : `m${at}`)));
    expect(results[5]).toEqual({ messageId: null, code: "invalid_request", error: "no" });
  });

  it("C11, T2: when a later part of a batch fails, what was published before is not lost sight of", async () => {
    const { client, server } = await served((request) => {
      const { entries } = request.json<{ entries: { id: string }[] }>();
      if (entries[0]?.id !== "0") return problem(404, "topic_not_found");
      return json({ results: entries.map(({ id }) => ({ id, notification: { message_id: `m${id}` } })) });
    });
    const results = await client.topic("orders").publishBatch(Array.from({ length: 25 }, (_, at) => ({ message: String(at) })));
    expect(server.requests).toHaveLength(2);
    expect(results).toHaveLength(25);
    expect(results[9]).toMatchObject({ messageId: "m9" });
    expect(results[10]).toMatchObject({ messageId: null, code: "topic_not_found" });
    expect(results[24]).toMatchObject({ messageId: null, code: "not_sent" });
  });

  it("T2: lists are read page by page up to what was asked for", async () => {
    const { client, server } = await served(({ path }) => {
      const marker = new URL(path, "http://m").searchParams.get("marker");
      return json({ topics: [topic, topic], meta: { marker: marker === "p2" ? null : marker === null ? "p1" : "p2" } });
    });
    expect(await client.topics.list()).toHaveLength(6);
    expect(await client.topics.list(3)).toHaveLength(4);
    expect(server.requests.map(({ path }) => path)).toEqual([
      "/v1/topics?limit=100",
      "/v1/topics?limit=100&marker=p1",
      "/v1/topics?limit=100&marker=p2",
      "/v1/topics?limit=3",
      "/v1/topics?limit=1&marker=p1",
    ]);
  });

  it("T2: ensure changes the topic that is there, and deleting what is not there answers false", async () => {
    const { client, server } = await served(
      inTurn(problem(409, "topic_exists"), json({ topic }), problem(404, "topic_not_found"), problem(404, "subscription_not_found")),
    );
    await client.topics.ensure("orders", { displayName: "Orders", fifo: true });
    expect(JSON.parse(server.requests[1]?.text ?? "")).toEqual({ display_name: "Orders" });
    expect(await client.topic("orders").delete()).toBe(false);
    expect(await client.topics.subscription("s1").delete()).toBe(false);
  });
});
