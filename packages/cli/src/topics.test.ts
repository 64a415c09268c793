import { type Receiver, receiver } from "@millrace/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, type DevServer, type Ended, runCommand, startDev } from "./command.fixture.ts";

let server: DevServer;
let hooks: Receiver;
const millrace = (...args: string[]): Promise<Ended> => runCommand(args, { cwd: server.cwd });
async function json<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await millrace(...args, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as T;
}
/** Asks again, for half a minute at most, until the answer is good. */
async function until<T>(question: () => Promise<T>, good: (value: T) => boolean): Promise<T> {
  const end = performance.now() + 30_000;
  for (;;) {
    const value = await question();
    if (good(value) || performance.now() > end) return value;
  }
}
const basaltic = async (method: string, path: string, body?: unknown) => (await ask(server, method, `/v1${path}`, body)).body ?? {};
/** What a subscription has become. */
const stateOf = async (id: string) => (await basaltic("GET", `/subscriptions/${id}`)).subscription as { state: string };

interface Delivered {
  type: string;
  subscription_id: string;
  confirm_url?: string;
}
/** Follows the link of the handshake that came to a path. */
async function confirm(path: string, id: string): Promise<void> {
  const handshakes = async () => hooks.requests.filter((request) => request.path === path).map(({ text }) => JSON.parse(text) as Delivered);
  const [handshake] = await until(handshakes, (all) => all.length > 0);
  await fetch(handshake?.confirm_url ?? "");
  expect((await stateOf(id)).state).toBe("confirmed");
}

beforeAll(async () => {
  server = await startDev();
  // what is published on gets the status that its path names; handshakes always succeed
  hooks = await receiver({
    answer: ({ path, headers }) =>
      headers["x-basaltic-notification-type"] === "notification" ? { status: Number(path.slice(1)) || 204 } : { status: 204 },
  });
});
afterAll(async () => {
  await server.stop();
  await hooks.close();
});

