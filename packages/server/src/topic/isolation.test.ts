/** T15: subscriptions don't feel each other, and each keeps its own limits. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

let t: TopicWorld;
beforeAll(async () => {
  t = await openTopicWorld("sqlite");
});
afterAll(() => t.close());

/** A promise that the test resolves: an answer that waits. */
const gate = () => {
  let open = () => {};
  const after = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, after };
};

it("T15: of 1,000 webhooks one hangs, one is dead and one redirects: all others have their notifications meanwhile, once", {
  timeout: 120_000,
}, async () => {
  const topic = await t.topic();
  const subscriptions: string[] = [];
  for (let i = 0; i < 1_000; i++) {
    // Time enough for a slow machine: a request that ends too early would only be tried again when the clock moves.
    const body = { protocol: "webhook", endpoint: t.url(`many/${i}`), retry_policy: { timeout_seconds: 60 } };
    const { subscription } = await t.call("CreateTopicSubscription", { topic }, body);
    const { token } = t.rooms.topics.tokens.confirmation(subscription.id, Date.parse(subscription.confirmable_until as string));
    await t.rooms.topics.topicSubscriptions.confirm(token);
    subscriptions.push(subscription.id);
  }
  await t.rest();
  const hanging = gate();
  const arrived = new Map<string, number>();
  const others = gate();
  t.endpoint.answer(({ path }) => {
    arrived.set(path, (arrived.get(path) ?? 0) + 1);
    if (arrived.size === 1_000) others.open();
    if (path === "/many/10") return { after: hanging.after };
    if (path === "/many/500") return { status: 503 };
    if (path === "/many/900") return { status: 302, headers: { location: t.url("elsewhere") } };
    return {};
  });
  const messageId = await t.publish(topic, "to everybody");
  await others.after;
  const counts = async () => (await t.call("GetNotification", { messageId })).notification;
  await expect.poll(async () => (await counts()).delivered, { timeout: 60_000 }).toBe(997);
  expect(await counts()).toMatchObject({ matched: 1_000, failed: 1, pending: 2 });
  expect((await t.records(subscriptions[10] as string))[0]?.state).toBe("delivering");
  expect([...arrived.values()].every((times) => times === 1)).toBe(true);
  hanging.open();
  await t.rest();
  t.endpoint.answer({});
  await t.pass(1_000);
  expect(await counts()).toMatchObject({ delivered: 999, failed: 1, pending: 0 });
  expect(arrived.has("/elsewhere")).toBe(false);
});

it("T15: lanes that have nothing to do are put away, and are there again when there is something", async () => {
  const topic = await t.topic();
  const { id } = await t.webhook(topic, "seldom");
  await t.publish(topic, "first");
  await t.rest();
  expect(t.rooms.deliveries.lanes).toBeGreaterThan(0);
  const lanesLater = async (): Promise<number> => {
    await t.pass(20_000);
    return t.rooms.deliveries.lanes;
  };
  // But for that of the endpoint that redirects: it is failing, and its lane knows how rarely to try it.
  await expect.poll(lanesLater, { timeout: 10_000 }).toBeLessThanOrEqual(1);
  const left = t.rooms.deliveries.lanes;
  await t.publish(topic, "second");
  await t.rest();
  expect(t.rooms.deliveries.lanes).toBe(left + 1);
  expect((await t.records(id)).map(({ state }) => state)).toEqual(["delivered", "delivered"]);
});

it("T15, P13: a subscription has as many requests open as it allows, 10 unless it says otherwise", async () => {
  const topic = await t.topic();
  const few = await t.webhook(topic, "few", { max_in_flight: 2 }, t.others[0]);
  const usual = await t.webhook(topic, "usual", {}, t.others[1]);
  const held = gate();
  for (const other of t.others) other.answer({ after: held.after });
  const entries = Array.from({ length: 10 }, (_, i) => ({ id: String(i), message: "m" }));
  for (let i = 0; i < 3; i++) await t.call("PublishBatch", { topic }, { entries });
  await Promise.all([t.others[0].opened(2), t.others[1].opened(10)]);
  held.open();
  await t.rest();
  expect(t.others.map(({ highWater }) => highWater)).toEqual([2, 10]);
  for (const { id } of [few, usual]) expect((await t.records(id)).every(({ state }) => state === "delivered")).toBe(true);
  for (const other of t.others) other.answer({});
});

it("T15: a rate limit holds, and what waits for it is delivered later; an update is in force at once", async () => {
  const topic = await t.topic();
  const { id } = await t.webhook(topic, "rated");
  const reached = () =>
    t.endpoint.requests.filter(({ path, headers }) => path === "/rated" && headers["x-basaltic-notification-type"] === "notification")
      .length;
  await t.call("UpdateTopicSubscription", { subscriptionId: id }, { rate_limit: { count: 3, period_seconds: 60 } });
  const entries = Array.from({ length: 8 }, (_, i) => ({ id: String(i), message: "m" }));
  await t.call("PublishBatch", { topic }, { entries });
  await t.rest();
  expect(reached()).toBe(3);
  await t.pass(20_000);
  expect(reached()).toBe(4);
  await t.pass(40_000);
  expect(reached()).toBe(6);
  await t.call("UpdateTopicSubscription", { subscriptionId: id }, { rate_limit: null });
  await t.pass(60_000);
  expect(reached()).toBe(8);
});

it("T11: a topic's changed retry policy is in force for its subscriptions at once", async () => {
  const topic = await t.topic({ retry_policy: { max_attempts: 5 } });
  const { id } = await t.webhook(topic, "inherits");
  t.endpoint.answer(({ path }) => (path === "/inherits" ? { status: 500 } : {}));
  await t.publish(topic, "m");
  await t.rest();
  expect((await t.records(id))[0]?.state).toBe("pending");
  await t.call("UpdateTopic", { topic }, { retry_policy: { max_attempts: 2 } });
  await t.pass(1_000);
  expect((await t.records(id))[0]).toMatchObject({ state: "failed", attempts: 2 });
  t.endpoint.answer({});
});

it("T11: a delivery whose last attempt was never answered is ended when its lease is over, not tried again", async () => {
  const topic = await t.topic();
  const { id } = await t.webhook(topic, "silent", { retry_policy: { max_attempts: 1 } });
  const held = gate();
  t.endpoint.answer(({ path }) => (path === "/silent" ? { after: held.after } : {}));
  await t.publish(topic, "m");
  await t.endpoint.opened(1);
  // The process goes with the request open; the next one finds the lease of the only attempt.
  await t.restart();
  held.open();
  await t.pass(45_000);
  expect((await t.records(id))[0]).toMatchObject({ state: "failed", attempts: 1, last_error: { class: "expired" } });
  expect(
    t.endpoint.requests.filter(({ path, headers }) => path === "/silent" && headers["x-basaltic-notification-type"] === "notification"),
  ).toHaveLength(1);
  t.endpoint.answer({});
});
