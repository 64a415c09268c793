/** Organizations, projects, keys and tokens over HTTP, on one engine. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureInstallation } from "../identity/installation.ts";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "./door.suite.ts";

interface KeyOptions {
  project?: string;
  on?: string[];
  allow?: string[];
  expiresAt?: string;
}

/** Runs the suite on `engine`. */
export function identitySuite(engine: Engine): void {
  describe(`identity on ${engine}`, () => {
    let door: Door;
    beforeAll(async () => {
      door = await openDoor(engine);
      for (const name of ["orders", "orders-eu", "invoices"]) await door.shop("/queues", { json: { name } });
      await door.request("/v1/organizations/acme/projects", { json: { name: "other" } });
      await door.request("/v1/organizations", { json: { name: "globex" } });
      await door.request("/v1/organizations/globex/projects", { json: { name: "shop" } });
    });
    afterAll(() => door.close());

    const makeKey = async ({ project = "acme/projects/shop", on = ["*"], allow = ["*"], expiresAt }: KeyOptions = {}) => {
      const json = { name: "k", statements: [{ allow, on }], expiresAt };
      const answer = await door.request(`/v1/organizations/${project}/keys`, { json });
      expect(answer.status).toBe(201);
      return answer.json as { id: string; secret: string };
    };
    const outcome = ({ status, json }: Answered): string => `${status} ${json?.error?.code ?? "ok"}`;

    it("A5: organizations and projects are made, shown by id and by name, listed and deleted when empty", async () => {
      const made = await door.request("/v1/organizations", { json: { name: "initech" } });
      expect(made.status).toBe(201);
      expect((await door.request(`/v1/organizations/${made.json.id}`)).json).toEqual(made.json);
      expect((await door.request("/v1/organizations/initech")).json).toEqual(made.json);
      expect(outcome(await door.request("/v1/organizations", { json: { name: "initech" } }))).toBe("409 name_taken");
      const project = await door.request("/v1/organizations/initech/projects", { json: { name: "p" } });
      expect(project.json).toMatchObject({ name: "p", organizationId: made.json.id });
      expect(outcome(await door.request("/v1/organizations/initech/projects", { json: { name: "p" } }))).toBe("409 name_taken");
      expect(outcome(await door.request("/v1/organizations/initech", { method: "DELETE" }))).toBe("409 not_empty");
      await door.request("/v1/organizations/initech/projects/p/queues", { json: { name: "q" } });
      expect(outcome(await door.request("/v1/organizations/initech/projects/p", { method: "DELETE" }))).toBe("409 not_empty");
      await door.request("/v1/organizations/initech/projects/p/queues/q", { method: "DELETE" });
      const gone = await door.request(`/v1/organizations/initech/projects/${project.json.id}`, { method: "DELETE" });
      expect([gone.status, gone.text]).toEqual([204, ""]);
      expect(outcome(await door.request("/v1/organizations/initech/projects/p"))).toBe("404 project_not_found");
      expect((await door.request("/v1/organizations/initech", { method: "DELETE" })).status).toBe(204);
      expect(outcome(await door.request("/v1/organizations/initech"))).toBe("404 organization_not_found");
    });

    it("A3: lists page by cursor, each row once, also while rows come and go", async () => {
      await door.request("/v1/organizations", { json: { name: "paged" } });
      const create = (name: string) => door.request("/v1/organizations/paged/projects", { json: { name } });
      for (let i = 0; i < 7; i += 1) await create(`p${i}`);
      const seen: string[] = [];
      let cursor: string | null = null;
      for (let page = 0; page < 10; page += 1) {
        const query: string = cursor === null ? "" : `&cursor=${cursor}`;
        const { json } = await door.request(`/v1/organizations/paged/projects?limit=2${query}`);
        seen.push(...json.projects.map((each: { name: string }) => each.name));
        cursor = json.nextCursor;
        if (page === 1) {
          await door.request("/v1/organizations/paged/projects/p0", { method: "DELETE" });
          await door.request("/v1/organizations/paged/projects/p5", { method: "DELETE" });
          await create("p9");
        }
        if (cursor === null) break;
      }
      expect(seen).toEqual(["p0", "p1", "p2", "p3", "p4", "p6", "p9"]);
      expect(outcome(await door.request("/v1/organizations/paged/projects?cursor=AAAAAAAAWzFd"))).toBe("400 invalid_request");
      expect(outcome(await door.request("/v1/organizations/paged/projects?limit=201"))).toBe("400 invalid_request");
    });

    it("A5: a key's text is in the answer that made it and nowhere else; only its hash is stored", async () => {
      const { id, secret } = await makeKey();
      expect(secret).toMatch(/^mlr_[0-9A-Za-z]{49}$/);
      const shown = await door.shop(`/keys/${id}`);
      expect(shown.json).toMatchObject({ id, name: "k", secret: null, expiresAt: null });
      const list = await door.shop("/keys?limit=200");
      expect(list.text).not.toContain(secret.slice(4));
      expect(JSON.stringify(await door.store.run("findKey", { id }))).not.toContain(secret.slice(4));
      expect((await door.shop("/queues/orders", { key: secret })).status).toBe(200);
    });

    it("A5: without a key, with a mistyped, unknown or foreign one, the answer is a 401; no look-up for what cannot be a key", async () => {
      const bad = door.apiKey.slice(0, -1) + (door.apiKey.endsWith("0") ? "1" : "0");
      const before = door.verbs.length;
      const tried: Asked[] = [
        { key: null },
        { key: "" },
        { key: bad },
        { key: "mlr_short" },
        { key: "mlt_e30.e30" },
        { key: "x".repeat(5000) },
        { key: null, headers: { authorization: "Basic dTpw" } },
      ];
      for (const asked of tried) {
        const answer = await door.shop("/queues/orders", asked);
        expect(outcome(answer)).toBe("401 unauthorized");
        expect(answer.headers["www-authenticate"]).toBe('Bearer realm="millrace"');
      }
      expect(door.verbs.slice(before)).toEqual([]);
    });

    it("A5: a deleted key stops working at once, and its tokens with it", async () => {
      const { id, secret } = await makeKey();
      const token = await door.request("/oauth/token", {
        key: null,
        raw: `grant_type=client_credentials&client_id=${id}&client_secret=${secret}`,
        headers: { "content-type": "application/x-www-form-urlencoded" },
      });
      const bearer = token.json.access_token;
      expect((await door.shop("/queues/orders", { key: secret })).status).toBe(200);
      expect((await door.shop("/queues/orders", { key: bearer })).status).toBe(200);
      expect((await door.shop(`/keys/${id}`, { method: "DELETE" })).status).toBe(204);
      expect(outcome(await door.shop("/queues/orders", { key: secret }))).toBe("401 unauthorized");
      expect(outcome(await door.shop("/queues/orders", { key: bearer }))).toBe("401 unauthorized");
      expect(outcome(await door.shop(`/keys/${id}`, { method: "DELETE" }))).toBe("404 key_not_found");
    });

    it("A5: a key works until it expires and not a moment longer, by the clock", async () => {
      if (engine === "postgres") return;
      const expiresAt = new Date(door.clock.now() + 10_000).toISOString();
      const { secret } = await makeKey({ expiresAt });
      door.clock.advance(9_999);
      expect((await door.shop("/queues/orders", { key: secret })).status).toBe(200);
      door.clock.advance(1);
      expect(outcome(await door.shop("/queues/orders", { key: secret }))).toBe("401 unauthorized");
    });

    it("A5: the last use of a key is written, at most once a minute", async () => {
      const { id, secret } = await makeKey();
      expect((await door.shop(`/keys/${id}`)).json.lastUsedAt).toBeNull();
      const touches = () => door.verbs.filter((verb) => verb === "touchKey").length;
      const before = touches();
      for (let i = 0; i < 5; i += 1) await door.shop("/queues/orders", { key: secret });
      expect(touches()).toBe(before + 1);
      door.clock.advance(60_000);
      await door.shop("/queues/orders", { key: secret });
      expect(touches()).toBe(before + 2);
      expect((await door.shop(`/keys/${id}`)).json.lastUsedAt).toMatch(/^\d{4}-.*Z$/);
    });

    it("A6: outside a key's reach everything is not found, within it a missing permission is named", async () => {
      const { secret: key } = await makeKey({ on: ["acme/shop/queues/orders*"], allow: ["queues.queues.get"] });
      const ask = async (path: string, asked: Asked = {}) => outcome(await door.request(`/v1/organizations/${path}`, { ...asked, key }));
      const { json: queue } = await door.shop("/queues/invoices");
      expect(await ask("acme/projects/shop/queues/orders-eu")).toBe("200 ok");
      for (const reference of ["invoices", "nothing", queue.id, queue.resourceName, "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8"]) {
        expect(await ask(`acme/projects/shop/queues/${reference}`)).toBe("404 queue_not_found");
      }
      expect(await ask("acme/projects/other/queues/orders")).toBe("404 project_not_found");
      expect(await ask("acme/projects/nothing/queues/orders")).toBe("404 project_not_found");
      expect(await ask("globex/projects/shop/queues/orders")).toBe("404 organization_not_found");
      expect(await ask("nothing/projects/shop/queues/orders")).toBe("404 organization_not_found");
      expect(await ask("globex")).toBe("404 organization_not_found");
      const denied = await door.shop("/queues/orders", { method: "DELETE", key });
      expect([denied.status, denied.json.error.details]).toEqual([403, { permission: "queues.queues.delete" }]);
      expect(await ask("acme/projects/shop", {})).toBe("403 permission_denied");
      expect(await ask("acme")).toBe("403 permission_denied");
    });

    it("A6: what is out of reach costs exactly the look-ups of what does not exist", async () => {
      const { secret: key } = await makeKey({ on: ["acme/shop/queues/orders"] });
      const { json: queue } = await door.shop("/queues/invoices");
      const { json: globex } = await door.request("/v1/organizations/globex");
      await door.shop("/queues/orders", { key });
      await door.shop("/queues/invoices");
      const work = async (path: string): Promise<string[]> => {
        const before = door.verbs.length;
        const answer = await door.request(`/v1/organizations/${path}`, { key });
        expect(answer.status).toBe(404);
        return door.verbs.slice(before);
      };
      const unknown = "01999f3b-9e8d-7c6b-a5f4-e3d2c1b0a9f8";
      expect(await work("acme/projects/shop/queues/invoices")).toEqual(await work("acme/projects/shop/queues/nothing"));
      expect(await work("acme/projects/other/queues/orders")).toEqual(await work("acme/projects/nothing/queues/orders"));
      expect(await work("globex/projects/shop/queues/orders")).toEqual(await work("nothing/projects/shop/queues/orders"));
      expect(await work(globex.id)).toEqual(await work(unknown));
      for (let i = 0; i < 2; i += 1) {
        expect(await work("globex/projects/shop")).toEqual(["findProject"]);
        expect(await work(`${unknown}/projects/shop`)).toEqual(["findProject"]);
      }
      expect(queue.name).toBe("invoices");
    });

    it("A2: U+0000 in a name or a reference is a 400 that names the field, on every engine", async () => {
      const shop = "/v1/organizations/acme/projects/shop";
      for (const path of ["/v1/organizations/%00", "/v1/organizations/acme/projects/%00/queues", `${shop}/queues/%00`, `${shop}/keys/%00`])
        expect(outcome(await door.request(path, path.includes("keys") ? { method: "DELETE" } : {}))).toBe("400 invalid_request");
      const policy = { deadLetterQueueId: "a\0", maxReceiveCount: 1 };
      const queue = await door.shop("/queues", { json: { name: "nul", redrivePolicy: policy } });
      expect(queue.json.error.details.path).toBe("redrivePolicy.deadLetterQueueId");
      const key = await door.shop("/keys", { json: { name: "a\0", statements: [{ allow: ["*"], on: ["*"] }] } });
      expect(key.json.error).toMatchObject({ code: "invalid_request", message: expect.stringContaining("name: must be without U+0000") });
      const target = { kind: "https", url: "https://hooks.example.com/" };
      expect(outcome(await door.shop("/subscriptions", { json: { queueId: "\0", target } }))).toBe("400 invalid_request");
    });

    it("A5: a project's key reaches its own project alone, and its lists show no other", async () => {
      const { secret: key } = await makeKey();
      expect((await door.shop("/queues", { key })).status).toBe(200);
      expect(outcome(await door.request("/v1/organizations/acme/projects/other/queues", { key }))).toBe("404 project_not_found");
      expect(outcome(await door.request("/v1/organizations/globex/projects/shop/queues", { key }))).toBe("404 organization_not_found");
      expect(outcome(await door.request("/v1/organizations", { key, json: { name: "mine" } }))).toBe("403 permission_denied");
      expect(outcome(await door.request("/v1/organizations/acme/projects", { key, json: { name: "mine" } }))).toBe("403 permission_denied");
      const names = (rows: { name: string }[]) => rows.map(({ name }) => name);
      expect(names((await door.request("/v1/organizations", { key })).json.organizations)).toEqual(["acme"]);
      expect(names((await door.request("/v1/organizations/acme/projects", { key })).json.projects)).toEqual(["shop"]);
      const { json: foreign } = await door.request("/v1/organizations/acme/projects/other/keys", {
        json: { name: "f", statements: [{ allow: ["*"], on: ["*"] }] },
      });
      expect(outcome(await door.shop(`/keys/${foreign.id}`, { key }))).toBe("404 key_not_found");
      expect(outcome(await door.shop(`/keys/${foreign.id}`, { key, method: "DELETE" }))).toBe("404 key_not_found");
    });

    it("A5: nobody hands out more than they have", async () => {
      const { secret: key } = await makeKey({
        on: ["acme/shop", "acme/shop/queues/orders"],
        allow: ["keys.create", "queues.messages.send"],
      });
      const give = (allow: string, on: string) =>
        door.shop("/keys", { key, json: { name: "child", statements: [{ allow: [allow], on: [on] }] } });
      expect((await give("queues.messages.send", "acme/shop/queues/orders")).status).toBe(201);
      const refused = await give("queues.messages.receive", "acme/shop/queues/orders");
      expect([refused.status, refused.json.error.details.permission]).toEqual([403, "queues.messages.receive"]);
      expect((await give("queues.messages.send", "*")).status).toBe(403);
    });

    it("A5: POST /oauth/token trades a key's id and text for a one-hour token, by Basic, form or JSON", async () => {
      const { id, secret } = await makeKey();
      const form = { "content-type": "application/x-www-form-urlencoded" };
      const basic = { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}` };
      const ask = (asked: Asked) => door.request("/oauth/token", { key: null, ...asked });
      const granted = await ask({ raw: "grant_type=client_credentials", headers: { ...form, ...basic } });
      expect(granted.json).toMatchObject({ token_type: "Bearer", expires_in: 3600 });
      expect(granted.headers["cache-control"]).toBe("no-store");
      expect((await ask({ json: { grant_type: "client_credentials", client_id: id, client_secret: secret } })).status).toBe(200);
      const token = granted.json.access_token;
      expect((await door.shop("/queues/orders", { key: token })).status).toBe(200);
      expect(outcome(await door.shop("/queues/orders", { key: `${token.slice(0, -2)}xx` }))).toBe("401 unauthorized");
      door.clock.advance(3_599_999);
      expect((await door.shop("/queues/orders", { key: token })).status).toBe(200);
      door.clock.advance(1);
      expect(outcome(await door.shop("/queues/orders", { key: token }))).toBe("401 unauthorized");
    });

    it("A5: /oauth/token refuses in the words of RFC 6749", async () => {
      const { id, secret } = await makeKey();
      const ask = async (raw: string, headers: Record<string, string> = {}) => {
        const sent = { "content-type": "application/x-www-form-urlencoded", ...headers };
        const { status, json } = await door.request("/oauth/token", { key: null, raw, headers: sent });
        return `${status} ${json.error}`;
      };
      const client = `client_id=${id}&client_secret=${secret}`;
      expect(await ask(client)).toBe("400 invalid_request");
      expect(await ask(`grant_type=password&${client}`)).toBe("400 unsupported_grant_type");
      expect(await ask(`grant_type=client_credentials&client_id=${id}&client_secret=${door.apiKey}`)).toBe("401 invalid_client");
      expect(await ask("grant_type=client_credentials")).toBe("401 invalid_client");
      expect(await ask(`grant_type=client_credentials&${client}`, { authorization: "Basic dTpw" })).toBe("400 invalid_request");
      expect(await ask("grant_type=client_credentials&grant_type=x")).toBe("400 invalid_request");
      expect(await ask("grant_type=client_credentials", { authorization: "Bearer x" })).toBe("401 invalid_client");
      expect(await ask('{"grant_type":', { "content-type": "application/json" })).toBe("400 invalid_request");
    });

    it("A5, A9: an installation is made once, and making sure of it again, also at once, changes nothing", async () => {
      const { randomBytes } = await import("node:crypto");
      const { uuidv7 } = await import("uuidv7");
      const given = {
        organization: "dev",
        project: "dev",
        key: { name: "dev" },
        newId: uuidv7,
        random: (bytes: number) => new Uint8Array(randomBytes(bytes)),
      };
      const all = await Promise.all([1, 2, 3].map(() => ensureInstallation(door.store, given)));
      expect(new Set(all.map(({ project }) => project.id)).size).toBe(1);
      expect(all.map(({ apiKey }) => apiKey)).toEqual([null, null, null]);
      const text = (await makeKey()).secret;
      await expect(ensureInstallation(door.store, { ...given, key: { name: "dev", text: "short" } })).rejects.toThrow(/8 to 200 visible/);
      expect((await ensureInstallation(door.store, { ...given, key: { name: "dev", text } })).apiKey).toBeNull();
    });
  });
}
