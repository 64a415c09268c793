/** Queues on several databases through every door. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answered, type Asked, type Door, openDoor } from "./door.suite.ts";

let door: Door;
beforeAll(async () => {
  door = await openDoor("postgres", { databases: ["eu", "us"] });
});
afterAll(() => door.close());

const app = (path: string, asked?: Asked): Promise<Answered> => door.request(`/applications/shop${path}`, asked);
const refusal = ({ status, json }: Answered): unknown[] => [
  status,
  json?.error?.details?.path,
  json?.error?.details?.bound,
  json?.error?.details?.got,
];

it("A14: each door makes queues on a database by its name and shows where they are; a name that is not configured is refused", async () => {
  expect((await door.shop("/queues", { json: { name: "one" } })).json).toMatchObject({ name: "one", database: "default" });
  expect((await door.shop("/queues", { json: { name: "two", database: "eu" } })).json.database).toBe("eu");
  expect((await app("/queues", { json: { name: "three", database: "us" } })).json.database).toBe("us");
  expect((await app("/queues/four", { method: "PUT", json: { database: "eu", concurrency: 7 } })).json).toMatchObject({
    database: "eu",
    created: true,
  });
  // What is there stays where it is.
  expect((await app("/queues/four", { method: "PUT", json: { database: "us", concurrency: 8 } })).json).toMatchObject({
    database: "eu",
    concurrency: 8,
    created: false,
  });
  expect(refusal(await door.shop("/queues", { json: { name: "five", database: "mars" } }))).toEqual([
    400,
    "database",
    "one of default, eu, us",
    "mars",
  ]);
  expect((await door.shop("/queues", { json: { name: "two", database: "us" } })).json.error.code).toBe("queue_exists");
  expect((await door.shop("/queues/two")).json.database).toBe("eu");
  const pages: string[] = [];
  for (let cursor = ""; ; ) {
    const { json } = await door.shop(`/queues?limit=1${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`);
    pages.push(...json.queues.map((queue: { name: string; database: string }) => `${queue.name}@${queue.database}`));
    if (json.nextCursor === null) break;
    cursor = json.nextCursor;
  }
  expect(pages).toEqual(["four@eu", "one@default", "three@us", "two@eu"]);
  expect((await app("/queues")).json.total).toBe(4);
});

it("A14, C10: a file places its queues; one that would be moved, is unknown or has its dead letters elsewhere changes nothing", async () => {
  const apply = (queues: unknown, more: object = {}) => app("/config", { json: { queues, ...more } });
  expect(refusal(await apply({ fresh: {}, orders: { database: "mars" } }))).toEqual([
    400,
    "queues.orders.database",
    "one of default, eu, us",
    "mars",
  ]);
  expect(refusal(await apply({ fresh: {}, orders: { database: "eu", deadLetterQueue: "fresh" } }))).toEqual([
    400,
    "queues.orders.deadLetterQueue",
    "a queue on the database eu, as this one is",
    "one on default",
  ]);
  expect(refusal(await apply({ fresh: {}, two: { database: "us" } }))).toEqual([
    400,
    "queues.two.database",
    "the queue's own, which is eu: a queue does not move",
    "us",
  ]);
  expect((await door.shop("/queues/fresh")).status).toBe(404);
  const section = {
    orders: { database: "us", deadLetterQueue: "orders-dead", schedules: { often: { cron: "* * * * *" } } },
    "orders-dead": { database: "us" },
  };
  expect((await apply(section)).status).toBe(200);
  expect((await door.shop("/queues/orders")).json.database).toBe("us");
  const { json } = await apply(section, { check: true });
  expect(new Set(json.changes.map(({ action }: { action: string }) => action))).toEqual(new Set(["unchanged"]));
  // Its schedule is kept and sent where the queue is.
  await door.housekeeping.settled();
  door.clock.advance(61_000);
  await door.housekeeping.settled();
  expect((await door.shop("/queues/orders/stats")).json.ready).toBeGreaterThan(0);
});

it("A14, P1: subscriptions live with their queues, are found by any reference and listed in one order over all databases", async () => {
  const target = { kind: "https", url: "https://hooks.example.com/orders" };
  const made: string[] = [];
  for (const [i, database] of ["us", "default", "eu", "us", "default", "eu"].entries()) {
    const name = `pushed-${i}`;
    await door.shop("/queues", { json: { name, database } });
    const { json } = await door.shop("/subscriptions", { json: { queueId: name, target, state: "paused" } });
    made.push(json.id);
    for (const reference of [json.id, json.resourceName]) expect((await door.shop(`/subscriptions/${reference}`)).json.id).toBe(json.id);
  }
  const listed: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { json }: Answered = await door.shop(`/subscriptions?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    listed.push(...json.subscriptions.map(({ id }: { id: string }) => id));
    cursor = json.nextCursor;
  }
  expect([...listed].sort()).toEqual([...made].sort());
  const [first = ""] = made;
  expect((await door.shop(`/subscriptions/${first}`, { method: "PATCH", json: { maxConcurrency: 3 } })).json.maxConcurrency).toBe(3);
  expect((await door.shop(`/subscriptions/${first}/rotate-secret`, { method: "POST" })).status).toBeLessThan(300);
  expect((await door.shop(`/subscriptions/${first}`, { method: "DELETE" })).status).toBe(204);
  expect((await door.shop(`/subscriptions/${first}`)).status).toBe(404);
});

it("A14, T1, W16: what needs one transaction with the default database is refused by both names", async () => {
  const { json } = await door.request("/v1/topics", { json: { name: "news" } });
  const subscribe = (body: object) => door.request(`/v1/topics/${json.topic.id}/subscriptions`, { json: body });
  const beside = "a queue on the database default, as topics are";
  expect(refusal(await subscribe({ protocol: "queue", endpoint: "two" }))).toEqual([400, "endpoint", beside, "one on eu"]);
  expect(refusal(await subscribe({ protocol: "queue", endpoint: "one", redrive_policy: { dead_letter_queue: "three" } }))).toEqual([
    400,
    "redrive_policy.dead_letter_queue",
    beside,
    "one on us",
  ]);
  expect((await subscribe({ protocol: "queue", endpoint: "one" })).status).toBe(201);
  expect(refusal(await door.shop("", { method: "PATCH", json: { maxMessagesPerDay: 5 } }))).toEqual([
    400,
    "maxMessagesPerDay",
    "null: quotas are counted on the database default",
    expect.stringMatching(/ is on (eu|us)$/),
  ]);
  await door.request("/v1/organizations/acme/projects", { json: { name: "counted" } });
  const counted = "/v1/organizations/acme/projects/counted";
  expect((await door.request(counted, { method: "PATCH", json: { maxMessagesPerDay: 5 } })).status).toBe(200);
  expect(refusal(await door.request(`${counted}/queues`, { json: { name: "placed", database: "eu" } }))).toEqual([
    400,
    "database",
    "default: the project has a quota, which is counted there",
    "eu",
  ]);
});
