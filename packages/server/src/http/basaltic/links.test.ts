import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTopicTokens, type TopicTokens } from "../../topic/tokens.ts";
import { type Answered, type Asked, type Door, type Engine, openDoor } from "../door.suite.ts";

const DAY_MS = 86_400_000;
const html = { accept: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8" };

describe.each<Engine>(["sqlite", "postgres"])("the links of notifications on %s", (engine) => {
  let door: Door;
  let tokens: TopicTokens;
  let topics = 0;
  beforeAll(async () => {
    door = await openDoor(engine);
    tokens = createTopicTokens({ vault: door.vault, publicUrl: () => "" });
  });
  afterAll(() => door.close());

  const call = (path: string, asked: Asked = {}): Promise<Answered> =>
    door.request(`/v1${path}`, { ...asked, headers: { "x-account-id": "shop", ...asked.headers } });
  /** Opens a link as whoever got it: without a key. */
  const open = (path: string, asked: Asked = {}): Promise<Answered> => door.request(path, { key: null, ...asked });
  /** A pending webhook on a topic of its own, with its links as paths. */
  const pending = async () => {
    topics += 1;
    const name = `topic-${topics}`;
    await call("/topics", { json: { name } });
    const json = { protocol: "webhook", endpoint: `https://hooks.example.com/<${topics}>` };
    const { subscription } = (await call(`/topics/${name}/subscriptions`, { json })).json;
    const confirm = tokens.confirmation(subscription.id, Date.parse(subscription.confirmable_until)).url;
    const state = async () => (await call(`/subscriptions/${subscription.id}`)).json.subscription?.state;
    return { id: subscription.id as string, confirm, unsubscribe: tokens.unsubscribeUrl(subscription.id), state };
  };
  const code = ({ status, json }: Answered): unknown => [status, json?.error?.code];

  it("T6, TOPIC-05: opening the confirmation link confirms, twice as once, without a key", async () => {
    const { confirm, state, id } = await pending();
    expect(await state()).toBe("pending");
    const first = await open(confirm);
    expect([first.status, first.json]).toEqual([200, { subscription: { id, topic_name: expect.any(String), state: "confirmed" } }]);
    expect((await open(confirm)).json).toEqual(first.json);
    expect((await open(confirm, { method: "POST" })).json).toEqual(first.json);
    expect(await state()).toBe("confirmed");
    expect((await call(`/topics/topic-${topics}`)).json.topic).toMatchObject({ confirmed_subscriptions: 1, pending_subscriptions: 0 });
  });

  it("T6: the token alone confirms too, sent by POST from anywhere", async () => {
    const { confirm, state } = await pending();
    expect((await open(confirm, { method: "POST", raw: "{}", headers: { "content-type": "application/json" } })).status).toBe(200);
    expect(await state()).toBe("confirmed");
  });

  it("T2, TOPIC-05: HEAD, and a browser that fetches ahead, confirm nothing", async () => {
    const { confirm, state } = await pending();
    expect((await open(confirm, { method: "HEAD" })).status).toBe(204);
    for (const [name, value] of [
      ["sec-purpose", "prefetch;prerender"],
      ["purpose", "prefetch"],
      ["x-moz", "prefetch"],
    ] as const)
      expect((await open(confirm, { headers: { [name]: value } })).status, name).toBe(204);
    expect(await state()).toBe("pending");
  });

  it("T2, T6, TOPIC-05: a token that has expired, is foreign or of the other kind is refused, and changes nothing", async () => {
    const { confirm, unsubscribe, state, id } = await pending();
    const until = door.clock.now() + DAY_MS;
    const refused = [
      "/v1/confirm",
      "/v1/confirm?token=",
      "/v1/confirm?token=%00",
      `${confirm}AA`,
      unsubscribe.replace("unsubscribe", "confirm"),
      tokens.confirmation("01999f3c-7a1e-7b2a-9c4d-00000000002a", until).url,
    ];
    for (const path of refused) expect(code(await open(path)), path).toEqual([400, "invalid_token"]);
    expect(code(await open(confirm.replace("confirm", "unsubscribe"), { method: "POST" }))).toEqual([400, "invalid_token"]);
    expect(await state()).toBe("pending");
    door.clock.advance(3 * DAY_MS + 1_000);
    expect(code(await open(confirm))).toEqual([400, "invalid_token"]);
    expect(await state()).toBe("pending");
    // A new handshake has a new link.
    const asked = (await call(`/subscriptions/${id}/request_confirmation`, { method: "POST" })).json.subscription;
    expect((await open(tokens.confirmation(id, Date.parse(asked.confirmable_until)).url)).status).toBe(200);
    expect(await state()).toBe("confirmed");
    door.clock.advance(10 * DAY_MS);
    expect(code(await open(confirm))).toEqual([400, "invalid_token"]);
    expect(await state()).toBe("confirmed");
  });

  it("T2: no GET unsubscribes anybody: it shows a page with a button that asks again by POST", async () => {
    const { confirm, unsubscribe, state } = await pending();
    await open(confirm);
    for (const headers of [html, undefined]) {
      const page = await open(unsubscribe, headers === undefined ? {} : { headers });
      expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
      expect(page.text).toContain('<form method="post"><button type="submit">Unsubscribe</button></form>');
      expect(page.text).not.toMatch(/src=|href=|url\(|<script/);
      expect(page.headers["content-security-policy"]).toMatch(/default-src 'none'.*form-action 'self'/);
      expect(page.headers["referrer-policy"]).toBe("no-referrer");
    }
    expect((await open(unsubscribe, { method: "HEAD" })).status).toBe(204);
    expect(await state()).toBe("confirmed");
    const form = { method: "POST", raw: "", headers: { ...html, "content-type": "application/x-www-form-urlencoded" } };
    const done = await open(unsubscribe, form);
    expect([done.status, done.text]).toEqual([200, expect.stringContaining("<h1>Unsubscribed</h1>")]);
    expect(await state()).toBeUndefined();
  });

  it("T14, TOPIC-05: unsubscribing twice is as once; afterwards its confirmation link is refused", async () => {
    const { confirm, unsubscribe, state } = await pending();
    await open(confirm);
    for (let time = 0; time < 2; time++)
      expect((await open(unsubscribe, { method: "POST" })).json).toEqual({ subscription: { state: "unsubscribed" } });
    expect(await state()).toBeUndefined();
    expect(code(await open(confirm))).toEqual([400, "invalid_token"]);
    expect((await open(confirm, { headers: html })).text).toContain("This link is not valid");
    expect((await call(`/topics/topic-${topics}`)).json.topic).toMatchObject({ confirmed_subscriptions: 0, pending_subscriptions: 0 });
  });

  it("T2, T6, A7: what a link changed is kept in the audit log, once, under the subscription's id and without the token", async () => {
    const { confirm, unsubscribe, id } = await pending();
    await open(confirm, { method: "HEAD" });
    await open(`${confirm}A`);
    await open(confirm);
    await open(confirm);
    await open(unsubscribe);
    const done = await open(unsubscribe, { method: "POST" });
    await open(unsubscribe, { method: "POST" });
    const { calls } = (await door.request("/v1/organizations/acme/audit?limit=3")).json;
    expect(calls).toMatchObject([
      {
        key: { id, name: "link" },
        operation: "UnsubscribeByLink",
        project: "shop",
        path: "/v1/unsubscribe",
        address: expect.stringMatching(/127\.0\.0\.1$/),
        status: 200,
        code: null,
        requestId: done.headers["x-request-id"],
      },
      { key: { id, name: "link" }, operation: "ConfirmByLink", path: "/v1/confirm" },
      { operation: "CreateTopicSubscription" },
    ]);
  });

  it("T2: whatever an endpoint is called, the page shows it as text", async () => {
    const { confirm } = await pending();
    const page = await open(confirm, { headers: html });
    expect(page.status).toBe(200);
    expect(page.text).toContain(`https://hooks.example.com/&#60;${topics}&#62;`);
    expect(page.text).not.toContain(`<${topics}>`);
  });

  it("A1, A2: other methods are told which there are", async () => {
    const put = await open("/v1/confirm", { method: "PUT", json: {} });
    expect([...(code(put) as unknown[]), put.headers.allow]).toEqual([405, "method_not_allowed", "GET, HEAD, OPTIONS, POST"]);
    expect((await open("/v1/unsubscribe", { method: "OPTIONS" })).headers.allow).toBe("GET, HEAD, OPTIONS, POST");
  });
});
