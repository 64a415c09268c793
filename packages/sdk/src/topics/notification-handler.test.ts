import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buildNotification, type NotificationDelivery, type NotificationParts, readNotificationAnswer } from "@millrace/contract/wire";
import { receiver } from "@millrace/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  type Confirmation,
  NonRetryableError,
  type NotificationHandlerOptions,
  notificationHandler,
  type ReceivedNotification,
  RetryLaterError,
  seenInMemory,
  toNodeHandler,
} from "../index.ts";

const secret = "whsec_0123456789abcdef0123456789abcdef";
const literal = (text: string) => ({ decoded: new Uint8Array(), literal: new TextEncoder().encode(text) });
const common = {
  messageId: "m-1",
  topicCrn: "crn:millrace:notifications:local:shop:topic/orders",
  topicName: "orders",
  subscriptionId: "s-1",
};
const parts: NotificationParts = {
  ...common,
  message: '{"order":7}',
  subject: "Order",
  attributes: { store: "berlin", price: { type: "Number", value: "100" } },
  acceptedAt: Date.UTC(2026, 0, 2),
  unsubscribeUrl: "https://m.example/v1/unsubscribe?token=u",
};
const notification = (changed: Partial<NotificationParts> = {}, raw = false, attempt = 1): NotificationDelivery => ({
  kind: "notification",
  raw,
  deliveryId: "d-1",
  attempt,
  parts: { ...parts, ...changed },
});
const confirmation = (confirmUrl = "https://m.example/v1/confirm?token=t"): NotificationDelivery => ({
  kind: "confirmation",
  deliveryId: "d-0",
  attempt: 1,
  parts: { ...common, confirmUrl, token: "t", askedAt: Date.UTC(2026, 0, 2) },
});

/** A delivery as the server makes it, signed now; `change` may spoil its headers. */
function requestOf(delivery: NotificationDelivery, { at = Date.now(), key = secret, change = (_: Headers) => {} } = {}): Request {
  const { headers, body } = buildNotification(delivery, {
    hmac: (form, secretKey, ...texts) => {
      const state = createHmac("sha256", secretKey);
      for (const text of texts) state.update(text);
      return state.digest(form);
    },
    keys: [literal(key)],
    wallMs: at,
    version: "0",
  });
  const all = new Headers(headers);
  change(all);
  return new Request("http://localhost/hooks", { method: "POST", headers: all, body: Uint8Array.from(body) });
}

/** What the server makes of the answer to a delivery. */
async function readingOf(answer: Response) {
  const read = {
    status: answer.status,
    headers: Object.fromEntries(answer.headers),
    body: new Uint8Array(await answer.arrayBuffer()),
    truncated: false,
  };
  return readNotificationAnswer(read, ["m"], { nowMs: Date.now(), maxDelayMs: 3_600_000 }).outcomes[0];
}

/** A handler that keeps what it got. */
function keeping(options: Partial<NotificationHandlerOptions> = {}) {
  const got: ReceivedNotification[] = [];
  const asked: Confirmation[] = [];
  const handle = notificationHandler({
    secret,
    onNotification: (one) => void got.push(one),
    onConfirmation: (one) => void asked.push(one),
    ...options,
  });
  return { got, asked, handle };
}

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

