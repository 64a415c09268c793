/** The audit log over HTTP, on one engine (A7). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Door, type Engine, openDoor } from "./door.suite.ts";

const DAY = 86_400_000;

interface Call {
  key: { id: string; name: string };
  operation: string;
  project: string | null;
  path: string;
  address: string;
  status: number;
  code: string | null;
  requestId: string;
  at: string;
}

/** Runs the suite on `engine`. */
export function auditSuite(engine: Engine): void {
  describe(`the audit log on ${engine}`, () => {
    let door: Door;
    beforeAll(async () => {
      door = await openDoor(engine);
    });
    afterAll(() => door.close());

    const log = async (query = "", key?: string, organization = "acme"): Promise<Call[]> =>
      (await door.request(`/v1/organizations/${organization}/audit${query}`, { key })).json.calls;
    const last = async (): Promise<Call> => (await log("?limit=1"))[0] as Call;
    const makeKey = async (statements: unknown[], project = "shop") =>
      (await door.request(`/v1/organizations/acme/projects/${project}/keys`, { json: { name: `k-${project}`, statements } })).json as {
        id: string;
        secret: string;
      };

    it("A7: a management call is kept before it is answered: who, what, from where and with what outcome", async () => {
      const made = await door.shop("/queues", { json: { name: "orders" } });
      const call = await last();
      expect(call).toMatchObject({
        key: { name: "root" },
        operation: "CreateQueue",
        project: "shop",
        path: "/v1/organizations/acme/projects/shop/queues",
        status: 201,
        code: null,
        requestId: made.headers["x-request-id"],
      });
      expect(call.address).toMatch(/127\.0\.0\.1$/);
      expect(Math.abs(Date.parse(call.at) - door.clock.now())).toBeLessThan(60_000);
    });

    it("A7: refusals are kept with their code: of a bound, of a permission, of what is taken", async () => {
      const { id, secret } = await makeKey([{ allow: ["queues.queues.get"], on: ["acme/shop/queues/orders"] }]);
      await door.shop("/queues", { json: { name: "orders" } });
      await door.shop("/queues", { json: { name: "orders", retentionSeconds: 1 } });
      await door.shop("/queues/orders", { method: "DELETE", key: secret });
      const calls = await log("?limit=3");
      expect(calls.map(({ operation, status, code, key }) => [operation, status, code, key.name])).toEqual([
        ["DeleteQueue", 403, "permission_denied", "k-shop"],
        ["CreateQueue", 400, "invalid_request", "root"],
        ["CreateQueue", 409, "queue_exists", "root"],
      ]);
      expect(calls[0]?.key.id).toBe(id);
    });

    it("A7: what moves messages or only looks is not kept, a secret that is shown is; no secret is in the log", async () => {
      const before = (await log("?limit=200")).length;
      await door.shop("/queues/orders/messages", { json: { messages: [{ body: "hidden-body" }] } });
      const { messages } = (await door.shop("/queues/orders/messages/receive", { json: {} })).json;
      await door.shop("/queues/orders/messages/ack", { json: { receipts: [messages[0].receipt] } });
      await door.shop("/queues/orders?limit=1");
      await door.shop("/queues/orders");
      await door.shop("/queues", { json: { name: "nobody" }, key: null });
      expect(await log("?limit=200")).toHaveLength(before);
      const { secret } = (await door.request("/applications/shop/environments/production/signing-secret")).json;
      expect(await last()).toMatchObject({ operation: "GetSigningSecret", project: "shop", status: 200 });
      const text = JSON.stringify(await log("?limit=200"));
      expect(secret).toMatch(/^whsec_/);
      for (const hidden of [secret, "hidden-body", "whsec_", "mlr_"]) expect(text).not.toContain(hidden);
    });

    it("A7, A6: a key sees the calls of what it reaches; a call on what is hidden from its key is in the log of the key's own", async () => {
      await door.request("/v1/organizations/acme/projects", { json: { name: "other" } });
      const key = await makeKey([{ allow: ["*"], on: ["*"] }], "other");
      await door.request("/v1/organizations/acme/projects/other/queues", { json: { name: "mine" }, key: key.secret });
      await door.shop("/queues/orders", { method: "DELETE", key: key.secret });
      const seen = await log("?limit=200", key.secret);
      expect(new Set(seen.map(({ project }) => project))).toEqual(new Set(["other"]));
      expect(seen[0]).toMatchObject({
        operation: "DeleteQueue",
        code: "project_not_found",
        status: 404,
        path: expect.stringContaining("/shop/"),
      });
      const powerless = await makeKey([{ allow: ["queues.*"], on: ["*"] }], "other");
      expect(await log("", powerless.secret)).toEqual([]);
      await door.request("/v1/organizations", { json: { name: "globex" } });
      expect((await door.request("/v1/organizations/globex/audit", { key: key.secret })).json.error.code).toBe("organization_not_found");
      await door.request("/v1/organizations/globex/projects", { json: { name: "shop" } });
      expect((await log("", undefined, "globex")).map(({ operation, project }) => [operation, project])).toEqual([["CreateProject", null]]);
    });

    it("A7, A3: the log is read page by page, newest first, and stable while it grows", async () => {
      const all = (await log("?limit=200")).map(({ requestId }) => requestId);
      const read: string[] = [];
      let cursor: string | null = "";
      do {
        const page: { calls: Call[]; nextCursor: string | null } = (
          await door.request(`/v1/organizations/acme/audit?limit=3${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`)
        ).json;
        read.push(...page.calls.map(({ requestId }) => requestId));
        cursor = page.nextCursor;
        await door.shop("/queues", { json: { name: "orders" } });
      } while (cursor !== null);
      expect(read).toEqual(all);
    });

    it("A7: a call that names what can name nothing is kept with its key's own", async () => {
      for (const name of ["%00", "x".repeat(900)]) {
        expect((await door.request(`/applications/${name}/queues`, { json: { name: "q" } })).status).toBeGreaterThanOrEqual(400);
        expect(await last()).toMatchObject({ operation: "GigadriveCreateQueue", path: `/applications/${name}/queues`.slice(0, 500) });
      }
      expect(door.logged).toEqual([]);
    });

    it("A7: many calls at once are all kept", async () => {
      const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => door.shop("/queues", { json: { name: `many-${i}` } })));
      const kept = new Set((await log("?limit=200")).map(({ requestId }) => requestId));
      expect(answers.filter(({ headers }) => !kept.has(String(headers["x-request-id"])))).toEqual([]);
    });

    it("A7: a call is kept for 30 days and no longer", async () => {
      const { requestId } = await last();
      door.clock.advance(30 * DAY - 3_600_000);
      await door.shop("/queues/orders", { method: "PATCH", json: { paused: false } });
      const expire = async () => {
        while ((await door.store.run("expireAudit", 7)) > 0);
        return (await log("?limit=200")).map((call) => call.requestId);
      };
      expect(await expire()).toContain(requestId);
      door.clock.advance(3_600_000 + 60_000);
      expect((await log("?limit=200")).length).toBeGreaterThan(1);
      expect(await expire()).toHaveLength(1);
    });
  });
}
