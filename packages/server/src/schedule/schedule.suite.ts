import { join } from "node:path";
import { postgres, scratch } from "@millrace/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../http/door.suite.ts";
import { openStore } from "../store/open.ts";
import { scheduleChore } from "./schedule.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Schedules through the front door on one engine; time moves with the clock only, on PostgreSQL also by itself a little. */
export function scheduleSuite(engine: Engine): void {
  describe(`schedules on ${engine}`, () => {
    let door: Door;
    let queue = "";
    let queues = 0;
    beforeAll(async () => {
      door = await openDoor(engine);
    });
    afterAll(() => door.close());
    beforeEach(async () => {
      queue = `q${++queues}`;
      await app("", { method: "PUT", json: {} });
    });

    const app = (path: string, asked?: Asked): Promise<Answered> => door.request(`/applications/shop/queues/${queue}${path}`, asked);
    const code = (answer: Answered): unknown => [answer.status, answer.json?.error?.code, answer.json?.error?.details?.path];
    const make = (json: Record<string, unknown>) => app("/schedules", { json });
    const only = async () => (await app("/schedules")).json.items[0];
    const sent = async (): Promise<Record<string, unknown>[]> => (await app("/messages?limit=200")).json.items;
    const pass = async (ms: number): Promise<void> => {
      await door.housekeeping.settled();
      door.clock.advance(ms);
      await door.housekeeping.settled();
    };

    it("C9: a schedule is made, listed, changed and deleted; a taken name is schedule_exists, a fault names its field", async () => {
      const made = await make({
        name: "digest",
        cron: "0 7 * * 1-5",
        timezone: "Europe/Berlin",
        body: "{}",
        contentType: "application/json",
      });
      expect(made.status).toBe(201);
      expect(made.json).toEqual({
        id: expect.any(String),
        name: "digest",
        cron: "0 7 * * 1-5",
        timezone: "Europe/Berlin",
        body: "{}",
        contentType: "application/json",
        headers: {},
        enabled: true,
        nextRunAt: expect.stringMatching(/T0[56]:00:00.000Z$/),
        lastRunAt: null,
        lastMessageId: null,
        lastError: null,
        source: "api",
      });
      expect(code(await make({ name: "digest", cron: "@hourly" }))).toEqual([409, "schedule_exists", undefined]);
      expect(code(await make({ name: "x", cron: "* * * *" }))).toEqual([400, "invalid_request", "cron"]);
      expect(code(await make({ name: "x", cron: "@hourly", timezone: "Mars/Base" }))).toEqual([400, "invalid_request", "timezone"]);
      expect(code(await make({ name: "x", cron: "@hourly", headers: { cookie: "1" } }))).toEqual([
        400,
        "invalid_request",
        "headers.cookie",
      ]);
      expect(code(await make({ name: "x", cron: "@hourly", body: "x".repeat(300_000) }))).toEqual([400, "invalid_request", "body"]);
      const change = (json: unknown) => app("/schedules/digest", { method: "PATCH", json });
      expect((await change({ enabled: false })).json).toMatchObject({ enabled: false, nextRunAt: null, timezone: "Europe/Berlin" });
      expect((await change({ cron: "@hourly", enabled: true, headers: { "X-A": "b" } })).json).toMatchObject({
        cron: "@hourly",
        headers: { "x-a": "b" },
        nextRunAt: expect.stringMatching(/:00:00.000Z$/),
      });
      expect((await change({ headers: { "Content-Type": "text/csv" } })).json).toMatchObject({ contentType: "text/csv", headers: {} });
      expect((await change({ headers: { "x-a": "c" } })).json).toMatchObject({ contentType: "text/csv", headers: { "x-a": "c" } });
      expect((await app("/schedules")).json).toMatchObject({ total: 1, items: [{ name: "digest" }] });
      expect((await app("/schedules/digest", { method: "DELETE" })).json).toEqual({ deleted: true });
      expect(code(await app("/schedules/digest", { method: "DELETE" }))).toEqual([404, "schedule_not_found", undefined]);
      expect(code(await change({}))).toEqual([404, "schedule_not_found", undefined]);
    });

    it("C9: each occurrence sends one message with the schedule's body, content type and headers, and shows its run", async () => {
      const { json: made } = await make({
        name: "tick",
        cron: "@hourly",
        body: '{"a":1}',
        contentType: "application/json",
        headers: { "x-a": "b" },
      });
      await pass(HOUR);
      const [message, ...more] = await sent();
      expect(more).toEqual([]);
      expect(message).toMatchObject({
        body: '{"a":1}',
        contentType: "application/json",
        headers: { "x-a": "b" },
        source: "schedule",
        deduplicationKey: `${made.id}:${made.nextRunAt}`,
      });
      const { nextRunAt, lastMessageId, lastRunAt } = await only();
      expect(lastMessageId).toBe(message?.id);
      expect(Date.parse(nextRunAt)).toBe(Date.parse(made.nextRunAt) + HOUR);
      expect(Date.parse(lastRunAt)).toBeGreaterThanOrEqual(Date.parse(made.nextRunAt));
      for (let i = 0; i < 3; i++) await pass(HOUR);
      expect(await sent()).toHaveLength(4);
      await app("/schedules/tick", { method: "PATCH", json: { enabled: false } });
      await pass(3 * HOUR);
      expect(await sent()).toHaveLength(4);
    });

    it("C9, CRON-01: after downtime over many occurrences only the latest is sent, and the next run is ahead", async () => {
      const { json: made } = await make({ name: "tick", cron: "*/5 * * * *" });
      await pass(49 * HOUR + 3 * MINUTE);
      const messages = await sent();
      expect(messages).toHaveLength(1);
      const next = Date.parse((await only()).nextRunAt);
      const occurrence = String(messages[0]?.deduplicationKey).slice(made.id.length + 1);
      expect(Date.parse(occurrence)).toBe(next - 5 * MINUTE);
      expect(next).toBeGreaterThan(door.clock.now());
    });

    it("C9, CRON-01: of several nodes at the due minute, one sends; a node that comes back finds it sent", async () => {
      // Without deduplication, so that nothing but the schedule's own move can keep a second message out.
      await app("", { method: "PATCH", json: { deduplicationWindowSeconds: 0 } });
      await make({ name: "tick", cron: "@hourly" });
      const stores = [door.store, door.store];
      if (engine === "postgres") {
        const url = door.url;
        stores.push(await openStore({ url, clock: door.clock }), await openStore({ url, clock: door.clock }));
      }
      await door.housekeeping.settled();
      door.clock.advance(HOUR);
      await Promise.all(stores.map((store) => scheduleChore(store).run()));
      await door.housekeeping.settled();
      await scheduleChore(door.store).run();
      for (const store of stores.slice(2)) await store.close();
      expect(await sent()).toHaveLength(1);
    });

    it("C9, CRON-01: what was sent before a restart is not sent again after it, what was due meanwhile is", async () => {
      const folder = engine === "sqlite" ? scratch("schedule") : null;
      const url = folder === null ? await (await postgres()).fresh() : join(folder.path, "millrace.db");
      let apiKey = "";
      const messages = async (live: Door): Promise<number> =>
        (await live.request("/applications/shop/queues/q/messages", { key: apiKey })).json.total;
      const started = async (): Promise<Door> => {
        const live = await openDoor(engine, { url });
        apiKey ||= live.apiKey;
        return live;
      };
      const first = await started();
      await first.request("/applications/shop/queues/q", { method: "PUT", json: { deduplicationWindowSeconds: 0 } });
      await first.request("/applications/shop/queues/q/schedules", { json: { name: "tick", cron: "@daily" } });
      await first.close();
      for (let restart = 0; restart < 2; restart++) {
        // Each process begins before the occurrence, and its clock passes it.
        const again = await started();
        await again.housekeeping.settled();
        again.clock.advance(24 * HOUR);
        await again.housekeeping.settled();
        expect(await messages(again)).toBe(1);
        await again.close();
      }
      folder?.remove();
    });

    it("C9: a run that a full queue refuses says so, and is sent once there is room", async () => {
      await app("", { method: "PATCH", json: { maxBytes: 100 } });
      const { messageId } = (await app("/messages", { json: { body: "x".repeat(90) } })).json;
      await make({ name: "tick", cron: "@hourly", body: "y".repeat(50) });
      await pass(HOUR);
      expect(await only()).toMatchObject({ lastMessageId: null, lastError: expect.stringContaining("full") });
      await app(`/messages/${messageId}`, { method: "DELETE" });
      await pass(MINUTE);
      expect(await only()).toMatchObject({ lastMessageId: expect.any(String), lastError: null });
      expect((await sent()).map(({ body }) => body)).toEqual(["y".repeat(50)]);
    });

    it("C9: a schedule that can't be read any more says so and keeps no other from running, and goes on once it is changed", async () => {
      await make({ name: "old", cron: "@hourly" });
      await make({ name: "tick", cron: "@hourly" });
      const [project] = await door.store.run("findApplications", "shop", null);
      const row = await door.store.run("findQueue", project?.no ?? 0, "production", queue);
      const before = await door.store.run("getSchedule", row?.no ?? 0, "old");
      // As a version that took other texts would have left it.
      await door.store.run("updateSchedule", before, { ...before, cron: "0/5 * * * *" }, undefined);
      await pass(HOUR);
      expect((await sent()).map(({ deduplicationKey }) => String(deduplicationKey).startsWith(before.id))).toEqual([false]);
      expect(await only()).toMatchObject({ name: "old", lastMessageId: null, lastError: expect.stringContaining("0/5 * * * *") });
      await app("/schedules/old", { method: "PATCH", json: { cron: "@hourly" } });
      await pass(HOUR);
      expect(await sent()).toHaveLength(3);
      expect(await only()).toMatchObject({ lastError: null });
    });

    it("C9, Q16: a paused queue's schedules go on, and a FIFO queue's runs are one group", async () => {
      queue = `${queue}.fifo`;
      await app("", { method: "PUT", json: { type: "fifo", paused: true } });
      await make({ name: "tick", cron: "@hourly" });
      await pass(HOUR);
      await pass(HOUR);
      const groups = (await sent()).map(({ groupKey }) => groupKey);
      expect(groups).toHaveLength(2);
      expect(new Set(groups).size).toBe(1);
    });

    it("Q15: deleting a queue deletes its schedules", async () => {
      await make({ name: "tick", cron: "@hourly" });
      await app("", { method: "DELETE" });
      expect(code(await app("/schedules"))).toEqual([404, "queue_not_found", undefined]);
      await app("", { method: "PUT", json: {} });
      expect((await app("/schedules")).json).toEqual({ items: [], total: 0 });
      await pass(HOUR);
      expect(await sent()).toEqual([]);
      expect(door.logged).toEqual([]);
    });

    it("A6: a key without the schedules' permissions can't make, change or run them up", async () => {
      const key = await door.shop("/keys", {
        json: { name: `k${queues}`, statements: [{ allow: ["queues.messages.*", "queues.queues.*"], on: ["*"] }] },
      });
      const asked = { json: { name: "tick", cron: "@hourly" }, key: key.json.secret };
      expect((await app("/schedules", asked)).status).toBe(403);
    });
  });
}
