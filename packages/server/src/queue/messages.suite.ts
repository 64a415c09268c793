/** Messages through their handlers, on either engine: Q3 to Q8, Q11, Q12, Q17, Q18. */
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { faultOf, type Ground, openWorld, type Received, type World } from "./world.suite.ts";

/** Declares the suite for one ground. */
export function messagesSuite(engine: Ground): void {
  describe(`messages on ${engine}`, () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld(engine);
    });
    beforeEach(() => world.fresh());
    afterAll(() => world.close());

    const create = (name: string, settings: Record<string, unknown> = {}) => world.call("CreateQueue", {}, { name, ...settings });
    const send = async (queueId: string, ...messages: Record<string, unknown>[]) =>
      (await world.call("SendMessages", { queueId }, { messages })).messages;
    const receive = async (queueId: string, body: Record<string, unknown> = {}) =>
      (await world.call("ReceiveMessages", { queueId }, body)).messages;
    const ack = async (queueId: string, ...receipts: string[]) => (await world.call("AckMessages", { queueId }, { receipts })).results;
    const stats = (queueId: string) => world.call("GetQueueStats", { queueId });
    const only = (messages: Received["messages"]) => {
      expect(messages).toHaveLength(1);
      return messages[0] as Received["messages"][number];
    };

    it("Q3, Q4: a message goes from scheduled to ready to inflight and is gone after its ack", async () => {
      await create("q");
      const [sent] = await send("q", { body: "hello", attributes: { a: "1" }, delaySeconds: 5 });
      const near = (time: string | undefined, ms: number) => {
        expect(Date.parse(time ?? "") - ms).toBeGreaterThanOrEqual(0);
        expect(Date.parse(time ?? "") - ms).toBeLessThanOrEqual(world.slackMs);
      };
      const sentAt = world.clock.now();
      const peek = async () => (await world.call("PeekMessages", { queueId: "q" })).messages as Record<string, unknown>[];
      expect(await peek()).toMatchObject([
        {
          messageId: sent?.messageId,
          state: "scheduled",
          body: "hello",
          attributes: { a: "1" },
          receiveCount: 0,
          attempts: 0,
          sizeBytes: 7,
        },
      ]);
      const [peeked] = (await peek()) as { deliverAt: string; expiresAt: string }[];
      near(peeked?.deliverAt, sentAt + 5000);
      near(peeked?.expiresAt, sentAt + 5000 + 345_600_000);
      expect(await stats("q")).toMatchObject({ scheduled: 1, ready: 0, inflight: 0, sent: 1 });
      expect(await receive("q")).toEqual([]);
      await world.pass(5000);
      expect((await peek())[0]?.state).toBe("ready");
      const got = only(await receive("q", { visibilityTimeoutSeconds: 7 }));
      expect(got).toMatchObject({ messageId: sent?.messageId, body: "hello", attributes: { a: "1" }, receiveCount: 1 });
      near(got.leaseExpiresAt, world.clock.now() + 7000);
      expect((await peek())[0]).toMatchObject({ state: "inflight", leaseExpiresAt: got.leaseExpiresAt, receiveCount: 1, attempts: 1 });
      expect(await ack("q", got.receipt)).toEqual([{ receipt: got.receipt, ok: true }]);
      expect(await peek()).toEqual([]);
      expect(await stats("q")).toMatchObject({ ready: 0, scheduled: 0, inflight: 0, acknowledged: 1, bytes: 0 });
    });

    it("Q4: a message behind its group's head is waiting, and the list narrows by state and goes on by cursor", async () => {
      await create("f", { type: "fifo" });
      await send("f", { body: "1", groupId: "g" }, { body: "2", groupId: "g" }, { body: "3", groupId: "g" });
      await receive("f");
      const page = (query: Record<string, unknown>) => world.call("PeekMessages", { queueId: "f" }, undefined, { query });
      const bodies = (answer: Awaited<ReturnType<typeof page>>) => (answer.messages as { body: string }[]).map(({ body }) => body);
      expect(bodies(await page({ state: "inflight" }))).toEqual(["1"]);
      expect(bodies(await page({ state: "waiting" }))).toEqual(["2", "3"]);
      const first = await page({ limit: "2" });
      expect(bodies(first)).toEqual(["1", "2"]);
      const second = await page({ limit: "2", cursor: first.nextCursor });
      expect(bodies(second)).toEqual(["3"]);
      expect(second.nextCursor).toBeNull();
      expect(await stats("f")).toMatchObject({ inflight: 1, waiting: 2 });
    });

    it("Q4, Q19: where groups have neither order nor limit nobody waits behind another", async () => {
      await world.call("CreateQueue", {}, { name: "q", groups: { concurrency: null } });
      await send(
        "q",
        { body: "a" },
        { body: "b" },
        { body: "c", groupId: "g" },
        { body: "d", groupId: "g" },
        { body: "e", delaySeconds: 9 },
      );
      expect(await world.call("GetQueueStats", { queueId: "q" })).toMatchObject({ ready: 4, waiting: 0, scheduled: 1 });
      const { messages } = await world.call("PeekMessages", { queueId: "q" }, undefined, { query: { state: "ready" } });
      expect(messages.map(({ body }) => body)).toEqual(["a", "b", "c", "d"]);
    });

    it("Q4, Q19: of a limited group as many are ready as may still be leased, in stats, peeks and looks at one message", async () => {
      await world.call("CreateQueue", {}, { name: "q", groups: { concurrency: 3 }, visibilityTimeoutSeconds: 30 });
      const sent = await send(
        "q",
        ...["a", "b", "c", "d", "e"].map((body) => ({ body, groupId: "g" })),
        { body: "x", groupId: "h" },
        { body: "y" },
        { body: "later", groupId: "g", delaySeconds: 60 },
      );
      const list = async (state: string) => {
        const { messages } = await world.call("PeekMessages", { queueId: "q" }, undefined, { query: { state } });
        return messages.map(({ body }) => body).join("");
      };
      const no = (await world.room.findQueue(world.projectNo, "q"))?.no as number;
      const paged = async (state: "ready" | "waiting") => {
        const page = await world.store.run("listMessages", no, { state, offset: 0, limit: 9, bodyBytes: 9 });
        return page.map(({ body }) => Buffer.from(body).toString()).join("");
      };
      const look = async (): Promise<string[]> => [await list("ready"), await list("waiting"), await list("inflight")];
      const counts = async () => {
        const { ready, waiting, inflight, scheduled } = await stats("q");
        return [ready, waiting, inflight, scheduled];
      };
      expect([await look(), await counts()]).toEqual([
        ["abcxy", "de", ""],
        [5, 2, 0, 1],
      ]);
      expect([await paged("ready"), await paged("waiting")]).toEqual(["abcxy", "de"]);
      const taken = await receive("q", { maxMessages: 2 });
      const inFlight = taken.map(({ body }) => body).sort();
      const left = [..."abcde"].filter((body) => !inFlight.includes(body));
      const free = 3 - inFlight.filter((body) => "abcde".includes(body as string)).length;
      const others = [..."xy"].filter((body) => !inFlight.includes(body)).join("");
      expect(await look()).toEqual([left.slice(0, free).join("") + others, left.slice(free).join(""), inFlight.join("")]);
      expect(await counts()).toEqual([free + others.length, left.length - free, 2, 1]);
      const states = [];
      for (const { messageId } of sent) states.push((await world.store.run("getMessage", no, messageId))?.state);
      expect(states.filter((state) => state === "waiting")).toHaveLength(left.length - free);
      // Leases that lapse and a delay that ends bring members back, before any claim has let them in.
      await world.pass(60_000);
      expect([await look(), await counts()]).toEqual([
        ["abcxy", "delater", ""],
        [5, 3, 0, 0],
      ]);
    });

    it("Q5: one invalid message refuses the whole send and is named by its place", async () => {
      await create("q");
      const bad = { body: "b", attributes: { "not a name": "v" } };
      const fault = await faultOf(send("q", { body: "a" }, bad, { body: "c" }));
      expect(fault).toMatchObject({ code: "invalid_request", details: { index: 1, path: "messages.1.attributes" } });
      expect(await receive("q", { maxMessages: 10 })).toEqual([]);
    });

    it("Q5, BODY-02, BODY-03: the largest message goes through unharmed, the next byte is a 400", async () => {
      await create("q");
      const attributes = { name: "é".repeat(10) };
      const body = `${"€".repeat(87_373)}x`;
      expect(Buffer.byteLength(body) + 4 + 20).toBe(262_144);
      await send("q", { body, attributes });
      expect(only(await receive("q"))).toMatchObject({ body, attributes });
      expect(await faultOf(send("q", { body: `${body}x`, attributes }))).toMatchObject({ status: 400, details: { index: 0 } });
    });

    it("BODY-04, BODY-06: empty and blank bodies, and JSON text with its spacing and numbers, come back character for character", async () => {
      await create("q");
      const bodies = ["", " ", "\n", '{"n":12345678901234567890, "a":1e400,  "a":2}', "\u0000", "\ufefftext", "\u2028\r\n"];
      await send("q", ...bodies.map((body) => ({ body, attributes: { empty: "" } })));
      const got = await receive("q", { maxMessages: 10 });
      expect(got.map(({ body }) => body)).toEqual(bodies);
      expect(got[0]?.attributes).toEqual({ empty: "" });
    });

    it("Q5: a body that is no text comes back as base64, and text that was sent as base64 comes back as text", async () => {
      await create("q");
      await send("q", { bodyBase64: "/wD+" }, { bodyBase64: Buffer.from("täxt").toString("base64") });
      const [bytes, text] = await receive("q", { maxMessages: 2 });
      expect(bytes).toMatchObject({ bodyBase64: "/wD+" });
      expect(bytes).not.toHaveProperty("body");
      expect(text).toMatchObject({ body: "täxt" });
    });

    it("BODY-05, DLQ-05: whatever well-formed text is sent comes back the same, through dead-lettering and redrive, with its id", async () => {
      await create("dead");
      await create("q", { redrivePolicy: { deadLetterQueueId: "dead", maxReceiveCount: 1 } });
      const name = fc.oneof(
        fc.constantFrom("__proto__", "constructor", "toString", "a.b-c_D"),
        fc.stringMatching(/^[A-Za-z0-9_.-]{1,64}$/),
      );
      const text = fc.string({ unit: "binary", maxLength: 300 });
      const trap = fc.constantFrom("\r", "\u2028", "\u202e", "–\u0080ÿ", "😀\ud83d\udc69\u200d\ud83d\ude80", "__proto__");
      const message = fc.record({
        body: fc.oneof(text, trap),
        attributes: fc
          .array(fc.tuple(name, fc.oneof(text, trap)), { maxLength: 10 })
          .map((pairs) => Object.fromEntries(pairs) as Record<string, string>),
      });
      const same = (
        got: { body?: string; attributes: Record<string, string>; messageId: string },
        given: { body: string; attributes: Record<string, string> },
        id: string,
      ) => {
        expect(got.body).toBe(given.body);
        expect(Object.entries(got.attributes).sort()).toEqual(Object.entries(given.attributes).sort());
        expect(got.messageId).toBe(id);
      };
      await fc.assert(
        fc.asyncProperty(message, async (given) => {
          // Object.fromEntries makes `__proto__` an own property, as JSON.parse does.
          const [sent] = await send("q", given);
          const id = sent?.messageId as string;
          const first = only(await receive("q"));
          same(first, given, id);
          await world.call("ChangeVisibility", { queueId: "q" }, { receipts: [{ receipt: first.receipt, visibilityTimeoutSeconds: 0 }] });
          const peeked = (await world.call("PeekMessages", { queueId: "dead" })).messages as unknown as Received["messages"];
          expect(peeked).toHaveLength(1);
          same(peeked[0] as never, given, id);
          await world.call("RedriveMessages", { queueId: "dead" });
          await world.pass(0);
          const back = only(await receive("q"));
          same(back, given, id);
          expect(back.receiveCount).toBe(1);
          expect((await ack("q", back.receipt))[0]?.ok).toBe(true);
        }),
        { numRuns: 25 },
      );
      expect(Object.prototype).not.toHaveProperty("polluted");
      expect(({} as Record<string, unknown>).toString).toBe(Object.prototype.toString);
    });

    it("Q8, LEASE-01: after a lease ended and another began, the first receipt is refused and the second counts, on both kinds of queue", async () => {
      for (const type of ["standard", "fifo"]) {
        await create(type, { type, visibilityTimeoutSeconds: 2 });
        await send(type, { body: "x", groupId: "g" });
        const a = only(await receive(type));
        await world.pass(3000);
        const b = only(await receive(type));
        expect(b.receiveCount).toBe(2);
        expect((await ack(type, a.receipt))[0]).toMatchObject({ ok: false, code: "receipt_mismatch" });
        expect((await ack(type, b.receipt))[0]).toMatchObject({ ok: true });
        expect((await ack(type, b.receipt))[0]).toMatchObject({ ok: false, code: "message_not_found" });
        expect(await stats(type)).toMatchObject({ inflight: 0, ready: 0, acknowledged: 1 });
      }
    });

    it("Q7: a lease that ended leaves its receipt worthless though nobody received the message since", async () => {
      await create("q", { visibilityTimeoutSeconds: 2 });
      await send("q", { body: "x" });
      const got = only(await receive("q"));
      await world.pass(2000);
      expect((await ack("q", got.receipt))[0]).toMatchObject({ ok: false, code: "receipt_mismatch" });
      expect(only(await receive("q")).messageId).toBe(got.messageId);
    });

    it("LEASE-02: on a FIFO queue a lapsed receipt is refused before anybody received again, and the message heads its group", async () => {
      await create("f", { type: "fifo", visibilityTimeoutSeconds: 2 });
      await send("f", { body: "1", groupId: "g" }, { body: "2", groupId: "g" });
      const first = only(await receive("f"));
      await world.pass(2000);
      expect((await ack("f", first.receipt))[0]).toMatchObject({ ok: false, code: "receipt_mismatch" });
      expect(only(await receive("f", { maxMessages: 10 }))).toMatchObject({ body: "1", receiveCount: 2 });
      expect(await receive("f")).toEqual([]);
    });

    it("Q9, FIFO-01: nothing of a group is handed out while earlier ones are in flight, and other groups are", async () => {
      await create("f", { type: "fifo" });
      await send("f", { body: "1", groupId: "g" }, { body: "2", groupId: "g" });
      const [one, two] = await receive("f", { maxMessages: 10 });
      expect([one?.body, two?.body]).toEqual(["1", "2"]);
      await send("f", { body: "3", groupId: "g" }, { body: "other", groupId: "h" });
      expect((await receive("f", { maxMessages: 10 })).map(({ body }) => body)).toEqual(["other"]);
      await ack("f", one?.receipt as string);
      expect(await receive("f", { maxMessages: 10 })).toEqual([]);
      await ack("f", two?.receipt as string);
      expect(only(await receive("f", { maxMessages: 10 }))).toMatchObject({ body: "3", groupId: "g" });
    });

    it("LEASE-07: a delay longer than the lease is waited out, and then each message has one lease at a time", async () => {
      await create("q", { visibilityTimeoutSeconds: 2 });
      await send("q", { body: "x", delaySeconds: 1000 });
      await world.pass(800_000);
      for (let i = 0; i < 4; i++) expect(await receive("q")).toEqual([]);
      await world.pass(200_000);
      const answers = await Promise.all([1, 2, 3, 4].map(() => receive("q")));
      expect(only(answers.flat()).receiveCount).toBe(1);
    });

    it("LEASE-03: made-up receipts, another queue's and message ids are refused entry by entry, and nothing changes", async () => {
      await create("q");
      await create("other");
      await send("q", { body: "x" });
      await send("other", { body: "y" });
      const mine = only(await receive("q"));
      const theirs = only(await receive("other"));
      const results = await ack("q", "fake", "x".repeat(200), theirs.receipt, mine.messageId, mine.receipt);
      expect(results.map(({ ok }) => ok)).toEqual([false, false, false, false, true]);
      expect(results.slice(0, 4).map(({ code }) => code)).toEqual([
        "receipt_mismatch",
        "receipt_mismatch",
        "message_not_found",
        "receipt_mismatch",
      ]);
      const moved = await world.call(
        "ChangeVisibility",
        { queueId: "q" },
        { receipts: [{ receipt: theirs.receipt, visibilityTimeoutSeconds: 0 }] },
      );
      expect(moved.results[0]?.ok).toBe(false);
      expect(await stats("other")).toMatchObject({ inflight: 1, ready: 0 });
      expect((await ack("other", theirs.receipt))[0]?.ok).toBe(true);
      await expect(world.call("AckMessages", { queueId: "q" }, { receipts: [""] })).rejects.toThrow();
    });

    it("Q8: the end of a lease can be moved, and 0 seconds makes the message ready now at the cost of its attempt", async () => {
      await create("q", { visibilityTimeoutSeconds: 10 });
      await send("q", { body: "x" });
      const got = only(await receive("q"));
      const move = async (receipt: string, visibilityTimeoutSeconds: number) =>
        (await world.call("ChangeVisibility", { queueId: "q" }, { receipts: [{ receipt, visibilityTimeoutSeconds }] })).results[0];
      expect(await move(got.receipt, 30)).toMatchObject({ ok: true });
      await world.pass(engine === "sqlite" ? 29_999 : 15_000);
      expect(await receive("q")).toEqual([]);
      expect(await move(got.receipt, 0)).toMatchObject({ ok: true });
      expect(await move(got.receipt, 5)).toMatchObject({ ok: false, code: "receipt_mismatch" });
      expect(only(await receive("q")).receiveCount).toBe(2);
      const { messages } = await world.call("PeekMessages", { queueId: "q" });
      expect(messages).toMatchObject([{ state: "inflight", attempts: 2, receiveCount: 2 }]);
    });

    it("Q11, FIFO-07: a repeated dedupId within the window answers the first message, also after ack, purge and a restart", async () => {
      await create("q", { deduplicationWindowSeconds: 60 });
      const [first] = await send("q", { body: "one", dedupId: "x" });
      const again = () => send("q", { body: "another", dedupId: "x" });
      const duplicate = [{ messageId: first?.messageId, deduplicated: true }];
      expect(await again()).toMatchObject(duplicate);
      expect((await ack("q", only(await receive("q", { maxMessages: 10 })).receipt))[0]?.ok).toBe(true);
      expect(await again()).toMatchObject(duplicate);
      await world.call("PurgeQueue", { queueId: "q" }, {});
      expect(await again()).toMatchObject(duplicate);
      await world.restart();
      expect(await again()).toMatchObject(duplicate);
      expect(await receive("q")).toEqual([]);
      await world.pass(60_000);
      const [second] = await again();
      expect(second?.messageId).not.toBe(first?.messageId);
      expect(second?.deduplicated).toBeUndefined();
    });

    it("Q11: with contentBasedDeduplication equal bodies are one message, and a window of 0 remembers nothing", async () => {
      await create("q", { contentBasedDeduplication: true });
      const [first, second, third] = await send("q", { body: "same" }, { body: "same" }, { body: "other" });
      expect(second).toMatchObject({ messageId: first?.messageId, deduplicated: true });
      expect(third?.deduplicated).toBeUndefined();
      await world.call("UpdateQueue", { queueId: "q" }, { deduplicationWindowSeconds: 0 });
      const [fourth] = await send("q", { body: "same", dedupId: "d" });
      const [fifth] = await send("q", { body: "same", dedupId: "d" });
      expect(fourth?.deduplicated ?? fifth?.deduplicated).toBeUndefined();
    });

    it("Q12, IDEM-02: a repeated key answers the first send, another body conflicts, another scope and a later time are new", async () => {
      await create("q");
      const body = { messages: [{ body: "x" }] };
      const key = { scope: `SendMessages ${world.within} q`, key: "k", hash: "1" };
      const sendWith = (k: typeof key) => world.call("SendMessages", { queueId: "q" }, body, { key: k });
      const first = await sendWith(key);
      expect(await sendWith(key)).toEqual(first);
      expect(await faultOf(sendWith({ ...key, hash: "2" }))).toMatchObject({ code: "idempotency_conflict", status: 409 });
      expect(await sendWith({ ...key, scope: "SendMessages r" })).not.toEqual(first);
      await world.pass(48 * 3_600_000 - 1000);
      expect(await sendWith(key)).toEqual(first);
      await world.pass(2000);
      expect(await sendWith(key)).not.toEqual(first);
    });

    it("Q12: a refused send does not burn its key", async () => {
      await create("q", { maxBytes: 1 });
      const key = { scope: `SendMessages ${world.within} q`, key: "k", hash: "1" };
      const sendWith = () => world.call("SendMessages", { queueId: "q" }, { messages: [{ body: "xx" }] }, { key });
      expect(await faultOf(sendWith())).toMatchObject({ code: "backlog_full", status: 429 });
      await world.call("UpdateQueue", { queueId: "q" }, { maxBytes: 100 });
      expect((await sendWith()).messages).toHaveLength(1);
    });

    it("Q2: a send that would overfill the backlog is refused as a whole", async () => {
      await create("q", { maxBytes: 5 });
      expect(await faultOf(send("q", { body: "abc" }, { body: "def" }))).toMatchObject({ code: "backlog_full", status: 429 });
      expect(await receive("q", { maxMessages: 10 })).toEqual([]);
      await send("q", { body: "abcde" });
      expect((await faultOf(send("q", { body: "f" }))).code).toBe("backlog_full");
    });

    it("Q11, Q2: a repeat stores nothing and is answered its first message, also by a full queue and within one send", async () => {
      await world.call("CreateQueue", {}, { name: "q", maxBytes: 10, deduplicationWindowSeconds: 60 });
      const message = { body: "0123456789", dedupId: "x" };
      const [first, again] = await send("q", message, message);
      expect(again).toMatchObject({ messageId: first?.messageId, deduplicated: true });
      expect(await send("q", message)).toMatchObject([{ messageId: first?.messageId, deduplicated: true }]);
      expect(await faultOf(send("q", { body: "0", dedupId: "y" }))).toMatchObject({ code: "backlog_full" });
      expect(await world.call("GetQueueStats", { queueId: "q" })).toMatchObject({ ready: 1, sent: 1, bytes: 10 });
      await world.pass(60_000 + world.slackMs);
      expect(await faultOf(send("q", message))).toMatchObject({ code: "backlog_full" });
    });

    it("a page of large messages ends early and goes on where it ended", async () => {
      await create("q");
      for (let i = 0; i < 30; i++) await send("q", { body: String(i).padEnd(250_000, "x") });
      const sizes: number[] = [];
      const seen: string[] = [];
      let cursor: unknown;
      do {
        const query = { limit: "200", ...(cursor == null ? {} : { cursor }) };
        const page = await world.call("PeekMessages", { queueId: "q" }, undefined, { query });
        sizes.push(page.messages?.length as number);
        for (const { body } of page.messages as { body: string }[]) seen.push(body.replaceAll("x", ""));
        cursor = page.nextCursor;
      } while (cursor != null);
      expect(Math.max(...sizes)).toBe(20);
      expect(seen).toEqual(Array.from({ length: 30 }, (_, i) => String(i)));
    });

    it("Q15: a purge answers how many it removed, of all messages or of the dead ones", async () => {
      await create("q");
      await send("q", { body: "1" }, { body: "2" }, { body: "3", delaySeconds: 60 });
      expect(await world.call("PurgeQueue", { queueId: "q" }, { scope: "dead" })).toEqual({ purgedMessages: 0 });
      expect(await world.call("PurgeQueue", { queueId: "q" })).toEqual({ purgedMessages: 3 });
      expect(await stats("q")).toMatchObject({ ready: 0, scheduled: 0, bytes: 0 });
      await world.pass(60_000);
      expect(await receive("q")).toEqual([]);
    });

    it("Q18: an expired message is never handed out and is gone within a minute", async () => {
      for (const name of ["q", "unread"]) {
        await create(name, { retentionSeconds: 60 });
        await send(name, { body: "x" });
      }
      await world.pass(60_000);
      expect(await receive("q")).toEqual([]);
      await world.pass(59_999);
      expect(await stats("q")).toMatchObject({ ready: 0, expired: 1, bytes: 0 });
      // Nobody asked here: only time took it.
      expect(await stats("unread")).toMatchObject({ ready: 0, expired: 1, bytes: 0 });
    });

    it("RET-02: what was acknowledged does not come back after a restart, and what was not does", async () => {
      await create("q", { visibilityTimeoutSeconds: 5 });
      for (let i = 0; i < 20; i++) await send("q", ...Array.from({ length: 10 }, (_, j) => ({ body: String(i * 10 + j) })));
      const acked = new Set<string>();
      for (let i = 0; i < 10; i++) {
        const got = await receive("q", { maxMessages: 10 });
        const results = await ack("q", ...got.map(({ receipt }) => receipt));
        expect(results.every(({ ok }) => ok)).toBe(true);
        for (const { body } of got) acked.add(body as string);
        if (i % 3 === 0) await world.restart();
      }
      await receive("q", { maxMessages: 10 });
      await world.restart();
      await world.pass(5000);
      const rest: string[] = [];
      for (;;) {
        const got = await receive("q", { maxMessages: 10 });
        if (got.length === 0) break;
        rest.push(...got.map(({ body }) => body as string));
      }
      expect(acked.size).toBe(100);
      expect(rest.filter((body) => acked.has(body))).toEqual([]);
      expect(new Set(rest).size).toBe(100);
    });
  });
}
