import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../door.suite.ts";

const DAY_MS = 86_400_000;

describe.each<Engine>(["sqlite", "postgres"])("topic subscriptions through the Basaltic door on %s", (engine) => {
  let door: Door;
  let account: string;
  beforeAll(async () => {
    door = await openDoor(engine);
    account = (await door.shop("")).json.id;
    await door.shop("/queues", { json: { name: "inbox" } });
    await door.shop("/queues", { json: { name: "failures" } });
  });
  afterAll(() => door.close());

  const call = (path: string, { headers, ...asked }: Asked = {}): Promise<Answered> =>
    door.request(`/v1${path}`, { headers: { "x-account-id": "shop", ...headers }, ...asked });
  const topic = async (name: string, given: Record<string, unknown> = {}) =>
    (await call("/topics", { json: { name, ...given } })).json.topic;
  const subscribe = (name: string, json: Record<string, unknown>, asked?: Asked) =>
    call(`/topics/${name}/subscriptions`, { json, ...asked });
  const hook = (path: string) => ({ protocol: "webhook", endpoint: `https://hooks.example.com/${path}` });
  const code = ({ status, json }: Answered): unknown => [status, json?.error?.code];
  const counts = async (name: string) => {
    const { confirmed_subscriptions, pending_subscriptions } = (await call(`/topics/${name}`)).json.topic;
    return [confirmed_subscriptions, pending_subscriptions];
  };

  it("T1, T5, T6: a webhook starts pending, with the defaults; its CRN is the topic's and its id; no answer holds its secret", async () => {
    const { crn } = await topic("webhooks");
    const made = await subscribe("webhooks", { ...hook("a"), colour: "blue" });
    expect(made.status).toBe(201);
    const { subscription } = made.json;
    expect(subscription).toMatchObject({
      crn: `${crn}/subscription/${subscription.id}`,
      topic_crn: crn,
      topic_name: "webhooks",
      protocol: "webhook",
      endpoint: "https://hooks.example.com/a",
      state: "pending",
      raw_message_delivery: false,
      filter_policy: null,
      filter_policy_scope: "attributes",
      retry_policy: null,
      redrive_policy: null,
      max_in_flight: 10,
      rate_limit: null,
      confirmed_at: null,
      status: { failing: false, last_error: null, last_success_at: null },
    });
    expect(Date.parse(subscription.confirmable_until) - Date.parse(subscription.created_at)).toBe(3 * DAY_MS);
    for (const reference of [subscription.id, subscription.crn])
      expect((await call(`/subscriptions/${encodeURIComponent(reference)}`)).json).toEqual({ subscription });
    expect(await counts("webhooks")).toEqual([0, 1]);
    const listed = await call("/topics/webhooks/subscriptions");
    for (const { text } of [made, listed]) expect(text).not.toContain("whsec_");
  });

  it("T5, T6, T9: a queue of the account is confirmed at once, by name, id or CRN", async () => {
    await topic("queues");
    const inbox = (await door.shop("/queues/inbox")).json;
    const made = await subscribe("queues", { protocol: "queue", endpoint: "inbox" });
    expect(made.json.subscription).toMatchObject({
      state: "confirmed",
      endpoint: inbox.id,
      confirmed_at: made.json.subscription.created_at,
    });
    expect(await counts("queues")).toEqual([1, 0]);
    for (const endpoint of [inbox.id, inbox.resourceName, `crn:millrace:queues:local:${account}:queue/inbox`])
      expect((await subscribe("queues", { protocol: "queue", endpoint })).json.subscription.id).toBe(made.json.subscription.id);
    for (const endpoint of ["nowhere", "crn:millrace:queues:north:shop:queue/inbox"])
      expect(code(await subscribe("queues", { protocol: "queue", endpoint }))).toEqual([404, "queue_not_found"]);
  });

  it("TOPIC-05: the same endpoint with the same settings is the same subscription, with others it is refused", async () => {
    await topic("twice");
    const settings = { filter_policy: { a: ["x"], b: [1] }, retry_policy: { max_attempts: 3 } };
    const first = await subscribe("twice", { ...hook("t"), ...settings });
    const again = await subscribe("twice", { ...hook("t"), ...settings, filter_policy: { b: [1], a: ["x"] } });
    expect([again.status, again.json.subscription.id]).toEqual([201, first.json.subscription.id]);
    expect(await counts("twice")).toEqual([0, 1]);
    for (const other of [hook("t"), { ...hook("t"), ...settings, raw_message_delivery: true }]) {
      const refused = await subscribe("twice", other);
      expect(code(refused)).toEqual([409, "subscription_exists"]);
      expect(refused.json.error.message).toContain(first.json.subscription.id);
    }
    // Another topic, another endpoint, or the same one after it ended: all of these are new.
    await topic("twice-2");
    expect((await subscribe("twice-2", hook("t"))).json.subscription.id).not.toBe(first.json.subscription.id);
    await call(`/subscriptions/${first.json.subscription.id}`, { method: "DELETE" });
    const anew = await subscribe("twice", hook("t"));
    expect([anew.status, anew.json.subscription.state]).toEqual([201, "pending"]);
  });

  it("T5, P18: a webhook's URL must keep the endpoint rules", async () => {
    await topic("targets");
    for (const endpoint of [
      "http://hooks.example.com/",
      "https://10.0.0.1/",
      "https://localhost/x",
      "https://user@example.com/",
      "nothing",
    ])
      expect(code(await subscribe("targets", { protocol: "webhook", endpoint })), endpoint).toEqual([400, "invalid_target"]);
    expect(code(await subscribe("targets", { protocol: "email", endpoint: "a@example.com" }))).toEqual([400, "invalid_request"]);
  });

  it("T10, TOPIC-02: a filter policy is checked when it is given, by its path, and by its scope when that changes", async () => {
    await topic("filters");
    const bad = await subscribe("filters", { ...hook("f"), filter_policy: { a: [{ like: "x" }] } });
    expect([bad.status, bad.json.error.details.path]).toEqual([400, expect.stringMatching(/^filter_policy\.a/)]);
    expect(await counts("filters")).toEqual([0, 0]);
    const nested = { order: { kind: ["placed"] } };
    expect(code(await subscribe("filters", { ...hook("f"), filter_policy: nested }))).toEqual([400, "invalid_request"]);
    const made = await subscribe("filters", { ...hook("f"), filter_policy: nested, filter_policy_scope: "message" });
    const path = `/subscriptions/${made.json.subscription.id}`;
    const scoped = await call(path, { method: "PATCH", json: { filter_policy_scope: "attributes" } });
    expect(code(scoped)).toEqual([400, "invalid_request"]);
    const changed = await call(path, { method: "PATCH", json: { filter_policy_scope: "attributes", filter_policy: { kind: ["placed"] } } });
    expect(changed.json.subscription).toMatchObject({ filter_policy_scope: "attributes", filter_policy: { kind: ["placed"] } });
  });

  it("T2, T13, T15: settings that are not given stay, null unsets; the dead-letter queue is told by its id while it is there", async () => {
    await topic("settings");
    const failures = (await door.shop("/queues/failures")).json;
    const made = await subscribe("settings", {
      ...hook("s"),
      redrive_policy: { dead_letter_queue: `crn:millrace:queues:local:shop:queue/failures` },
      rate_limit: { count: 5, period_seconds: 60 },
      max_in_flight: 100,
    });
    const path = `/subscriptions/${made.json.subscription.id}`;
    expect(made.json.subscription).toMatchObject({
      redrive_policy: { dead_letter_queue: failures.id },
      rate_limit: { count: 5, period_seconds: 60 },
      max_in_flight: 100,
    });
    const patched = await call(path, { method: "PATCH", json: { rate_limit: null, raw_message_delivery: true } });
    expect(patched.json.subscription).toMatchObject({
      redrive_policy: { dead_letter_queue: failures.id },
      rate_limit: null,
      raw_message_delivery: true,
      max_in_flight: 100,
    });
    expect((await door.shop("/queues/failures", { method: "DELETE" })).status).toBe(204);
    expect((await call(path)).json.subscription.redrive_policy).toEqual({ dead_letter_queue: null });
    const unset = await call(path, { method: "PATCH", json: { redrive_policy: null } });
    expect(unset.json.subscription.redrive_policy).toBeNull();
    const gone = await call(path, { method: "PATCH", json: { redrive_policy: { dead_letter_queue: "failures" } } });
    expect(code(gone)).toEqual([404, "queue_not_found"]);
    const many = await call(path, { method: "PATCH", json: { max_in_flight: 101 } });
    expect([many.status, many.json.error.details.path]).toEqual([400, "max_in_flight"]);
  });

  it("T9, T13, T19: subscribing a queue, and naming one for dead letters, needs queues.messages.send on it, also by Basaltic's name for that", async () => {
    await topic("rights");
    const key = async (name: string, allow: string[], on: string[]) =>
      (
        await door.shop("/keys", {
          json: {
            name,
            statements: [
              { allow: ["notifications.*"], on: ["*"] },
              { allow, on },
            ],
          },
        })
      ).json.secret;
    const without = await key("without", ["queues.messages.receive"], ["*"]);
    for (const json of [
      { protocol: "queue", endpoint: "inbox" },
      { ...hook("r"), redrive_policy: { dead_letter_queue: "inbox" } },
    ]) {
      const refused = await subscribe("rights", json, { key: without });
      expect([refused.status, refused.json.error.details?.permission]).toEqual([403, "queues.messages.send"]);
    }
    const aside = await key("aside", ["queues.messages.send"], ["acme/shop/queues/other", "acme/shop/topics/*"]);
    expect((await subscribe("rights", { protocol: "queue", endpoint: "inbox" }, { key: aside })).status).toBe(403);
    const alias = await key("alias", ["queue:SendMessage"], ["acme/shop/queues/inbox"]);
    expect((await subscribe("rights", { protocol: "queue", endpoint: "inbox" }, { key: alias })).status).toBe(201);
  });

  it("T2, A3: subscriptions are listed in order of creation, page by page", async () => {
    await topic("many");
    const ids: string[] = [];
    for (const path of ["1", "2", "3", "4", "5"]) ids.push((await subscribe("many", hook(path))).json.subscription.id);
    const page = (search: string) => call(`/topics/many/subscriptions?${search}`);
    const idsOf = ({ json }: Answered): string[] => json.subscriptions.map(({ id }: { id: string }) => id);
    const first = await page("limit=2");
    expect(idsOf(first)).toEqual(ids.slice(0, 2));
    expect(first.json.meta).toMatchObject({ total: 5, limit: 2, has_more: true });
    await call(`/subscriptions/${ids[1]}`, { method: "DELETE" });
    const second = await page(`limit=2&marker=${encodeURIComponent(first.json.meta.marker)}`);
    expect(idsOf(second)).toEqual(ids.slice(2, 4));
    const third = await page(`limit=2&marker=${encodeURIComponent(second.json.meta.marker)}`);
    expect([idsOf(third), third.json.meta]).toEqual([ids.slice(4), { total: 4, limit: 2, marker: null, has_more: false }]);
  });

  it("T2, T8, T19, P5: reading a webhook's secret and rotating it are two permissions; the new one replaces the old at once", async () => {
    await topic("secrets");
    const { id } = (await subscribe("secrets", hook("x"))).json.subscription;
    const path = `/subscriptions/${id}/signing_secret`;
    const first = (await call(path)).json.signing_secret;
    expect(first).toEqual({ subscription_id: id, secret: expect.stringMatching(/^whsec_[A-Za-z0-9]{43}$/) });
    const only = async (permission: string) =>
      (await door.shop("/keys", { json: { name: permission, statements: [{ allow: [permission], on: ["*"] }] } })).json.secret;
    const reader = await only("notifications.secrets.read");
    const rotator = await only("notifications.secrets.rotate");
    expect((await call(path, { key: reader })).json.signing_secret).toEqual(first);
    expect((await call(path, { key: reader, method: "POST" })).json.error.details.permission).toBe("notifications.secrets.rotate");
    expect((await call(path, { key: rotator })).json.error.details.permission).toBe("notifications.secrets.read");
    // A start-up asks for the keys that stored secrets are sealed under.
    expect(await door.store.run("sealedUnder")).toEqual([door.vault.seal("any", "owner").slice(0, 12)]);
    const second = (await call(path, { key: rotator, method: "POST" })).json.signing_secret.secret;
    expect(second).not.toBe(first.secret);
    expect((await call(path)).json.signing_secret.secret).toBe(second);
    await topic("unsigned");
    const queue = (await subscribe("unsigned", { protocol: "queue", endpoint: "inbox" })).json.subscription;
    expect(code(await call(`/subscriptions/${queue.id}/signing_secret`))).toEqual([400, "invalid_request"]);
  });

  it("T6: the handshake is sent again on request, at most once a minute, and starts its three days anew", async () => {
    await topic("asked");
    const { id, confirmable_until } = (await subscribe("asked", hook("a"))).json.subscription;
    const ask = async () =>
      (await call(`/subscriptions/${id}/request_confirmation`, { method: "POST" })).json.subscription.confirmable_until;
    expect(await ask()).toBe(confirmable_until);
    door.clock.advance(3_600_000);
    const later = await ask();
    expect(Date.parse(later) - Date.parse(confirmable_until)).toBeGreaterThanOrEqual(3_600_000);
    expect(await ask()).toBe(later);
  });

  it("T14: a deleted subscription is gone, and what hangs on a deleted topic with it", async () => {
    await topic("ending");
    const first = (await subscribe("ending", hook("1"))).json.subscription;
    const second = (await subscribe("ending", { protocol: "queue", endpoint: "inbox" })).json.subscription;
    expect((await call(`/subscriptions/${first.id}`, { method: "DELETE" })).status).toBe(204);
    expect(code(await call(`/subscriptions/${first.id}`, { method: "DELETE" }))).toEqual([404, "subscription_not_found"]);
    expect(await counts("ending")).toEqual([1, 0]);
    await call("/topics/ending", { method: "DELETE" });
    for (const id of [first.id, second.id, "nothing", "crn:x"])
      expect(code(await call(`/subscriptions/${id}`))).toEqual([404, "subscription_not_found"]);
    expect(code(await subscribe("ending", hook("3")))).toEqual([404, "topic_not_found"]);
  });

  it("T15, Q1: internal queues are in no list and under no name", async () => {
    await topic("inside");
    const { id } = (await subscribe("inside", hook("i"))).json.subscription;
    expect((await door.shop("/queues?limit=200")).text).not.toContain(id);
    expect((await door.shop(`/queues/${id}`)).status).toBe(404);
    const everywhere = await door.request("/applications/shop/queues?environment=~topics");
    expect(code(everywhere)).toEqual([404, "environment_not_found"]);
    expect((await door.request(`/applications/shop/queues/${id}?environment=~topics`)).status).toBe(404);
  });
});
