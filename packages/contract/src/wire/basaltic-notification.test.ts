import { createHmac } from "node:crypto";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import {
  basalticNotification,
  buildNotification,
  failureEnvelope,
  type NotificationDelivery,
  type NotificationParts,
  readNotificationAnswer,
} from "./basaltic-notification.ts";
import type { Hmac, SigningKey, WireRequest } from "./format.ts";
import { parseSecret } from "./signing.ts";
import { verifyBasaltic } from "./verify.ts";

const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo";
const key = parseSecret(secret) as SigningKey;
const wallMs = Date.now();
const making = { hmac, keys: [key], wallMs, version: "1.2.3" };
const text = ({ body }: WireRequest): string => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);

const parts = (given: Partial<NotificationParts> = {}): NotificationParts => ({
  messageId: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
  topicCrn: "crn:millrace:notifications:local:acme:topic/orders",
  topicName: "orders",
  subscriptionId: "01999f50-0000-7000-8000-000000000001",
  message: '{"order": 1}',
  subject: null,
  attributes: null,
  acceptedAt: Date.UTC(2026, 9, 13, 17, 2, 40),
  unsubscribeUrl: "https://millrace.example.com/v1/unsubscribe?token=t0k3n",
  ...given,
});
const notification = (given: Partial<NotificationParts> = {}, raw = false): NotificationDelivery => ({
  kind: "notification",
  deliveryId: "01999f50-2222-7000-8000-000000000002",
  attempt: 3,
  raw,
  parts: parts(given),
});
const envelopeOf = (given: Partial<NotificationParts> = {}) =>
  JSON.parse(text(buildNotification(notification(given), making))) as Record<string, unknown>;

describe("the request of a notification", () => {
  it("T7: the envelope has the source's members; subject and attributes only when they were given", () => {
    expect(envelopeOf()).toEqual({
      type: "notification",
      message_id: "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
      topic_crn: "crn:millrace:notifications:local:acme:topic/orders",
      topic_name: "orders",
      subscription_id: "01999f50-0000-7000-8000-000000000001",
      message: '{"order": 1}',
      timestamp: "2026-10-13T17:02:40.000Z",
      unsubscribe_url: "https://millrace.example.com/v1/unsubscribe?token=t0k3n",
    });
    const attributes = { tier: { type: "String", value: "gold" }, n: { type: "Number", value: 7 }, plain: "x" } as const;
    expect(envelopeOf({ subject: "", attributes })).toMatchObject({ subject: "", attributes });
    expect(envelopeOf({ attributes: {} })).toHaveProperty("attributes", {});
  });

  it("T7, TOPIC-01: raw mode sends the very message, text or JSON or nothing, and both modes name the rest in headers", () => {
    for (const message of ["plain text", '{"a":1}', " \n", "", "🎉\u0000"]) {
      const raw = buildNotification(notification({ message, subject: "s", attributes: { a: "b" } }, true), making);
      expect(text(raw)).toBe(message);
      const enveloped = buildNotification(notification({ message }), making);
      expect((JSON.parse(text(enveloped)) as { message: unknown }).message).toBe(message);
      for (const { headers } of [raw, enveloped])
        expect(headers).toMatchObject({
          "content-type": "application/json",
          "user-agent": "Millrace/1.2.3",
          "x-basaltic-notification-type": "notification",
          "x-basaltic-message-id": "01999f50-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
          "x-basaltic-subscription-id": "01999f50-0000-7000-8000-000000000001",
          "x-basaltic-topic-crn": "crn:millrace:notifications:local:acme:topic/orders",
          "x-basaltic-unsubscribe-url": "https://millrace.example.com/v1/unsubscribe?token=t0k3n",
          "x-basaltic-delivery-attempt": "3",
        });
    }
  });

  it("T6: the handshake carries the token and its link, and no link to unsubscribe what is not subscribed", () => {
    const { headers, body } = buildNotification(
      {
        kind: "confirmation",
        deliveryId: "d",
        attempt: 1,
        parts: {
          messageId: "m",
          topicCrn: "crn:millrace:notifications:local:acme:topic/orders",
          topicName: "orders",
          subscriptionId: "s",
          confirmUrl: "https://millrace.example.com/v1/confirm?token=abc",
          token: "abc",
          askedAt: 0,
        },
      },
      making,
    );
    expect(JSON.parse(new TextDecoder().decode(body))).toEqual({
      type: "subscription_confirmation",
      message_id: "m",
      topic_crn: "crn:millrace:notifications:local:acme:topic/orders",
      topic_name: "orders",
      subscription_id: "s",
      confirm_url: "https://millrace.example.com/v1/confirm?token=abc",
      token: "abc",
      timestamp: "1970-01-01T00:00:00.000Z",
    });
    expect(headers["x-basaltic-notification-type"]).toBe("subscription_confirmation");
    expect(headers).not.toHaveProperty("x-basaltic-unsubscribe-url");
    expect(verifyBasaltic(hmac, headers["x-basaltic-timestamp"], headers["x-basaltic-signature"], body, [key], wallMs)).toBe(true);
  });

  it("T8, P4: both signatures hold for the very bytes, whatever the text; the delivery's id is the webhook id", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 80 }), fc.boolean(), (message, raw) => {
        const { headers, body } = buildNotification(notification({ message }, raw), making);
        const signed = headers["x-basaltic-signature"];
        expect(signed).toMatch(/^v1=[0-9a-f]{64}$/);
        expect(headers["x-basaltic-timestamp"]).toBe(String(Math.floor(wallMs / 1000)));
        expect(verifyBasaltic(hmac, headers["x-basaltic-timestamp"], signed, body, [key], wallMs)).toBe(true);
        const byHand = createHmac("sha256", secret).update(`${headers["x-basaltic-timestamp"]}.`).update(body).digest("hex");
        expect(signed).toBe(`v1=${byHand}`);
      }),
    );
    const { headers, body } = buildNotification(notification(), making);
    expect(headers["webhook-id"]).toBe("01999f50-2222-7000-8000-000000000002");
    expect(new Webhook(`${secret}=`).verify(Buffer.from(body), headers)).toMatchObject({ type: "notification" });
  });
});

