import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../door.suite.ts";

describe.each<Engine>(["sqlite", "postgres"])("topics through the Basaltic door on %s", (engine) => {
  let door: Door;
  let account: string;
  beforeAll(async () => {
    door = await openDoor(engine);
    account = (await door.shop("")).json.id;
    await door.request("/v1/organizations/acme/projects", { json: { name: "other" } });
  });
  afterAll(() => door.close());

  const call = (path: string, { headers, ...asked }: Asked = {}): Promise<Answered> =>
    door.request(`/v1${path}`, { headers: { "x-account-id": "shop", ...headers }, ...asked });
  const create = (json: Record<string, unknown>, asked?: Asked) => call("/topics", { json, ...asked });
  const code = ({ status, json }: Answered): unknown => [status, json?.error?.code];
  const keyFor = async (statements: unknown, name: string): Promise<string> =>
    (await door.shop("/keys", { json: { name, statements } })).json.secret;

  it("T1, T2: a topic is made, and found by its name, its id and its CRN; unknown fields are passed over", async () => {
    const made = await create({ name: "orders", display_name: "Orders", colour: "blue" });
    expect(made.status).toBe(201);
    const { topic } = made.json;
    expect(topic).toMatchObject({
      name: "orders",
      crn: `crn:millrace:notifications:local:${account}:topic/orders`,
      fifo: false,
      display_name: "Orders",
      retry_policy: null,
      confirmed_subscriptions: 0,
      pending_subscriptions: 0,
    });
    const byName = `crn:millrace:notifications:local:shop:topic/orders`;
    for (const reference of ["orders", topic.id, topic.id.toUpperCase(), topic.crn, byName])
      expect((await call(`/topics/${encodeURIComponent(reference)}`)).json).toEqual({ topic });
    for (const elsewhere of [
      topic.crn.replace(":local:", ":north:"),
      topic.crn.replace(account, "other"),
      topic.crn.replace(":notifications:", ":queues:"),
      `${topic.crn}/subscription/${topic.id}`,
      "crn:",
      "nothing",
    ])
      expect(code(await call(`/topics/${encodeURIComponent(elsewhere)}`)), elsewhere).toEqual([404, "topic_not_found"]);
  });

  it("T2: a name is taken once in its account, until its topic is deleted; then it is another topic's", async () => {
    const first = await create({ name: "again" });
    expect(code(await create({ name: "again" }))).toEqual([409, "topic_exists"]);
    expect((await create({ name: "again" }, { headers: { "x-account-id": "other" } })).status).toBe(201);
    expect((await call("/topics/again", { method: "DELETE" })).status).toBe(204);
    expect(code(await call("/topics/again", { method: "DELETE" }))).toEqual([404, "topic_not_found"]);
    expect(code(await call(`/topics/${first.json.topic.id}`))).toEqual([404, "topic_not_found"]);
    const second = await create({ name: "again" });
    expect(second.json.topic.id).not.toBe(first.json.topic.id);
  });

  it("T2: settings that are not given stay, null unsets; bounds are named by their path", async () => {
    await create({ name: "settings", display_name: "Old", retry_policy: { max_attempts: 5, min_delay_seconds: 2 } });
    const patch = (json: unknown) => call("/topics/settings", { method: "PATCH", json });
    expect((await patch({ display_name: "New" })).json.topic).toMatchObject({
      display_name: "New",
      retry_policy: { max_attempts: 5, min_delay_seconds: 2 },
    });
    expect((await patch({ retry_policy: null })).json.topic).toMatchObject({ display_name: "New", retry_policy: null });
    for (const [json, path] of [
      [{ name: "a b" }, "name"],
      [{ name: ".." }, "name"],
      [{ name: "ok", retry_policy: { max_attempts: 101 } }, "retry_policy.max_attempts"],
      [{ name: "ok", retry_policy: { timeout_seconds: 61 } }, "retry_policy.timeout_seconds"],
      [{ name: "ok", display_name: "x".repeat(257) }, "display_name"],
    ] as const) {
      const refused = await create(json);
      expect([refused.status, refused.json.error.details.path]).toEqual([400, path]);
    }
  });

  it("T11: a longest delay below the shortest one is refused when both are given", async () => {
    const refused = await create({ name: "delays", retry_policy: { min_delay_seconds: 10, max_delay_seconds: 9 } });
    expect([refused.status, refused.json.error.details.path]).toEqual([400, "retry_policy.max_delay_seconds"]);
    const alone = await create({ name: "delays", retry_policy: { min_delay_seconds: 7200 } });
    expect(alone.json.topic.retry_policy).toEqual({ min_delay_seconds: 7200 });
  });

  it("T2, A3: topics are listed by name, page by page, with the total and a marker", async () => {
    const headers = { "x-account-id": "other" };
    for (const name of ["b", "a", "C", "d"]) await create({ name }, { headers });
    const all = await call("/topics?limit=200", { headers });
    expect(all.json.topics.map(({ name }: { name: string }) => name)).toEqual(["C", "a", "again", "b", "d"]);
    expect(all.json.meta).toEqual({ total: 5, limit: 200, marker: null, has_more: false });
    const first = await call("/topics?limit=2", { headers });
    expect(first.json.meta).toMatchObject({ total: 5, limit: 2, has_more: true });
    // What is deleted between two pages leaves no gap.
    await call("/topics/a", { method: "DELETE", headers });
    const second = await call(`/topics?limit=2&marker=${encodeURIComponent(first.json.meta.marker)}`, { headers });
    expect(second.json.topics.map(({ name }: { name: string }) => name)).toEqual(["again", "b"]);
    const wrong = await call(`/topics?marker=${encodeURIComponent(first.json.meta.marker)}x`, { headers });
    expect([wrong.status, wrong.json.error.details.path]).toEqual([400, "marker"]);
    expect(code(await call(`/topics?marker=${encodeURIComponent(first.json.meta.marker)}`))).toEqual([400, "invalid_request"]);
  });

  it("T2: X-Account-Id selects the account by id or name; a project's key needs none, any other key does", async () => {
    const key = await keyFor([{ allow: ["notifications.*"], on: ["*"] }], "whole");
    const own = await door.request("/v1/topics", { json: { name: "own" }, key });
    expect(own.json.topic.crn).toContain(`:${account}:`);
    expect((await door.request("/v1/topics/own", { key, headers: { "x-account-id": account } })).status).toBe(200);
    expect(code(await door.request("/v1/topics/own", { key, headers: { "x-account-id": "other" } }))).toEqual([404, "project_not_found"]);
    const without = await door.request("/v1/topics/own");
    expect([without.status, without.json.error.message]).toEqual([400, expect.stringContaining("X-Account-Id")]);
    expect(code(await door.request("/v1/topics/own", { headers: { "x-account-id": "x".repeat(300) } }))).toEqual([400, "invalid_request"]);
    expect(code(await door.request("/v1/topics/own", { headers: { "x-account-id": "nobody" } }))).toEqual([404, "project_not_found"]);
  });

  it("T2, Q12: an Idempotency-Key answers the first topic again, and means nothing in another account", async () => {
    const headers = { "idempotency-key": "once" };
    const first = await create({ name: "once" }, { headers });
    const again = await create({ name: "once" }, { headers });
    expect([again.status, again.json]).toEqual([201, first.json]);
    expect(code(await create({ name: "twice" }, { headers }))).toEqual([409, "idempotency_conflict"]);
    const other = await create({ name: "once" }, { headers: { ...headers, "x-account-id": "other" } });
    expect(other.json.topic.id).not.toBe(first.json.topic.id);
  });

  it("T19, A6: each permission guards its operation; a topic outside the key's reach is not there, nor in the list", async () => {
    await create({ name: "seen" });
    await create({ name: "hidden" });
    const key = await keyFor(
      [{ allow: ["notifications.topics.get", "notifications.topics.list"], on: ["acme/shop/topics/se*"] }],
      "reader",
    );
    const as = (path: string, asked: Asked = {}) => door.request(`/v1${path}`, { key, ...asked });
    expect((await as("/topics/seen")).status).toBe(200);
    const listed = await as("/topics");
    expect(listed.json.topics.map(({ name }: { name: string }) => name)).toEqual(["seen", "settings"]);
    expect(listed.json.meta.total).toBe(2);
    const hiddenId = (await call("/topics/hidden")).json.topic.id;
    for (const path of ["/topics/hidden", `/topics/${hiddenId}`])
      expect(code(await as(path, { method: "DELETE" })), path).toEqual([404, "topic_not_found"]);
    expect(code(await as("/topics", { json: { name: "elsewhere" } }))).toEqual([404, "topic_not_found"]);
    for (const [permission, path, asked] of [
      ["notifications.topics.create", "/topics", { json: { name: "seventh" } }],
      ["notifications.topics.update", "/topics/seen", { method: "PATCH", json: {} }],
      ["notifications.topics.delete", "/topics/seen", { method: "DELETE" }],
      ["notifications.subscriptions.create", "/topics/seen/subscriptions", { json: { protocol: "queue", endpoint: "q" } }],
      ["notifications.subscriptions.list", "/topics/seen/subscriptions", {}],
    ] as const) {
      const refused = await as(path, asked);
      expect([refused.status, refused.json.error.details?.permission], path).toEqual([403, permission]);
    }
  });

  it("T3, A13: a topic that another node deleted takes nothing more, and one made in its place takes what is published next", async () => {
    const publish = (headers: Record<string, string> = {}) => call("/topics/moving/publish", { json: { message: "m" }, headers });
    const batch = () => call("/topics/moving/publish_batch", { json: { entries: [{ id: "1", message: "m" }, { id: "2" }] } });
    const { id } = (await create({ name: "moving" })).json.topic;
    expect((await publish()).json.notification.message_id).toMatch(/^[0-9a-f-]{36}$/);
    const [project] = await door.store.run("findApplications", "shop", null);
    const projectNo = project?.no ?? 0;
    const first = await door.store.run("findTopic", projectNo, id);
    await door.store.run("deleteTopic", first?.no ?? 0);
    expect(code(await publish())).toEqual([404, "topic_not_found"]);
    expect(code(await batch())).toEqual([404, "topic_not_found"]);
    const settings = { displayName: null, retryPolicy: null };
    // No hexadecimal digit, so that it is never the first one's.
    const make = (last: "x" | "y") =>
      door.store.run("createTopic", { id: `${id.slice(0, -1)}${last}`, projectNo, name: "moving", fifo: false, settings });
    const second = await make("x");
    expect((await publish()).status).toBe(200);
    await door.store.run("deleteTopic", second.no);
    await make("y");
    expect((await publish()).status).toBe(200);
    const results = (await batch()).json.results;
    expect([results[0].notification?.message_id, results[1].error?.code]).toEqual([expect.any(String), "invalid_request"]);
    expect((await publish({ "idempotency-key": "moved" })).status).toBe(200);
  });

  it("T14: a project cannot be deleted while it holds a topic", async () => {
    await door.request("/v1/organizations/acme/projects", { json: { name: "closing" } });
    const headers = { "x-account-id": "closing" };
    await create({ name: "last" }, { headers });
    const remove = () => door.request("/v1/organizations/acme/projects/closing", { method: "DELETE" });
    expect(code(await remove())).toEqual([409, "not_empty"]);
    await call("/topics/last", { method: "DELETE", headers });
    expect((await remove()).status).toBe(204);
  });
});

describe("a server with one project", () => {
  it("T2: needs no X-Account-Id, until there is a second project", async () => {
    const door = await openDoor("sqlite");
    try {
      expect((await door.request("/v1/topics", { json: { name: "orders" } })).status).toBe(201);
      await door.request("/v1/organizations/acme/projects", { json: { name: "second" } });
      // For five seconds a key knows the project that it reached.
      door.clock.advance(5_000);
      const refused = await door.request("/v1/topics/orders");
      expect([refused.status, refused.json.error.details.path]).toEqual([400, "X-Account-Id"]);
      expect((await door.request("/v1/topics/orders", { headers: { "x-account-id": "shop" } })).status).toBe(200);
    } finally {
      await door.close();
    }
  });
});