describe("what a webhook gets", () => {
  it("T7: an envelope arrives with everything that was published, and is acknowledged", async () => {
    const { got, handle } = keeping();
    expect(await readingOf(await handle(requestOf(notification({}, false, 3))))).toEqual({ kind: "ack" });
    expect(got).toEqual([
      expect.objectContaining({
        ...common,
        message: '{"order":7}',
        subject: "Order",
        attributes: parts.attributes,
        attempt: 3,
        raw: false,
        publishedAt: new Date(parts.acceptedAt),
        unsubscribeUrl: parts.unsubscribeUrl,
      }),
    ]);
    expect(got[0]?.json()).toEqual({ order: 7 });
  });

  it("T7: a raw delivery is the message itself, even when that looks like another envelope", async () => {
    const { got, handle } = keeping();
    const posing = JSON.stringify({ type: "notification", message_id: "m-2", message: "not me" });
    for (const message of ["plain", "", posing, "\ufeffmarked"]) await handle(requestOf(notification({ message }, true)));
    expect(got.map(({ message }) => message)).toEqual(["plain", "", posing, "\ufeffmarked"]);
    expect(got[0]).toMatchObject({ ...common, topicName: undefined, raw: true, attributes: {}, unsubscribeUrl: parts.unsubscribeUrl });
  });

  it("T6: a handshake is told, and confirmed only when that is asked for", async () => {
    const server = await receiver({ answer: () => ({ status: 200 }) });
    const url = `${server.url}/v1/confirm?token=t`;
    const told = keeping();
    expect((await told.handle(requestOf(confirmation(url)))).status).toBe(204);
    expect(told.asked).toEqual([{ ...common, attempt: 1, confirmUrl: url, token: "t" }]);
    await keeping({ confirm: ({ topicName }) => topicName === "other" }).handle(requestOf(confirmation(url)));
    expect(server.requests).toHaveLength(0);
    await keeping({ confirm: true }).handle(requestOf(confirmation(url)));
    await keeping({ confirm: ({ topicName }) => topicName === "orders" }).handle(requestOf(confirmation(url)));
    expect(server.requests.map(({ method, path }) => [method, path])).toEqual([
      ["GET", "/v1/confirm?token=t"],
      ["GET", "/v1/confirm?token=t"],
    ]);
    await server.close();
  });

  it("T6: a confirmation that does not succeed makes the handshake come again", async () => {
    const server = await receiver({ answer: () => ({ status: 404 }) });
    const { handle } = keeping({ confirm: true });
    expect(await readingOf(await handle(requestOf(confirmation(server.url))))).toMatchObject({ kind: "retry" });
    await server.close();
    expect(await readingOf(await handle(requestOf(confirmation(server.url))))).toMatchObject({ kind: "retry" });
  });

  it("T6: a published message that poses as a handshake confirms nothing", async () => {
    const fetch = vi.fn();
    const { asked, got, handle } = keeping({ confirm: true, runtime: { fetch } });
    const message = JSON.stringify({
      type: "subscription_confirmation",
      message_id: "m-1",
      confirm_url: "http://inside.example/",
      token: "t",
    });
    await handle(requestOf(notification({ message }, true)));
    // nor does the header alone, which is not signed
    await handle(
      requestOf(notification(), { change: (headers) => headers.set("x-basaltic-notification-type", "subscription_confirmation") }),
    );
    expect([asked, got.length, fetch.mock.calls]).toEqual([[], 1, []]);
  });
});

describe("what a webhook believes", () => {
  it("T8: whatever is not signed with the secret, whole and within five minutes, is 401 and never handled", async () => {
    const { got, handle } = keeping();
    const spoiled = [
      requestOf(notification(), { key: "whsec_other" }),
      requestOf(notification(), { at: Date.now() - 302_000 }),
      requestOf(notification(), { at: Date.now() + 302_000 }),
      requestOf(notification(), { change: (headers) => headers.delete("x-basaltic-signature") }),
      requestOf(notification(), { change: (headers) => headers.delete("x-basaltic-timestamp") }),
      requestOf(notification(), { change: (headers) => headers.set("x-basaltic-signature", "v1=") }),
      new Request("http://localhost/hooks", { method: "POST", headers: requestOf(notification()).headers, body: "another body" }),
    ];
    for (const request of spoiled) expect((await handle(request)).status).toBe(401);
    expect(got).toEqual([]);
    expect((await handle(requestOf(notification(), { at: Date.now() - 298_000 }))).status).toBe(204);
  });

  it("T8: several secrets are accepted, found by subscription, or taken from the environment", async () => {
    expect((await keeping({ secret: ["whsec_old", secret] }).handle(requestOf(notification()))).status).toBe(204);
    const secretOf = vi.fn(async () => secret);
    expect((await keeping({ secret: secretOf }).handle(requestOf(notification()))).status).toBe(204);
    expect(secretOf).toHaveBeenCalledWith("s-1");
    vi.stubEnv("MILLRACE_NOTIFICATION_SECRET", `other, ${secret}`);
    expect((await keeping({ secret: undefined }).handle(requestOf(notification()))).status).toBe(204);
  });

  it("T6, T11: while the secret is not known yet, deliveries are retried instead of lost", async () => {
    const said = vi.spyOn(console, "error").mockImplementation(() => {});
    for (const unknown of [undefined, [], () => undefined])
      expect(await readingOf(await keeping({ secret: unknown }).handle(requestOf(confirmation())))).toMatchObject({ kind: "retry" });
    expect(said).toHaveBeenCalledTimes(3);
  });
});