describe("the answer to a notification", () => {
  const read = (status: number, headers: Record<string, string> = {}, body = "") =>
    readNotificationAnswer({ status, headers, body: new TextEncoder().encode(body), truncated: false }, ["m"], {
      nowMs: wallMs,
      maxDelayMs: 60_000,
    });

  it("T11, TOPIC-04: 2xx delivers; 408, 429 and 5xx are tried again; every other 4xx and all 3xx end the delivery", () => {
    for (const status of [200, 201, 204, 299]) expect(read(status, {}, '{"failed":["m"]}').outcomes).toEqual([{ kind: "ack" }]);
    for (const status of [408, 429, 500, 502, 503, 599])
      expect(read(status)).toMatchObject({ ok: false, outcomes: [{ kind: "retry", delayMs: null }] });
    for (const status of [300, 301, 302, 304, 307, 308, 400, 401, 404, 409, 410, 422, 451])
      expect(read(status, { location: "https://elsewhere.example.com" })).toMatchObject({
        ok: false,
        outcomes: [{ kind: "dead-letter", reason: `HTTP ${status}` }],
      });
  });

  it("T11: Retry-After is honoured on what is tried again, up to the longest delay, and means nothing on the rest", () => {
    for (const status of [408, 429, 500, 503]) {
      expect(read(status, { "retry-after": "7" }).outcomes).toEqual([{ kind: "retry", delayMs: 7_000 }]);
      expect(read(status, { "retry-after": "86400" }).outcomes).toEqual([{ kind: "retry", delayMs: 60_000 }]);
      expect(read(status, { "retry-after": "-1" }).outcomes).toEqual([{ kind: "retry", delayMs: null }]);
    }
    expect(read(404, { "retry-after": "7" }).outcomes).toEqual([{ kind: "dead-letter", reason: "HTTP 404" }]);
  });

  it("T15, P13: 429 and 503 ask for less, nothing else does", () => {
    expect([408, 429, 500, 503, 404].map((status) => read(status).slowDown)).toEqual([false, true, false, true, false]);
  });

  it("P5: an endpoint that answers with its secret does not bring it into the record", () => {
    expect(read(500, {}, `bad key ${secret}\n`).error).toBe("HTTP 500: bad key whsec_…");
  });
});

it("T13: the envelope of a failure holds the original notification and what became of it", () => {
  const given = { messageId: "m", subject: "Subject", message: "text" };
  const failure = failureEnvelope({
    notification: parts(given),
    deliveryId: "d",
    attempts: 50,
    failedAt: 1_000,
    lastError: { class: "http", status: 404, message: "HTTP 404" },
  });
  expect(JSON.parse(failure)).toEqual({
    type: "notification_failure",
    notification: envelopeOf(given),
    subscription_id: "01999f50-0000-7000-8000-000000000001",
    delivery_id: "d",
    attempts: 50,
    failed_at: "1970-01-01T00:00:01.000Z",
    last_error: { class: "http", status: 404, message: "HTTP 404" },
  });
});

it("P22: the format is data: building and reading, nothing else", () => {
  expect(basalticNotification).toEqual({ build: buildNotification, read: readNotificationAnswer });
});
