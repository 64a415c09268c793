/** The quota of a project through every door, on either engine. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStore } from "../store/open.ts";
import { type Answered, type Door, type Engine, openDoor } from "./door.suite.ts";

const HOUR = 3_600_000;

describe.each<Engine>(["sqlite", "postgres"])("a project's maxMessagesPerDay on %s", (engine) => {
  let door: Door;
  let project: string;
  let made = 0;
  beforeAll(async () => {
    door = await openDoor(engine);
    // The database's midnight is near enough: four hours before it nothing of this test falls on two days by itself.
    const instant = await door.store.run("now");
    door.clock.advance(24 * HOUR - (instant % (24 * HOUR)) + 20 * HOUR);
  });
  afterAll(() => door.close());
  beforeEach(async () => {
    project = `p${++made}`;
    await door.request("/v1/organizations/acme/projects", { json: { name: project } });
    await call("/queues", { json: { name: "orders", visibilityTimeoutSeconds: 30 } });
  });

  const call = (path: string, asked?: Parameters<Door["request"]>[1]) =>
    door.request(`/v1/organizations/acme/projects/${project}${path}`, asked);
  const limit = (maxMessagesPerDay: number | null) => call("", { method: "PATCH", json: { maxMessagesPerDay } });
  const send = (bodies: readonly object[], headers: Record<string, string> = {}, queue = "orders") =>
    call(`/queues/${queue}/messages`, { json: { messages: bodies }, headers });
  const many = (n: number, from = 0) => Array.from({ length: n }, (_, i) => ({ body: `m${from + i}` }));
  const code = ({ status, json }: Answered): unknown => [status, json?.error?.code];
  const used = async (): Promise<unknown[]> => {
    const { maxMessagesPerDay, messagesToday } = (await call("")).json;
    return [maxMessagesPerDay, messagesToday];
  };
  const depth = async (queue = "orders"): Promise<number> => (await call(`/queues/${queue}/stats`)).json.ready;

  it("W16: beyond it a send is 429 quota_exceeded until midnight UTC, when the count begins anew; without one nothing is counted", async () => {
    expect(await used()).toEqual([null, null]);
    expect((await send(many(5))).status).toBe(200);
    expect((await limit(3)).json).toMatchObject({ name: project, maxMessagesPerDay: 3, messagesToday: 0 });
    for (let i = 0; i < 3; i++) expect((await send(many(1))).status).toBe(200);
    const refused = await send(many(1));
    expect(code(refused)).toEqual([429, "quota_exceeded"]);
    const untilMidnight = Number(refused.headers["retry-after"]);
    expect(untilMidnight).toBeGreaterThan(3 * 3_600);
    expect(untilMidnight).toBeLessThan(4 * 3_600 + 60);
    expect(await used()).toEqual([3, 3]);
    expect(await depth()).toBe(8);
    door.clock.advance(untilMidnight * 1_000);
    expect(await used()).toEqual([3, 0]);
    expect((await send(many(1))).status).toBe(200);
    expect(await used()).toEqual([3, 1]);
    door.clock.advance(20 * HOUR);
    await limit(null);
    expect((await send(many(10))).status).toBe(200);
    expect(await used()).toEqual([null, null]);
  });

  it("W16: a batch of the EZGH door is taken whole or not at all; another number leaves what was sent counted", async () => {
    await limit(5);
    expect((await send(many(3))).status).toBe(200);
    for (const headers of [{}, { "idempotency-key": "beyond" }] as Record<string, string>[])
      expect(code(await send(many(3), headers))).toEqual([429, "quota_exceeded"]);
    expect([await used(), await depth()]).toEqual([[5, 3], 3]);
    expect((await send(many(2))).status).toBe(200);
    await limit(6);
    expect(await used()).toEqual([6, 5]);
    // A refusal does not use up its key.
    expect((await limit(8)).status).toBe(200);
    expect((await send(many(3), { "idempotency-key": "beyond" })).status).toBe(200);
    expect(await used()).toEqual([8, 8]);
    await limit(2);
    expect(code(await send(many(1)))).toEqual([429, "quota_exceeded"]);
  });

  it("W16, Q11, Q12: what is sent again, under its key or its deduplication id, counts once and is answered beyond the quota too", async () => {
    await call("/queues", { json: { name: "strict", type: "fifo" } });
    await limit(2);
    const first = await send(many(1), { "idempotency-key": "once" });
    const fifo = [{ body: "x", groupId: "g", dedupId: "d" }];
    const stored = await send(fifo, {}, "strict");
    expect(await used()).toEqual([2, 2]);
    expect((await send(many(1), { "idempotency-key": "once" })).json).toEqual(first.json);
    expect((await send(fifo, {}, "strict")).json.messages[0]).toMatchObject({
      messageId: stored.json.messages[0].messageId,
      deduplicated: true,
    });
    expect(code(await send([{ body: "y", groupId: "g", dedupId: "other" }], {}, "strict"))).toEqual([429, "quota_exceeded"]);
    await limit(3);
    const pair = [...fifo, { body: "z", groupId: "g", dedupId: "new" }];
    expect((await send(pair, {}, "strict")).status).toBe(200);
    expect([await used(), await depth("strict")]).toEqual([[3, 3], 1]);
  });

  it("W16: it is exact for sends that come at once, from several queues and several nodes", async () => {
    await call("/queues", { json: { name: "others" } });
    await limit(40);
    const answers = await Promise.all(Array.from({ length: 30 }, (_, i) => send(many(3), {}, i % 2 === 0 ? "orders" : "others")));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(13);
    expect([await used(), (await depth()) + (await depth("others"))]).toEqual([[40, 39], 39]);
    if (engine === "sqlite") return;
    const peer = await openStore({ url: door.url, clock: door.clock });
    try {
      await limit(60);
      const { no } = (await door.store.run("findProject", "acme", project)).project as { no: number };
      const queue = (await door.store.run("findQueue", no, "production", "orders")) as { no: number };
      const row = { queueNo: queue.no, body: Buffer.from("x"), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
      const sent = await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? door.store : peer).send([row])));
      expect(sent.flat().filter((each) => !("refused" in each))).toHaveLength(21);
    } finally {
      await peer.close();
    }
  });

  it("W16: each message of a Gigadrive batch has its own result, and is not to be sent again", async () => {
    await limit(2);
    const gigadrive = (json: object, headers: Record<string, string> = {}) =>
      door.request(`/applications/${project}/queues/orders/messages`, { json, headers });
    const { status, json } = await gigadrive({ messages: many(3) });
    expect(status).toBe(200);
    const results = (json as { results: { messageId: string | null; code?: string; retryable?: boolean }[] }).results;
    expect(results.map(({ messageId, code: why, retryable }) => [messageId !== null, why, retryable])).toEqual([
      [true, undefined, undefined],
      [true, undefined, undefined],
      [false, "quota_exceeded", false],
    ]);
    expect((await gigadrive({ body: "x" })).json).toMatchObject({ messageId: null, code: "quota_exceeded", retryable: false });
    expect((await gigadrive({ body: "x" }, { "idempotency-key": "k" })).json).toMatchObject({ code: "quota_exceeded" });
    await limit(3);
    expect((await gigadrive({ body: "x" }, { "idempotency-key": "k" })).json).toMatchObject({ messageId: expect.any(String) });
    expect([await used(), await depth()]).toEqual([[3, 3], 3]);
  });

  it("W16, T3: a publication counts as one message, whoever gets copies of it; beyond the quota it is refused", async () => {
    const headers = { "x-account-id": project };
    const topics = (path: string, json: object, more: Record<string, string> = {}) =>
      door.request(`/v1/topics${path}`, { json, headers: { ...headers, ...more } });
    await topics("", { name: "news" });
    await topics("", { name: "strict.fifo", fifo: true });
    await limit(2);
    expect((await topics("/news/publish", { message: "one" })).status).toBe(200);
    const batch = await topics("/news/publish_batch", { entries: ["a", "b"].map((id) => ({ id, message: id })) });
    expect(batch.json.results).toMatchObject([
      { id: "a", notification: {} },
      { id: "b", error: { code: "quota_exceeded" } },
    ]);
    const refused = await topics("/news/publish", { message: "late" }, { "idempotency-key": "k" });
    expect([code(refused), Number(refused.headers["retry-after"])]).toEqual([[429, "quota_exceeded"], expect.any(Number)]);
    await limit(3);
    const again = await topics("/news/publish", { message: "late" }, { "idempotency-key": "k" });
    expect(again.status).toBe(200);
    expect((await topics("/news/publish", { message: "late" }, { "idempotency-key": "k" })).json).toEqual(again.json);
    expect(await used()).toEqual([3, 3]);
  });

  it("W16: what the server sends by itself is neither refused nor counted: dead letters, occurrences of schedules", async () => {
    await call("/queues", { json: { name: "dead" } });
    await call("/queues/orders", { method: "PATCH", json: { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 1 } } });
    await limit(1);
    await send(many(1));
    const [message] = (await call("/queues/orders/messages/receive", { json: {} })).json.messages;
    const given = { receipts: [{ receipt: message.receipt, visibilityTimeoutSeconds: 0 }] };
    await call("/queues/orders/messages/visibility", { json: given });
    expect(await depth("dead")).toBe(1);
    const schedule = { cron: "* * * * *", body: "tick" };
    expect((await door.request(`/applications/${project}/queues/orders/schedules`, { json: { name: "tick", ...schedule } })).status).toBe(
      201,
    );
    door.clock.advance(61_000);
    await door.housekeeping.settled();
    expect(await depth()).toBeGreaterThanOrEqual(1);
    expect(await used()).toEqual([1, 1]);
  });

  it("A6, A7: it takes projects.update, and is kept in the audit log; bounds are named", async () => {
    const secret = async (allow: string): Promise<string> =>
      (await call("/keys", { json: { name: allow, statements: [{ allow: [allow], on: [`acme/${project}`, `acme/${project}/*`] }] } })).json
        .secret;
    const patch = async (allow: string, json: unknown): Promise<Answered> => call("", { method: "PATCH", json, key: await secret(allow) });
    const denied = await patch("queues.*", { maxMessagesPerDay: 1 });
    expect([denied.status, denied.json.error.details.permission]).toEqual([403, "projects.update"]);
    expect((await patch("projects.update", { maxMessagesPerDay: 7 })).json.maxMessagesPerDay).toBe(7);
    expect((await patch("projects.update", { maxMessagesPerDay: -1 })).json.error.details.path).toBe("maxMessagesPerDay");
    const { calls } = (await door.request("/v1/organizations/acme/audit?limit=10")).json;
    const kept = (calls as { operation: string; project: string; code: string | null }[]).filter(
      (each) => each.operation === "UpdateProject",
    );
    expect(kept.map((each) => [each.project, each.code])).toContainEqual([project, null]);
    expect(kept.map((each) => [each.project, each.code])).toContainEqual([project, "permission_denied"]);
    expect((await door.request("/v1/organizations/acme/projects")).json.projects).toContainEqual(
      expect.objectContaining({ name: project, maxMessagesPerDay: 7, messagesToday: 0 }),
    );
  });
});
