import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../http/door.suite.ts";

/** Declared queues and schedules through the front door on one engine. */
export function provisionSuite(engine: Engine): void {
  describe(`declared queues on ${engine}`, () => {
    let door: Door;
    beforeAll(async () => {
      door = await openDoor(engine);
    });
    afterAll(() => door.close());
    const app = (path: string, asked?: Asked): Promise<Answered> => door.request(`/applications/shop${path}`, asked);
    const apply = (queues: unknown, more: object = {}, key?: string) =>
      app("/config", { json: { queues, ...more }, ...(key === undefined ? {} : { key }) });
    const said = ({ json }: Answered): string[] =>
      json.changes.map(
        ({ action, queue, name, kind, fields }: Record<string, string & string[]>) =>
          `${action} ${kind === "queue" ? name : `${queue}/${name}`}${fields?.length ? ` (${fields.join(", ")})` : ""}`,
      );
    const section = {
      emails: {
        consumer: "/api/queues/emails",
        maxAttempts: 5,
        visibilityTimeout: "2m",
        deadLetterQueue: "last",
        schedules: { digest: { cron: "0 7 * * *", timezone: "Europe/Berlin", json: { kind: "digest" } } },
      },
      last: { retention: "14d" },
    };

    it("C10: a section makes what it declares, and applied again it changes nothing", async () => {
      const plan = await apply(section, { check: true });
      expect(plan.json.applied).toBe(false);
      expect(said(plan)).toEqual(["create last", "create emails", "create emails/digest"]);
      expect((await app("/queues/emails")).status).toBe(404);
      expect(said(await apply(section))).toEqual(said(plan));
      expect((await app("/queues/emails")).json).toMatchObject({
        source: "config",
        mode: "push",
        consumerPath: "/api/queues/emails",
        maxAttempts: 5,
        visibilityTimeoutSeconds: 120,
      });
      expect((await door.shop("/queues/emails")).json.redrivePolicy).toMatchObject({ maxReceiveCount: 5 });
      const [digest] = (await app("/queues/emails/schedules")).json.items;
      expect(digest).toMatchObject({
        source: "config",
        body: '{"kind":"digest"}',
        contentType: "application/json",
        timezone: "Europe/Berlin",
      });
      const again = await apply(section);
      expect(said(again)).toEqual(["unchanged last", "unchanged emails", "unchanged emails/digest"]);
      expect((await app("/queues/emails/schedules")).json.items).toEqual([digest]);
    });

    it("C10, Q13: a chain of dead-letter queues stands after one application, in whatever order it is declared", async () => {
      const chain = { first: { deadLetterQueue: "second" }, second: { deadLetterQueue: "third" }, third: {} };
      expect(said(await apply(chain))).toEqual(["create third", "create second", "create first"]);
      for (const name of ["first", "second"])
        expect((await door.shop(`/queues/${name}`)).json.redrivePolicy, name).toMatchObject({ maxReceiveCount: 10 });
      expect(said(await apply(chain))).toEqual(["unchanged third", "unchanged second", "unchanged first"]);
    });

    it("C10: what is not named keeps its value, a missing consumer too; null makes a pull queue", async () => {
      await apply({
        kept: { consumer: "/x", retryBackoff: { min: "10s", max: "1m" }, rateLimit: { count: 5, period: 1 }, deadLetter: false },
      });
      expect(said(await apply({ kept: {} }))).toEqual(["unchanged kept"]);
      expect(said(await apply({ kept: { retryBackoff: { max: "2m" }, concurrency: 9 } }))).toEqual([
        "change kept (retryBackoff.max, concurrency)",
      ]);
      expect((await app("/queues/kept")).json).toMatchObject({
        consumerPath: "/x",
        retryBackoffMinSeconds: 10,
        retryBackoffMaxSeconds: 120,
        concurrency: 9,
        rateLimit: { count: 5, periodSeconds: 1 },
        deadLetter: false,
      });
      expect(said(await apply({ kept: { consumer: null, rateLimit: null } }))).toEqual(["change kept (consumer, rateLimit)"]);
      expect((await app("/queues/kept")).json).toMatchObject({ mode: "pull", rateLimit: null });
    });

    it("C10: only what a file made is removed, and only with prune", async () => {
      await apply({ made: { schedules: { one: { cron: "@daily" }, two: { cron: "@daily" } } } });
      await app("/queues/by-hand", { method: "PUT", json: {} });
      await app("/queues/made/schedules", { json: { name: "by-hand", cron: "@daily" } });
      const less = { made: { schedules: { two: { cron: "@daily" } } } };
      expect(said(await apply(less))).toEqual(["unchanged made", "unchanged made/two"]);
      const pruned = said(await apply(less, { prune: true }));
      expect(pruned.slice(0, 3)).toEqual(["unchanged made", "unchanged made/two", "remove made/one"]);
      expect(pruned).toContain("remove emails");
      expect(pruned).not.toContain("remove by-hand");
      expect((await app("/queues/emails")).status).toBe(404);
      expect((await app("/queues/by-hand")).status).toBe(200);
      expect((await app("/queues/made/schedules")).json.items.map(({ name }: { name: string }) => name)).toEqual(["by-hand", "two"]);
    });

    it("C10, Q13: prune removes a queue before the one that its dead letters go to", async () => {
      await apply({ p3: { deadLetterQueue: "p2" }, p2: { deadLetterQueue: "p1" }, p1: {} });
      const pruned = said(await apply({}, { prune: true }));
      expect(pruned.filter((change) => /remove p\d/.test(change))).toEqual(["remove p3", "remove p2", "remove p1"]);
      expect((await app("/queues/p1")).status).toBe(404);
    });

    it("C10: a fault anywhere changes nothing and names its path", async () => {
      for (const [bad, path] of [
        [{ q2: { retention: "1s" } }, "queues.q2.retention"],
        [{ q2: { retension: "1d" } }, "queues.q2.retension"],
        [{ q2: { deadLetterQueue: "nowhere" } }, "queues.q2.deadLetterQueue"],
        [{ q2: { deadLetterQueue: "q3" }, q3: { deadLetterQueue: "q2" } }, "queues.q2.deadLetterQueue"],
        [{ q2: { type: "fifo", deadLetterQueue: "q1" } }, "queues.q2.deadLetterQueue"],
        [{ q2: { schedules: { s: { cron: "* * *" } } } }, "queues.q2.schedules.s.cron"],
        [{ q2: { schedules: { s: { cron: "@daily", timezone: "Mars/Base" } } } }, "queues.q2.schedules.s.timezone"],
        [{ "by-hand": { type: "fifo" } }, "queues.by-hand.type"],
      ] as const) {
        const { status, json } = await apply({ q1: {}, ...bad });
        expect([status, json.error.code, json.error.details.path]).toEqual([400, "invalid_request", path]);
      }
      expect((await app("/queues/q1")).status).toBe(404);
    });

    it("C10, A6: each change needs the right that it would need alone", async () => {
      const statements = [{ allow: ["queues.queues.get", "queues.queues.update"], on: ["acme/shop/queues/*"] }];
      const { secret } = (await door.shop("/keys", { json: { name: "changer", statements } })).json;
      expect((await apply({ "by-hand": { concurrency: 3 } }, {}, secret)).status).toBe(200);
      for (const denied of [{ fresh: {} }, { "by-hand": { schedules: { s: { cron: "@daily" } } } }])
        expect((await apply({ "by-hand": { concurrency: 4 }, ...denied }, {}, secret)).status).toBe(403);
      expect((await app("/queues/by-hand")).json.concurrency).toBe(3);
      expect((await app("/queues/fresh")).status).toBe(404);
    });

    it("C7, C10: a deployment's config is applied at its registration; a fault in it registers nothing", async () => {
      const put = (config: unknown) =>
        app("/deployments/d1", { method: "PUT", json: { url: "https://app.example.com", environment: "production", config } });
      const bad = await put({ jobs: { maxAttempts: 0 } });
      expect([bad.status, bad.json.error.details.path]).toEqual([400, "config.jobs.maxAttempts"]);
      expect((await app("/deployments/d1")).status).toBe(404);
      expect((await put({ jobs: { consumer: "/jobs", schedules: { nightly: { cron: "@daily" } } } })).status).toBe(200);
      expect((await app("/queues/jobs")).json).toMatchObject({ consumerPath: "/jobs", source: "config" });
      expect((await app("/queues/jobs/schedules")).json.total).toBe(1);
    });
  });
}