describe("what a handler does decides what becomes of the delivery", () => {
  const throwing = async (thrown: unknown) =>
    readingOf(await keeping({ onNotification: () => Promise.reject(thrown) }).handle(requestOf(notification())));

  it("T11: an error is retried, RetryLaterError after its delay, NonRetryableError never", async () => {
    expect(await throwing(new Error("database is away"))).toEqual({ kind: "retry", delayMs: null });
    expect(await throwing(new RetryLaterError("2m"))).toEqual({ kind: "retry", delayMs: 120_000 });
    expect(await throwing(new NonRetryableError("never"))).toMatchObject({ kind: "dead-letter" });
    const { handle } = keeping({ onNotification: (one) => one.json() });
    expect(await readingOf(await handle(requestOf(notification({ message: "{" }))))).toMatchObject({ kind: "dead-letter" });
  });

  it("T3: a notification that was handled is acknowledged and not handled again, one that failed is", async () => {
    let failures = 1;
    const handled: string[] = [];
    const onNotification = ({ messageId }: ReceivedNotification) => {
      if (failures-- > 0) throw new Error("not yet");
      handled.push(messageId);
    };
    const { handle } = keeping({ onNotification, seen: seenInMemory() });
    const statuses: number[] = [];
    for (let attempt = 1; attempt <= 4; attempt += 1) statuses.push((await handle(requestOf(notification({}, false, attempt)))).status);
    await handle(requestOf(notification({ messageId: "m-2" })));
    expect([statuses, handled]).toEqual([
      [500, 204, 204, 204],
      ["m-1", "m-2"],
    ]);
  });

  it("T3: a second delivery while the first is at work waits for it and shares its outcome", async () => {
    let calls = 0;
    let finish = () => {};
    const begun = new Promise<void>((started) => {
      const onNotification = () => {
        calls += 1;
        started();
        return new Promise<void>((resolve) => {
          finish = resolve;
        });
      };
      const { handle } = keeping({ onNotification, seen: seenInMemory() });
      both = Promise.all([handle(requestOf(notification())), handle(requestOf(notification({}, false, 2)))]);
    });
    await begun;
    finish();
    expect((await both).map(({ status }) => status)).toEqual([204, 204]);
    expect(calls).toBe(1);
  });
  let both: Promise<Response[]>;

  it("T11: a store of seen ids that fails makes the delivery come again", async () => {
    const seen = { has: () => Promise.reject(new Error("store is away")), add: () => {} };
    const { got, handle } = keeping({ seen });
    expect(await readingOf(await handle(requestOf(notification())))).toMatchObject({ kind: "retry" });
    expect(got).toEqual([]);
  });

  it("T3: the memory of seen ids keeps the last ones only", () => {
    const seen = seenInMemory(2);
    for (const id of ["a", "b", "c"]) seen.add(id);
    expect(["a", "b", "c"].map((id) => seen.has(id))).toEqual([false, true, true]);
    expect(() => seenInMemory(0)).toThrow(RangeError);
  });

  it("T7: served from node:http, the raw bytes are what is checked", async () => {
    const { got, handle } = keeping();
    const listener = toNodeHandler(handle);
    const server = createServer((request, response) => void listener(request, response)).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const request = requestOf(notification({ message: "größe 😀" }, true));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
    const answer = await fetch(url, { method: "POST", headers: request.headers, body: await request.arrayBuffer() });
    expect([answer.status, got[0]?.message]).toEqual([204, "größe 😀"]);
    server.close();
    server.closeAllConnections();
  });
});
