import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { type ApiError, type MessageMeta, Millrace, NonRetryableError, RetryLaterError, toNodeHandler } from "./index.ts";
import { type Live, live } from "./live.fixture.ts";
import { time } from "./worker.fixture.ts";

let server: Live;
beforeAll(async () => {
  server = await live();
});
afterAll(() => server.close());

/** A line of things that can be waited for. */
function line<T>() {
  const values: T[] = [];
  const wake: (() => void)[] = [];
  return {
    put(value: T) {
      values.push(value);
      for (const each of wake.splice(0)) each();
    },
    async next(): Promise<T> {
      while (values.length === 0) await new Promise<void>((resolve) => wake.push(resolve));
      return values.shift() as T;
    },
  };
}
describe("the SDK against a server", () => {
  it("C11, C9: schedule makes a schedule and changes the one of that name; unschedule ends it", async () => {
    const reports = server.client.queue<{ kind: string }>("reports");
    await reports.ensure();
    const made = await reports.schedule("digest", { cron: "0 7 * * 1-5", timezone: "Europe/Berlin", payload: { kind: "digest" } });
    expect(made).toMatchObject({ name: "digest", enabled: true, lastRunAt: null, nextRunAt: expect.any(Date) });
    const changed = await reports.schedule("digest", { cron: "@daily", enabled: false });
    expect(changed).toMatchObject({ id: made.id, cron: "@daily", timezone: "Europe/Berlin", enabled: false, nextRunAt: null });
    expect(await reports.unschedule("digest")).toBe(true);
    expect(await reports.unschedule("digest")).toBe(false);
    await expect(reports.schedule("digest", { cron: "never" })).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("C11: a message is sent, shown, cancelled, received, given back, extended and acknowledged", async () => {
    const orders = server.client.queue<{ n: number }>("orders");
    const { messageId, deduplicated, deliverAt } = await orders.send(
      { n: 1 },
      { headers: { "x-tenant": "acme" }, deduplicationKey: "once" },
    );
    expect(deduplicated).toBe(false);
    expect(deliverAt).toBeInstanceOf(Date);
    expect(await orders.send({ n: 9 }, { deduplicationKey: "once" })).toMatchObject({ messageId, deduplicated: true });
    const later = await orders.send({ n: 2 }, { delay: "1h" });
    expect(await orders.info()).toMatchObject({
      name: "orders",
      mode: "pull",
      source: "auto",
      maxAttempts: 10,
      stats: { ready: 1, scheduled: 1 },
    });
    expect(await orders.cancel(later.messageId)).toBe(true);
    expect(await orders.cancel(later.messageId)).toBe(false);
    const [first] = await orders.receive({ maxMessages: 5, visibilityTimeout: "30s" });
    expect(first).toMatchObject({ payload: { n: 1 }, messageId, attempt: 1, contentType: "application/json", deduplicationKey: "once" });
    expect(first?.headers.get("x-tenant")).toBe("acme");
    await first?.extend("10m");
    await first?.nack({ delay: 0, error: "not yet" });
    const [second] = await orders.receive({ wait: "5s" });
    expect(second).toMatchObject({ messageId, attempt: 2 });
    await expect(first?.ack()).rejects.toMatchObject({ code: "receipt_mismatch" });
    await second?.ack();
    await expect(second?.ack()).rejects.toMatchObject({ code: "message_not_found" });
    expect((await orders.info()).stats).toMatchObject({ ready: 0, inflight: 0, acknowledged: 1 });
  });

  it("C11: texts and bytes come back as they were, and a batch has a result for each message", async () => {
    const mixed = server.client.queue<unknown>("mixed");
    const payloads = ["text é😀\u0000", "", Uint8Array.of(0, 255, 128), { deep: [1, null] }, 0, false, null];
    const results = await mixed.sendBatch([...payloads.map((payload) => ({ payload })), { payload: 1, headers: { cookie: "no" } }]);
    expect(results.slice(0, -1).every(({ messageId }) => messageId !== null)).toBe(true);
    expect(results.at(-1)).toMatchObject({ messageId: null, code: "invalid_request", retryable: false });
    const received = await mixed.receive({ maxMessages: 10 });
    expect(received.map(({ payload }) => payload)).toEqual(payloads);
    await Promise.all(received.map((message) => message.ack()));
  });

  it("C11: ensure makes and changes, pause holds back, purge and redrive answer how many", async () => {
    const jobs = server.client.queue<number>("jobs");
    expect(await jobs.ensure({ visibilityTimeout: "2m", maxAttempts: 3, retention: "2d" })).toMatchObject({
      created: true,
      visibilityTimeoutSeconds: 120,
      maxAttempts: 3,
    });
    expect(await jobs.ensure({ rateLimit: { count: 5, period: "1m" } })).toMatchObject({
      created: false,
      visibilityTimeoutSeconds: 120,
      rateLimit: { count: 5, periodSeconds: 60 },
    });
    await jobs.ensure({ rateLimit: null });
    const refused = await jobs.ensure({ maxAttempts: 101 }).catch((error: ApiError) => error);
    expect(refused).toMatchObject({ code: "invalid_request", details: { path: "maxAttempts" } });
    await jobs.sendBatch([{ payload: 1 }, { payload: 2 }, { payload: 3 }]);
    await jobs.pause();
    expect((await jobs.info()).paused).toBe(true);
    expect(await jobs.receive()).toEqual([]);
    await jobs.resume();
    for (const message of await jobs.receive({ maxMessages: 3 })) await message.nack({ deadLetter: true, error: "no good" });
    expect((await jobs.info()).stats.dead).toBe(3);
    expect(await jobs.redrive()).toBe(3);
    await server.until(
      () => jobs.info(),
      ({ stats }) => stats.ready === 3,
    );
    expect(await jobs.purge()).toBe(3);
  });

  it("C13: a worker handles what there is, settles by outcome and stops; a group stays in order", async () => {
    const work = server.client.queue<number>("work");
    await work.sendBatch(Array.from({ length: 60 }, (_, payload) => ({ payload, groupKey: payload % 2 === 0 ? "even" : undefined })));
    const seen: number[] = [];
    const handle = (payload: number, { attempt }: MessageMeta) => {
      if (payload === 7) throw new NonRetryableError("seven");
      if (payload === 9 && !seen.includes(9)) {
        seen.push(9);
        throw new RetryLaterError(0);
      }
      expect(attempt).toBe(1);
      seen.push(payload);
    };
    const options = { stopWhenEmpty: true, concurrency: 20, onError: () => {} };
    let handled = 0;
    while (handled < 59) handled += (await work.consume(handle, options)).handled;
    expect(handled).toBe(59);
    expect(new Set(seen).size).toBe(59);
    expect(seen.filter((n) => n % 2 === 0)).toEqual(Array.from({ length: 30 }, (_, n) => 2 * n));
    expect((await work.info()).stats).toMatchObject({ ready: 0, inflight: 0, dead: 1, acknowledged: 59 });
  });

  it("C13: a handler that takes longer than the lease keeps its message: nobody else gets it, and its acknowledgement holds", async () => {
    const here = time();
    const runtime = { now: here.now, wait: here.wait };
    const slow = new Millrace({ url: server.url, apiKey: server.apiKey, project: "shop", runtime }).queue<number>("slow");
    await slow.ensure({ visibilityTimeout: "30s" });
    const { messageId } = await slow.send(1);
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const working = slow.consume(() => finished, { stopWhenEmpty: true });
    const lease = async () =>
      (await server.ask<{ leaseExpiresAt: string | null }>("GET", `/queues/slow/messages/${messageId}`)).leaseExpiresAt;
    for (let beat = 1; beat <= 4; beat += 1) {
      await here.waited(10_000);
      const before = await lease();
      server.advance(10_000);
      here.advance(10_000);
      expect(await server.until(lease, (after) => after !== before)).not.toBe(before);
    }
    expect(await server.client.queue("slow").receive()).toEqual([]);
    finish();
    expect(await working).toEqual({ handled: 1, failed: 0 });
    expect((await slow.info()).stats).toMatchObject({ ready: 0, inflight: 0, acknowledged: 1, dead: 0 });
  });

  it("C12, SDK-01, SDK-02: deliveries reach a handler behind node:http, and each outcome is what the server makes of it", async () => {
    const emails = server.client.queue("emails", {
      signingSecret: server.secret,
      validate: z.object({ kind: z.string() }).parse,
    });
    const calls = line<[string, number]>();
    const handler = emails.handler(({ kind }, { attempt }) => {
      calls.put([kind, attempt]);
      if (kind === "never") throw new NonRetryableError("Unknown template größe");
      if (kind === "later" && attempt === 1) {
        kind = "";
        if (!deferred) {
          deferred = true;
          throw new RetryLaterError("1m");
        }
      }
      if (kind === "fails" && attempt === 1) throw new Error(`${"x".repeat(498)}😀`);
    });
    let deferred = false;
    await server.deploy("d1", toNodeHandler(handler));
    await emails.ensure({ consumerPath: "/api/queues/emails" });

    await emails.send({ kind: "good" });
    expect(await calls.next()).toEqual(["good", 1]);
    await server.until(
      () => emails.info(),
      ({ stats }) => stats.acknowledged === 1,
    );

    await emails.send({ kind: "never" });
    expect(await calls.next()).toEqual(["never", 1]);
    await (server.client.queue("emails") as typeof emails).send({ kind: 7 } as never);
    const dead = await server.until(
      () => server.ask<{ items: { lastError: string; attempts: number }[]; total: number }>("GET", "/queues/emails/messages?state=dead"),
      ({ total }) => total === 2,
    );
    expect(dead.items.map(({ lastError }) => lastError).sort()).toEqual([
      "Unknown template gr??e",
      expect.stringMatching(/^the payload is not valid: kind: /),
    ]);

    await emails.send({ kind: "later" });
    expect(await calls.next()).toEqual(["later", 1]);
    await server.until(
      () => emails.info(),
      ({ stats }) => stats.scheduled === 1,
    );
    server.advance(60_000);
    expect(await calls.next()).toEqual(["later", 1]);

    const { messageId } = await emails.send({ kind: "fails" });
    expect(await calls.next()).toEqual(["fails", 1]);
    const failed = await server.until(
      () => server.ask<{ lastError: string | null }>("GET", `/queues/emails/messages/${messageId}`),
      ({ lastError }) => lastError !== null,
    );
    expect(failed.lastError).toBe(`HTTP 500: ${"x".repeat(498)}😀\n`);
    server.advance(10_000);
    expect(await calls.next()).toEqual(["fails", 2]);
    await server.until(
      () => emails.info(),
      ({ stats }) => stats.acknowledged === 3,
    );
  });

  it("C12, SDK-01: a delivery under another secret is 401, which counts as a failed attempt", async () => {
    const locked = server.client.queue<number>("locked", { signingSecret: "whsec_another" });
    const statuses = line<number>();
    const handler = locked.handler(() => {});
    await server.deploy(
      "d2",
      toNodeHandler(async (request) => {
        const answer = await handler(request);
        statuses.put(answer.status);
        return answer;
      }),
    );
    await locked.ensure({ consumerPath: "/api/queues/locked" });
    const { messageId } = await locked.send(1);
    expect(await statuses.next()).toBe(401);
    const record = await server.until(
      () => server.ask<{ lastError: string | null; attempts: number }>("GET", `/queues/locked/messages/${messageId}`),
      ({ lastError }) => lastError !== null,
    );
    expect(record).toMatchObject({ attempts: 1, lastError: "HTTP 401: the signature is missing or not valid\n" });
  });

  it("SDK-02: of any failing answer at most 512 bytes are kept, as text; the error header counts with the dead-letter action alone", async () => {
    const answers: Record<string, { status: number; headers?: Record<string, string>; body?: Uint8Array | string; error: string }> = {
      cut: { status: 500, body: `${"x".repeat(511)}😀`, error: `HTTP 500: ${"x".repeat(511)}` },
      binary: { status: 500, body: Uint8Array.of(0xff, 0x00, 0x41), error: "HTTP 500: \ufffd\ufffdA" },
      header: { status: 500, headers: { "x-gigadrive-queue-error": "y".repeat(10_240) }, body: "plain", error: "HTTP 500: plain" },
      long: {
        status: 500,
        headers: { "x-gigadrive-queue-action": "dead-letter", "x-gigadrive-queue-error": "y".repeat(10_240) },
        error: "y".repeat(500),
      },
      foreign: {
        status: 500,
        headers: { "x-gigadrive-queue-action": "dead-letter", "x-gigadrive-queue-error": "gr\u00f6\u00dfe" },
        error: "gr??e",
      },
    };
    await server.deploy("d3", (request, response) => {
      const { status, headers, body } = answers[String(request.headers["x-case"])] ?? { status: 204 };
      response.writeHead(status, headers).end(body);
    });
    const raw = server.client.queue<number>("raw");
    await raw.ensure({ consumerPath: "/raw" });
    for (const name of Object.keys(answers)) await raw.send(1, { headers: { "x-case": name } });
    const { items } = await server.until(
      () => server.ask<{ items: { headers: Record<string, string>; lastError: string | null }[] }>("GET", "/queues/raw/messages"),
      (page) => page.items.length === 5 && page.items.every(({ lastError }) => lastError !== null),
    );
    const kept = Object.fromEntries(items.map(({ headers, lastError }) => [headers["x-case"], lastError]));
    expect(kept).toEqual(Object.fromEntries(Object.entries(answers).map(([name, { error }]) => [name, error])));
  });

  it("C15, A5: client credentials call as the key does", async () => {
    const answer = await fetch(`${server.url}/v1/organizations/acme/projects/shop/keys`, {
      method: "POST",
      headers: { authorization: `Bearer ${server.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "worker", statements: [{ allow: ["queues.*"], on: ["*"] }] }),
    });
    const { id: clientId, secret: clientSecret } = (await answer.json()) as { id: string; secret: string };
    const credentials = { clientId, clientSecret };
    const client = new Millrace({ url: server.url, project: "shop", credentials });
    expect(await client.queue("orders").info()).toMatchObject({ name: "orders" });
    const wrong = new Millrace({ url: server.url, project: "shop", credentials: { ...credentials, clientSecret: "mlr_wrong" } });
    await expect(wrong.queue("orders").info()).rejects.toMatchObject({ code: "invalid_client" });
  });
});