describe("millrace topics", { timeout: 120_000 }, () => {
  it("A17, T2: makes, shows, changes, lists and deletes topics and their subscriptions, by name", async () => {
    const made = await json("topics", "create", "life", "--max-attempts", "20", "--timeout", "5s");
    expect(made).toMatchObject({ name: "life", fifo: false, retry_policy: { max_attempts: 20, timeout_seconds: 5 } });
    expect(await json("topics", "update", "life", "--display-name", "Life")).toMatchObject({ display_name: "Life", id: made.id });
    await json("queues", "create", "inbox");
    const flags = ["--filter", '{"store":["berlin"]}', "--max-in-flight", "3", "--rate-limit", "5/s", "--raw"];
    const subscription = await json<{ id: string }>("topics", "subscriptions", "create", "life", "--queue", "inbox", ...flags);
    expect(subscription).toMatchObject({
      state: "confirmed",
      filter_policy: { store: ["berlin"] },
      max_in_flight: 3,
      rate_limit: { count: 5, period_seconds: 1 },
      raw_message_delivery: true,
    });
    expect(await json("topics", "subscriptions", "update", subscription.id, "--no-filter", "--no-rate-limit")).toMatchObject({
      filter_policy: null,
      rate_limit: null,
      raw_message_delivery: true,
    });
    const listed = await millrace("topics", "subscriptions", "list", "life");
    expect(listed.stdout.split("\n")[1]).toMatch(new RegExp(`^${subscription.id}\tqueue\tconfirmed\tok\t-\t`));
    expect((await millrace("topics", "list")).stdout).toMatch(/^life\tstandard\t1\t0\t/m);
    expect((await millrace("topics", "subscriptions", "create", "life")).code).toBe(2);
    expect((await millrace("topics", "subscriptions", "update", subscription.id, "--filter", "no json")).code).toBe(2);
    expect((await millrace("topics", "delete", "life")).code).toBe(2);
    expect((await millrace("topics", "delete", "life", "--yes")).code).toBe(0);
    expect((await millrace("topics", "get", "life")).code).toBe(4);
  });

  it("T8, T12: shows and rotates a webhook's secret, lists what was delivered and delivers again", async () => {
    await json("topics", "create", "hooks");
    const { id } = await json<{ id: string }>("topics", "subscriptions", "create", "hooks", "--url", `${hooks.url}/404`);
    await confirm("/404", id);
    const secret = (await millrace("topics", "subscriptions", "signing-secret", id)).stdout;
    expect(secret).toMatch(/^whsec_\S+\n$/);
    const rotated = (await millrace("topics", "subscriptions", "signing-secret", id, "--rotate")).stdout;
    expect(rotated).toMatch(/^whsec_\S+\n$/);
    expect(rotated).not.toBe(secret);
    const { message_id: messageId } = await json("topics", "publish", "hooks", "hello", "--subject", "s");
    const failed = async () => (await basaltic("GET", `/subscriptions/${id}/deliveries?state=failed`)).deliveries as { id: string }[];
    const [delivery] = await until(failed, (all) => all.length === 1);
    const { deliveries } = await json<{ deliveries: object[] }>("deliveries", "list", id, "--state", "failed");
    expect(deliveries).toMatchObject([{ id: delivery?.id, message_id: messageId, state: "failed", last_status: 404, attempts: 1 }]);
    expect((await millrace("deliveries", "get", delivery?.id ?? "")).stdout).toContain("last error\thttp: HTTP 404");
    expect(await json("deliveries", "redeliver", delivery?.id ?? "")).toMatchObject({ id: delivery?.id, attempts: 0 });
  });

  it("T10: tests a filter, and ends with 1 when it does not match", async () => {
    const policy = '{"store":["berlin",{"prefix":"ber-"}]}';
    expect((await millrace("topics", "test-filter", policy, "--attribute", "store=ber-1")).code).toBe(0);
    const { code, stdout, stderr } = await millrace("topics", "test-filter", policy, "--attribute", "store=paris");
    expect([code, stderr]).toEqual([1, "It does not match:\n"]);
    expect(stdout).toBe('KEY\tREASON\tGOT\tEXPECTED\nstore\tdifferent\t"paris"\t["berlin",{"prefix":"ber-"}]\n');
    const typed = ["--attributes", '{"price":{"type":"Number","value":7}}'];
    expect((await millrace("topics", "test-filter", '{"price":[{"numeric":["<",8]}]}', ...typed)).code).toBe(0);
    const bad = await millrace("topics", "test-filter", '{"price":[{"numeric":["<"]}]}');
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining("filter_policy.price.0.numeric")]);
  });

  it("T16: one command tells the six ways apart in which a notification does not arrive", async () => {
    await json("topics", "create", "lost");
    const subscribe = async (body: object): Promise<string> =>
      ((await basaltic("POST", "/topics/lost/subscriptions", body)).subscription as { id: string }).id;
    const webhook = (path: string, more = {}) => subscribe({ protocol: "webhook", endpoint: hooks.url + path, ...more });
    await json("queues", "create", "paused");
    const unconfirmed = await webhook("/204");
    const filtered = await webhook("/200", { filter_policy: { store: ["berlin"] } });
    const retried = await webhook("/503", { retry_policy: { min_delay_seconds: 3_600 } });
    const broken = await webhook("/410");
    const queued = await subscribe({ protocol: "queue", endpoint: "paused" });
    await confirm("/200", filtered);
    await confirm("/503", retried);
    await confirm("/410", broken);
    await json("queues", "pause", "paused");

    // one: it was never accepted
    expect((await millrace("topics", "explain", "01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a")).code).toBe(4);

    const messageId = (await millrace("topics", "publish", "lost", "hello", "--attribute", "store=paris")).stdout.trim();
    type Verdicts = { verdicts: { subscription_id: string; outcome: string; delivery: { attempts: number } | null }[] };
    const explained = await until(
      async () => (await basaltic("GET", `/notifications/${messageId}/explanation`)) as unknown as Verdicts,
      ({ verdicts }) =>
        verdicts.every(
          ({ outcome, delivery }) =>
            delivery === null || outcome === "failed" || outcome === "delivered" || (outcome === "pending" && delivery.attempts > 0),
        ),
    );
    expect(explained.verdicts).toHaveLength(5);

    const { code, stdout, stderr } = await millrace("topics", "explain", messageId);
    expect([code, stderr]).toEqual([0, ""]);
    const said = (id: string): string =>
      stdout
        .split("\n")
        .find((line) => line.startsWith(id))
        ?.slice(id.length + 1) ?? "";
    expect(stdout).toMatch(/^accepted\tyes, at 20/m);
    expect(stdout).toMatch(/^fan-out\tcomplete: 3 matched, 1 filtered out$/m);
    expect(said(unconfirmed)).toMatch(/^webhook\tnot_confirmed\tThe subscription is not confirmed, so it got nothing/);
    expect(said(filtered)).toBe('webhook\tfiltered_out\tFiltered out: store is "paris" where the filter wants "berlin".');
    expect(said(retried)).toMatch(/^webhook\tpending\tNot delivered after 1 attempt: HTTP 503; the next one is at 20/);
    expect(said(broken)).toBe("webhook\tfailed\tFailed for good after 1 attempt: HTTP 410.");
    expect(said(queued)).toMatch(/^queue\tdelivered\tDelivered at .* after 1 attempt\. The queue is paused: it hands out nothing\.$/);

    const full = (await millrace("topics", "explain", messageId, "--subscription", broken)).stdout;
    expect(full).toMatch(/^webhook\t\S+\/410 fails, last success \S+, last error at \S+: HTTP 410$/m);
    expect(full).toMatch(/^delivery\tfailed after 1 attempt, last error http: HTTP 410 \(/m);
    expect((await millrace("topics", "explain", messageId, "--subscription", queued)).stdout).toMatch(
      /^queue\tpaused is paused: 1 ready, 0 leased, 0 dead; encryption key readable$/m,
    );
  });
});
