/** `Idempotency-Key` over HTTP, on one engine (Q12). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Door, type Engine, openDoor } from "./door.suite.ts";

const HOURS_48 = 48 * 3_600_000;

/** Runs the suite on `engine`. */
export function idempotencySuite(engine: Engine): void {
  describe(`Idempotency-Key on ${engine}`, () => {
    let door: Door;
    let queue = "";
    let count = 0;
    beforeAll(async () => {
      door = await openDoor(engine);
    });
    afterAll(() => door.close());
    beforeEach(async () => {
      count += 1;
      queue = `q${count}`;
      await door.shop("/queues", { json: { name: queue } });
    });

    const send = (key: string, raw = '{"messages":[{"body":"a"}]}', to = queue) =>
      door.shop(`/queues/${to}/messages`, { raw, headers: { "idempotency-key": key } });
    const depth = async (of = queue): Promise<number> => (await door.shop(`/queues/${of}/stats`)).json.ready;

    it("Q12, IDEM-01: 50 sends at once under one key have one effect, and every answer is the first one's or resolves on a retry", async () => {
      const answers = await Promise.all(Array.from({ length: 50 }, () => send("once")));
      const settled = await Promise.all(answers.map((answer) => (answer.status === 409 ? send("once") : answer)));
      for (const answer of answers) expect([200, 409]).toContain(answer.status);
      for (const answer of answers) if (answer.status === 409) expect(answer.json.error.code).toBe("idempotency_in_progress");
      expect(new Set(settled.map(({ text }) => text)).size).toBe(1);
      expect(settled[0]?.status).toBe(200);
      expect(await depth()).toBe(1);
    });

    it("Q12, IDEM-01: of 50 subscriptions made at once under one key there is one, its secret is told once", async () => {
      const create = () =>
        door.shop("/subscriptions", {
          json: { queueId: queue, target: { kind: "https", url: "https://example.com/hook" }, state: "paused" },
          headers: { "idempotency-key": "sub" },
        });
      const answers = await Promise.all(Array.from({ length: 50 }, create));
      const made = answers.filter(({ status }) => status === 201);
      for (const { status, json } of answers) expect(status === 201 || json.error.code === "idempotency_in_progress").toBe(true);
      expect(new Set(made.map(({ json }) => json.id)).size).toBe(1);
      expect(made.filter(({ json }) => json.signingSecret !== null)).toHaveLength(1);
      expect((await create()).json.signingSecret).toBeNull();
    });

    it("Q12: keys of an API key are made once; the repeat has the same status and body, but for the secret", async () => {
      const create = () =>
        door.shop("/keys", {
          json: { name: "w", statements: [{ allow: ["*"], on: ["*"] }] },
          headers: { "idempotency-key": `key ${engine}` },
        });
      const [first, second] = [await create(), await create()];
      expect([first.status, second.status]).toEqual([201, 201]);
      expect(first.json.secret).toMatch(/^mlr_/);
      expect(second.json).toEqual({ ...first.json, secret: null });
    });

    it("Q12, IDEM-02: another body under the same key is a conflict, down to one byte and to the order of JSON keys", async () => {
      await send("k", '{"messages":[{"body":"a","delaySeconds":0}]}');
      for (const raw of ['{"messages":[{"body":"b","delaySeconds":0}]}', '{"messages":[{"delaySeconds":0,"body":"a"}]}']) {
        const answer = await send("k", raw);
        expect([answer.status, answer.json.error.code]).toEqual([409, "idempotency_conflict"]);
      }
      expect(await depth()).toBe(1);
    });

    it("Q12, IDEM-02: the same key on another queue, operation or project is another key", async () => {
      await door.shop("/queues", { json: { name: `${queue}-b` } });
      expect((await send("k")).status).toBe(200);
      expect((await send("k", undefined, `${queue}-b`)).status).toBe(200);
      expect((await send("k", '{"messages":[{"body":"other"}]}', `${queue}-b`)).status).toBe(409);
      const redrive = await door.shop(`/queues/${queue}/redrives`, { json: {}, headers: { "idempotency-key": "k" } });
      expect(redrive.status).toBe(201);
      expect([await depth(), await depth(`${queue}-b`)]).toEqual([1, 1]);
    });

    it("Q12, IDEM-02: keys are 1 to 255 printable ASCII characters", async () => {
      for (const key of ["x", "x".repeat(255), " !~"]) expect((await send(key)).status).toBe(200);
      for (const key of ["", "x".repeat(256), "x".repeat(10_000), "k\u00e9y", "a\tb"]) {
        const answer = await send(key);
        expect([key.length, answer.status, answer.json?.error.details.path]).toEqual([key.length, 400, "Idempotency-Key"]);
      }
    });

    it("Q12, IDEM-02: a key is honoured for 48 hours and then forgotten, and the sweep removes it", async () => {
      const first = await send("day");
      door.clock.advance(HOURS_48 - 1_000);
      expect((await send("day")).text).toBe(first.text);
      door.clock.advance(2_000);
      const later = await send("day");
      expect(later.status).toBe(200);
      expect(later.text).not.toBe(first.text);
      door.clock.advance(HOURS_48 + 1_000);
      expect(await door.store.run("expireIdempotency", 1000)).toBeGreaterThan(0);
      expect(await door.store.run("expireIdempotency", 1000)).toBe(0);
    });

    it("Q12: a refused request does not burn its key", async () => {
      expect((await send("retry", '{"messages":[{"body":"a"}]}', `${queue}-late`)).status).toBe(404);
      await door.shop("/queues", { json: { name: `${queue}-late` } });
      expect((await send("retry", '{"messages":[{"body":"a"}]}', `${queue}-late`)).status).toBe(200);
      const create = (name: string) => door.shop("/queues", { json: { name }, headers: { "idempotency-key": `c-${queue}` } });
      expect((await create(queue)).json.error.code).toBe("queue_exists");
      await door.shop(`/queues/${queue}`, { method: "DELETE" });
      expect((await create(queue)).status).toBe(201);
    });

    it("Q12: a repeat gets the first answer even if the dead-letter queue that it names has been deleted", async () => {
      const policy = (dead: string) => ({ redrivePolicy: { deadLetterQueueId: dead, maxReceiveCount: 3 } });
      const create = (dead: string, key = `c-${queue}`) =>
        door.shop("/queues", { json: { name: `${queue}-x`, ...policy(dead) }, headers: { "idempotency-key": key } });
      const first = await create(queue);
      expect([first.status, first.json.redrivePolicy?.maxReceiveCount]).toEqual([201, 3]);
      await door.shop(`/queues/${queue}-x`, { method: "PATCH", json: { redrivePolicy: null } });
      await door.shop(`/queues/${queue}`, { method: "DELETE" });
      const again = await create(queue);
      expect([again.status, again.text]).toEqual([201, first.text]);
      expect((await create(`${queue}-other`)).json.error.code).toBe("idempotency_conflict");
      expect((await create(queue, `d-${queue}`)).json.error).toMatchObject({
        code: "queue_not_found",
        details: { path: "redrivePolicy.deadLetterQueueId" },
      });
    });

    it("Q12: a repeat needs the permission as much as the first did", async () => {
      await send("perm");
      const { json: key } = await door.shop("/keys", {
        json: { name: "r", statements: [{ allow: ["queues.messages.receive"], on: [`acme/shop/queues/${queue}`] }] },
      });
      const answer = await door.shop(`/queues/${queue}/messages`, {
        raw: '{"messages":[{"body":"a"}]}',
        headers: { "idempotency-key": "perm" },
        key: key.secret,
      });
      expect(answer.status).toBe(403);
    });
  });
}
