/** Dead letters and redrives through the handlers, on either engine: Q13, Q14. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { faultOf, type Ground, openWorld, type Received, type World } from "./world.suite.ts";

/** Declares the suite for one ground. */
export function deadLettersSuite(engine: Ground): void {
  describe(`dead letters on ${engine}`, () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld(engine);
    });
    beforeEach(() => world.fresh());
    afterAll(() => world.close());

    type Peeked = {
      messageId: string;
      body: string;
      state: string;
      lastError: string | null;
      deadLetterSourceQueueId: string | null;
      sentAt: string;
    };
    const create = (name: string, settings: Record<string, unknown> = {}) => world.call("CreateQueue", {}, { name, ...settings });
    const withPolicy = (name: string, maxReceiveCount = 1, deadLetterQueueId = "dead", settings: Record<string, unknown> = {}) =>
      create(name, { visibilityTimeoutSeconds: 2, redrivePolicy: { deadLetterQueueId, maxReceiveCount }, ...settings });
    const send = async (queueId: string, ...messages: Record<string, unknown>[]) =>
      (await world.call("SendMessages", { queueId }, { messages })).messages;
    const receive = async (queueId: string, maxMessages = 10) =>
      (await world.call("ReceiveMessages", { queueId }, { maxMessages })).messages;
    const peek = async (queueId: string) =>
      (await world.call("PeekMessages", { queueId }, undefined, { query: { limit: "200" } })).messages as unknown as Peeked[];
    const stats = (queueId: string) => world.call("GetQueueStats", { queueId });
    /** Spends an attempt of each received message at once. */
    const fail = async (queueId: string, messages: Received["messages"]) => {
      const receipts = messages.map(({ receipt }) => ({ receipt, visibilityTimeoutSeconds: 0 }));
      const { results } = await world.call("ChangeVisibility", { queueId }, { receipts });
      expect(results.every(({ ok }) => ok)).toBe(true);
    };
    const redrive = (queueId: string, body?: unknown) => world.call("RedriveMessages", { queueId }, body);
    const watch = (queueId: string, redriveId: string) => world.call("GetRedrive", { queueId, redriveId });

    it("Q13, LEASE-06: the last attempt lapses and the message moves within 5 s, with nobody receiving; both counts say so", async () => {
      const dead = await create("dead");
      const source = await withPolicy("q");
      const [sent] = await send("q", { body: "x", attributes: { a: "b" } });
      await world.pass(500);
      await receive("q");
      await world.pass(2000);
      await world.pass(4000);
      expect(await stats("q")).toMatchObject({ ready: 0, inflight: 0, deadLettered: 1 });
      expect(await stats("dead")).toMatchObject({ ready: 1, inflight: 0 });
      const [letter] = await peek("dead");
      expect(letter).toMatchObject({
        messageId: sent?.messageId,
        body: "x",
        attributes: { a: "b" },
        state: "ready",
        receiveCount: 0,
        attempts: 0,
        deadLetterSourceQueueId: source.id,
      });
      expect(letter?.lastError).not.toBeNull();
      expect(Date.parse((letter as Peeked).sentAt)).toBeLessThanOrEqual(world.clock.now() - 6500 + world.slackMs);
      expect(dead.id).not.toBe(source.id);
    });

    it("Q13: without a limit a message is tried until its retention ends, and that deletes it and counts, it does not dead-letter", async () => {
      await create("q", { visibilityTimeoutSeconds: 1, retentionSeconds: 60 });
      await send("q", { body: "x" });
      for (let i = 0; i < 30; i++) {
        expect(await receive("q")).toHaveLength(1);
        await world.pass(2000);
      }
      await world.pass(60_000);
      expect(await stats("q")).toMatchObject({ ready: 0, dead: 0, expired: 1, deadLettered: 0 });
    });

    it("DLQ-03, DLQ-08, Q14: a redriven message starts over, stays, and can die and be redriven again", async () => {
      await create("dead");
      await withPolicy("q");
      const [sent] = await send("q", { body: "x" });
      for (let round = 0; round < 2; round++) {
        await fail("q", await receive("q"));
        expect(await peek("q")).toEqual([]);
        const job = await redrive("dead");
        expect(job).toMatchObject({ state: "running", selected: 1, moved: 0, remaining: 1, failed: 0 });
        await world.pass(0);
        expect(await watch("dead", job.id)).toMatchObject({
          state: "done",
          selected: 1,
          moved: 1,
          remaining: 0,
          failed: 0,
          lastError: null,
        });
        expect(await peek("dead")).toEqual([]);
        expect(await peek("q")).toMatchObject([{ messageId: sent?.messageId, attempts: 0, receiveCount: 0 }]);
      }
      const [got] = await receive("q");
      expect(got).toMatchObject({ messageId: sent?.messageId, receiveCount: 1 });
      const { results } = await world.call("AckMessages", { queueId: "q" }, { receipts: [got?.receipt] });
      expect(results[0]?.ok).toBe(true);
      expect(await stats("q")).toMatchObject({ ready: 0, inflight: 0, acknowledged: 1 });
    });

    it("DLQ-08: a repeat of the same redrive under the same key starts nothing new", async () => {
      await create("dead");
      await withPolicy("q");
      await send("q", { body: "x" });
      await fail("q", await receive("q"));
      const key = { scope: `RedriveMessages ${world.within} dead`, key: "k", hash: "h" };
      const first = await world.call("RedriveMessages", { queueId: "dead" }, {}, { key });
      await world.pass(0);
      await fail("q", await receive("q"));
      const repeat = await world.call("RedriveMessages", { queueId: "dead" }, {}, { key });
      await world.pass(0);
      expect(repeat.id).toBe(first.id);
      expect(await peek("dead")).toHaveLength(1);
    });

    it("DLQ-04, Q14: letters of several sources go home each to its own; those whose source is gone stay and count as failed", async () => {
      await create("dead");
      for (const name of ["a", "b", "c"]) {
        await withPolicy(name);
        await send(name, ...Array.from({ length: 5 }, (_, i) => ({ body: `${name}${i}` })));
        await fail(name, await receive(name));
      }
      expect(await peek("dead")).toHaveLength(15);
      await world.call("DeleteQueue", { queueId: "b" });
      const job = await redrive("dead");
      await world.pass(0);
      expect(await watch("dead", job.id)).toMatchObject({ state: "done", selected: 15, moved: 10, failed: 5, remaining: 0 });
      expect((await watch("dead", job.id)).lastError).toMatch(/does not exist/);
      expect((await peek("dead")).map(({ body }) => body).sort()).toEqual(["b0", "b1", "b2", "b3", "b4"]);
      for (const name of ["a", "c"])
        expect((await peek(name)).map(({ body }) => body).sort()).toEqual([0, 1, 2, 3, 4].map((i) => `${name}${i}`));
    });

    it("DLQ-05: a full message keeps every byte, its group and its id through the dead-letter queue and back", async () => {
      await create("dead", { type: "fifo" });
      await withPolicy("q", 1, "dead", { type: "fifo" });
      const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`a${i}`, `\r\n😀${"v".repeat(900)}`]));
      const spent = Object.entries(attributes).reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0);
      const body = "😀\r\n".padEnd(262_144 - spent - 2, "x");
      const [sent] = await send("q", { body, attributes, groupId: "g" });
      const [first] = await receive("q");
      await fail("q", [first as never]);
      const [letter] = await receive("dead");
      const kept = { messageId: sent?.messageId, body, attributes, groupId: "g", sentAt: first?.sentAt };
      expect(letter).toMatchObject(kept);
      await fail("dead", [letter as never]);
      await redrive("dead");
      await world.pass(0);
      const [back] = await receive("q");
      expect(back).toMatchObject({ ...kept, receiveCount: 1 });
      expect(Number(back?.seq)).toBeGreaterThan(Number(letter?.seq));
      expect(Number(letter?.seq)).toBeGreaterThan(Number(first?.seq));
    });

    it("Q14: by id only the named go, a wrong id selects nothing, and an empty selection is done at once", async () => {
      await create("dead");
      await withPolicy("q");
      const sent = await send("q", { body: "0" }, { body: "1" }, { body: "2" });
      await fail("q", await receive("q"));
      const unknown = "01999f3c-7a1e-7b2a-9c4d-5e6f7a8b9c0d";
      const none = await redrive("dead", { messageIds: [unknown] });
      expect(none).toMatchObject({ state: "done", selected: 0, remaining: 0 });
      const job = await redrive("dead", { messageIds: [sent[2]?.messageId, sent[0]?.messageId, unknown, sent[0]?.messageId] });
      expect(job.selected).toBe(2);
      await world.pass(0);
      expect(await watch("dead", job.id)).toMatchObject({ state: "done", moved: 2 });
      expect((await peek("q")).map(({ body }) => body).sort()).toEqual(["0", "2"]);
      expect((await peek("dead")).map(({ body }) => body)).toEqual(["1"]);
    });

    const thirtyLetters = async () => {
      await create("dead");
      await withPolicy("q");
      for (let i = 0; i < 3; i++) await send("q", ...Array.from({ length: 10 }, () => ({ body: "x" })));
      for (let i = 0; i < 3; i++) await fail("q", await receive("q"));
    };

    // PostgreSQL's clock can't be held, so that only SQLite shows that nothing moves too early.
    if (engine === "sqlite")
      it("Q14: a rate is never beaten, also after a time when nothing ran", async () => {
        await thirtyLetters();
        const job = await redrive("dead", { ratePerSecond: 4 });
        const moved = async () => (await watch("dead", job.id)).moved;
        await world.pass(0);
        expect(await watch("dead", job.id)).toMatchObject({ state: "running", selected: 30, moved: 4, remaining: 26 });
        await world.pass(999);
        expect(await moved()).toBe(4);
        await world.pass(1);
        expect(await moved()).toBe(8);
        await world.restart();
        world.clock.advance(60_000);
        await world.housekeeping.settled();
        expect(await moved()).toBe(12);
        await world.pass(1000);
        expect(await moved()).toBe(16);
      });

    it("Q14: a job goes on after a restart; a cancelled one leaves the rest where it is", async () => {
      await thirtyLetters();
      const job = await redrive("dead", { ratePerSecond: 4 });
      await world.pass(0);
      await world.restart();
      await world.pass(5_000);
      const stopped = await world.call("CancelRedrive", { queueId: "dead", redriveId: job.id });
      expect(stopped).toMatchObject({ state: "cancelled", selected: 30, remaining: 0 });
      expect(stopped.moved).toBeGreaterThanOrEqual(8);
      expect(stopped.moved).toBeLessThan(30);
      await world.pass(10_000);
      expect(await watch("dead", job.id)).toEqual(stopped);
      expect(await peek("dead")).toHaveLength(30 - stopped.moved);
      expect(await peek("q")).toHaveLength(stopped.moved);
      expect(await world.call("CancelRedrive", { queueId: "dead", redriveId: job.id })).toEqual(stopped);
      expect((await faultOf(watch("q", job.id))).code).toBe("redrive_not_found");
    });

    it("Q14: more letters than one step holds all go, and those that came after the start stay", async () => {
      await create("dead");
      await withPolicy("q");
      for (let i = 0; i < 60; i++) await send("q", ...Array.from({ length: 10 }, () => ({ body: "x" })));
      for (let i = 0; i < 60; i++) await fail("q", await receive("q"));
      const job = await redrive("dead");
      const [late] = await send("q", { body: "late" });
      const got = (await receive("q")).filter(({ messageId }) => messageId === late?.messageId);
      if (got.length > 0) await fail("q", got);
      await world.pass(0);
      await world.pass(0);
      expect(await watch("dead", job.id)).toMatchObject({ state: "done", selected: 600, moved: 600, failed: 0 });
      expect((await peek("dead")).map(({ body }) => body)).toEqual(got.length > 0 ? ["late"] : []);
    });

    it("DLQ-07: a lowered limit counts at the next failure, a raised one gives more tries, and an idle message is never moved", async () => {
      await create("dead");
      await withPolicy("q", 10);
      await send("q", { body: "x" });
      const [once] = await receive("q");
      for (let i = 1; i < 5; i++) {
        await world.pass(2000);
        expect((await receive("q"))[0]?.receiveCount).toBe(i + 1);
      }
      expect(once?.receiveCount).toBe(1);
      await world.pass(2000);
      const limit = (maxReceiveCount: number) =>
        world.call("UpdateQueue", { queueId: "q" }, { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount } });
      await limit(3);
      await world.pass(60_000);
      expect(await stats("q")).toMatchObject({ ready: 1, deadLettered: 0 });
      await limit(10);
      expect((await receive("q"))[0]?.receiveCount).toBe(6);
      await world.pass(10_000);
      expect(await stats("q")).toMatchObject({ ready: 1, deadLettered: 0 });
      await limit(3);
      expect((await receive("q"))[0]?.receiveCount).toBe(7);
      await world.pass(2000);
      await world.pass(5000);
      expect(await stats("q")).toMatchObject({ ready: 0, deadLettered: 1 });
      expect(await peek("dead")).toHaveLength(1);
    });

    for (const { kind, settings, message } of [
      { kind: "without groups", settings: {}, message: {} },
      { kind: "of an ordered group", settings: { type: "fifo" }, message: { groupId: "g" } },
      { kind: "of a shared group", settings: { groups: { concurrency: 2 } }, message: { groupId: "g" } },
    ]) {
      it(`Q13, DLQ-07: the limit in force when a lease ends decides, also when it changed while the message was in flight (${kind})`, async () => {
        await create("dead", settings.type === undefined ? {} : { type: settings.type });
        const policy = (maxReceiveCount: number) => ({ deadLetterQueueId: "dead", maxReceiveCount });
        const change = (queueId: string, redrivePolicy: unknown) => world.call("UpdateQueue", { queueId }, { redrivePolicy });
        const inFlight = async (name: string, limit: number) => {
          await withPolicy(name, limit, "dead", { visibilityTimeoutSeconds: 30, ...settings });
          await send(name, { body: name, ...message });
          return receive(name);
        };
        const lapse = async () => {
          await world.pass(31_000);
          await world.pass(5_000);
        };

        const raised = await inFlight("raised", 1);
        await change("raised", policy(2));
        await fail("raised", raised);
        expect(await receive("raised")).toMatchObject([{ body: "raised", receiveCount: 2 }]);

        const unset = await inFlight("unset", 1);
        await change("unset", null);
        await fail("unset", unset);
        expect(await stats("unset")).toMatchObject({ ready: 1, dead: 0, deadLettered: 0 });

        await inFlight("lapsing", 1);
        await change("lapsing", policy(2));
        await inFlight("lowered-to-lapse", 2);
        await change("lowered-to-lapse", policy(1));
        const lowered = await inFlight("lowered", 2);
        await change("lowered", policy(1));
        await fail("lowered", lowered);
        expect(await stats("lowered")).toMatchObject({ ready: 0, deadLettered: 1 });

        await lapse();
        expect(await receive("lapsing")).toMatchObject([{ body: "lapsing", receiveCount: 2 }]);
        expect(await stats("lowered-to-lapse")).toMatchObject({ ready: 0, inflight: 0, deadLettered: 1 });
        expect((await peek("dead")).map(({ body }) => body).sort()).toEqual(["lowered", "lowered-to-lapse", "raised"]);
      });
    }
  });
}
