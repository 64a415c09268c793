import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../door.suite.ts";

describe.each<Engine>(["sqlite", "postgres"])("the diagnosis through the Basaltic door on %s", (engine) => {
  let door: Door;
  let messageId: string;
  beforeAll(async () => {
    door = await openDoor(engine);
    await call("/topics", { json: { name: "orders" } });
    messageId = (await call("/topics/orders/publish", { json: { message: "m" } })).json.notification.message_id;
  });
  afterAll(() => door.close());

  const call = (path: string, { headers, ...asked }: Asked = {}): Promise<Answered> =>
    door.request(`/v1${path}`, { headers: { "x-account-id": "shop", ...headers }, ...asked });
  const keyFor = async (name: string, ...statements: unknown[]): Promise<string> =>
    (await door.shop("/keys", { json: { name, statements } })).json.secret;

  it("T16, T19, A6: explaining has a permission of its own, and a notification of a topic out of reach is not there", async () => {
    const path = `/notifications/${messageId}/explanation`;
    expect((await call(path)).json).toMatchObject({
      notification: { message_id: messageId, topic_name: "orders", matched: 0 },
      verdicts: [],
      meta: { total: 0, has_more: false },
    });
    const explainer = await keyFor("explainer", { allow: ["notifications.messages.explain"], on: ["acme/shop/topics/orders"] });
    expect((await call(path, { key: explainer })).status).toBe(200);
    const publisher = await keyFor("publisher", { allow: ["notifications.messages.publish"], on: ["acme/shop/topics/orders"] });
    const refused = await call(path, { key: publisher });
    expect([refused.status, refused.json.error.details]).toEqual([403, { permission: "notifications.messages.explain" }]);
    const elsewhere = await keyFor("elsewhere", { allow: ["*"], on: ["acme/shop/topics/others"] });
    const hidden = await call(path, { key: elsewhere });
    expect([hidden.status, hidden.json.error.code]).toEqual([404, "notification_not_found"]);
  });

  it("T16, A3: a subscription that is not the topic's and a marker of another list are told as such", async () => {
    const path = `/notifications/${messageId}/explanation`;
    const unknown = await call(`${path}?subscription_id=01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e10`);
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "subscription_not_found"]);
    const marker = await call(`${path}?marker=nonsense`);
    expect([marker.status, marker.json.error.details.path]).toEqual([400, "marker"]);
  });

  it("T10: the tester wants a key and no permission, and names what is wrong with a policy by its path", async () => {
    const nobody = await keyFor("nobody", { allow: ["queues.queues.get"], on: ["acme/shop"] });
    const path = "/filter_policies/test";
    const tested = await call(path, { key: nobody, json: { filter_policy: { a: ["x"] }, attributes: { a: "x" } } });
    expect([tested.status, tested.json]).toEqual([200, { result: { matched: true, failures: [] } }]);
    const wrong = await call(path, { json: { filter_policy: { a: [{ numeric: [">", "5"] }] } } });
    expect([wrong.status, wrong.json.error.details]).toEqual([
      400,
      { path: "filter_policy.a.0.numeric.1", bound: "must be a number", got: "5" },
    ]);
    expect((await call(path, { key: "no-key", json: { filter_policy: { a: ["x"] } } })).status).toBe(401);
  });
});
