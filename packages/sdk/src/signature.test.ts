import { createHash, createHmac, randomBytes } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { signQueueDelivery, verifyNotificationSignature, verifyPushSignature, verifyQueueSignature } from "./index.ts";

const now = 1_790_000_000_000;
const seconds = now / 1000;
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYA";
const other = "whsec_AfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYA";
const decoded = Buffer.from(secret.slice(6), "base64url");

/** The schemes as the documents describe them, made by node:crypto. */
const mac = (key: string | Buffer, text: string | Buffer): string => createHmac("sha256", key).update(text).digest("hex");
const sha = (body: string | Buffer): string => createHash("sha256").update(body).digest("hex");
const queueHeader = (body: string | Buffer, t = now, key = secret): string => `t=${t},v1=${mac(key, `${t}.emails.m1.2.${sha(body)}`)}`;
const pushHeader = (body: string | Buffer, t = seconds): string =>
  `t=${t},v1=${mac(decoded, Buffer.concat([Buffer.from(`${t}.`), Buffer.from(body)]))}`;
const notificationHeader = (body: string | Buffer, t = seconds): string =>
  `v1=${mac(secret, Buffer.concat([Buffer.from(`${t}.`), Buffer.from(body)]))}`;

const delivery = { secret, queue: "emails", messageId: "m1", attempt: 2, now };

describe("signatures of deliveries", () => {
  it("C14, SIG-02: each scheme verifies bodies of 0, 1 and 2 bytes, of many bytes, of no text, as bytes, buffer or text", async () => {
    for (const body of [Buffer.alloc(0), Buffer.from("a"), Buffer.from("ab"), Buffer.from("é\u2028😀\n"), randomBytes(70_000)]) {
      const bytes = Uint8Array.from(body);
      for (const given of [bytes, bytes.buffer, body]) {
        expect(await verifyQueueSignature(queueHeader(body), { ...delivery, body: given })).toBe(true);
        expect(await verifyPushSignature(pushHeader(body), { secret, body: given, now })).toBe(true);
        const timestamp = String(seconds);
        expect(await verifyNotificationSignature(notificationHeader(body), { secret, timestamp, body: given, now })).toBe(true);
      }
      const changed = Buffer.concat([body, Buffer.from("x")]);
      expect(await verifyQueueSignature(queueHeader(body), { ...delivery, body: changed })).toBe(false);
      expect(await verifyPushSignature(pushHeader(body), { secret, body: changed, now })).toBe(false);
    }
    expect(await verifyQueueSignature(queueHeader("é😀"), { ...delivery, body: "é😀" })).toBe(true);
  });

  it("C14: signing makes what the documents describe, and what verifies", async () => {
    const header = await signQueueDelivery({ ...delivery, body: "hello" });
    expect(header).toBe(queueHeader("hello"));
    // Without an instant given, one reading of the clock serves the header and the digest.
    for (let ms = now; ms < now + 3; ms += 1) {
      const clock = vi.spyOn(Date, "now").mockImplementation(() => ms++);
      const signed = await signQueueDelivery({ ...delivery, now: undefined, body: "hello" });
      clock.mockRestore();
      expect(await verifyQueueSignature(signed, { ...delivery, body: "hello" })).toBe(true);
    }
    expect(await verifyQueueSignature(header, { ...delivery, body: "hello" })).toBe(true);
    await expect(signQueueDelivery({ ...delivery, secret: "", body: "" })).rejects.toThrow("secret");
    await expect(signQueueDelivery({ ...delivery, attempt: 0, body: "" })).rejects.toThrow("attempt");
  });

  it("SIG-04: a scheme's delivery verifies with its own verifier only", async () => {
    const body = "hello";
    const timestamp = String(seconds);
    const headers = { queue: queueHeader(body), push: pushHeader(body), notification: notificationHeader(body) };
    for (const [scheme, header] of Object.entries(headers)) {
      const verdicts = {
        queue: await verifyQueueSignature(header, { ...delivery, body }),
        push: await verifyPushSignature(header, { secret, body, now }),
        notification: await verifyNotificationSignature(header, { secret, timestamp, body, now }),
      };
      expect(verdicts).toEqual({ queue: false, push: false, notification: false, [scheme]: true });
    }
  });

  it("SIG-04: 300 seconds either way are accepted, one more is refused", async () => {
    const body = "hello";
    for (const [offset, expected] of [
      [299, true],
      [300, true],
      [301, false],
    ] as const) {
      for (const sign of [-1, 1]) {
        const at = now + sign * offset * 1000;
        expect(await verifyQueueSignature(queueHeader(body, at), { ...delivery, body })).toBe(expected);
        expect(await verifyPushSignature(pushHeader(body, at / 1000), { secret, body, now })).toBe(expected);
        const timestamp = String(at / 1000);
        const notification = notificationHeader(body, at / 1000);
        expect(await verifyNotificationSignature(notification, { secret, timestamp, body, now })).toBe(expected);
      }
    }
    // A millisecond counts where the timestamp has them.
    expect(await verifyQueueSignature(queueHeader(body, now - 300_001), { ...delivery, body })).toBe(false);
  });

  it("SIG-04: malformed headers and whatever else comes give false, never an error", async () => {
    const body = "hello";
    const good = queueHeader(body);
    const [t, v1] = good.split(",") as [string, string];
    const lost = [v1, t, `${t},${good}`, good.toUpperCase(), `${t},${v1.toUpperCase()}`, `${t},v1=`, "", "=,=", "t=x,v1=y", `${t}\n${v1}`];
    for (const header of [...lost, null, undefined, "\u0000", `t=${"9".repeat(400)},${v1}`]) {
      expect(await verifyQueueSignature(header, { ...delivery, body }), String(header)).toBe(false);
      expect(await verifyPushSignature(header, { secret, body, now }), String(header)).toBe(false);
      expect(await verifyNotificationSignature(header, { secret, timestamp: header, body, now }), String(header)).toBe(false);
    }
    const hundred = Array.from({ length: 99 }, () => `v1=${"0".repeat(64)}`).join(",");
    expect(await verifyQueueSignature(`${t},${hundred},${v1}`, { ...delivery, body })).toBe(true);
    expect(await verifyQueueSignature(`${t},${hundred}`, { ...delivery, body })).toBe(false);
    for (const attempt of [0, -1, 1.5, "", "02", "2 ", "1e0", Number.NaN]) {
      expect(await verifyQueueSignature(good, { ...delivery, attempt, body })).toBe(false);
    }
    const parsed = { hello: "world" } as unknown as string;
    expect(await verifyQueueSignature(good, { ...delivery, body: parsed })).toBe(false);
    expect(await verifyQueueSignature(good, { ...delivery, secret: undefined as unknown as string, body })).toBe(false);
    expect(await verifyPushSignature(pushHeader(body), { secret: undefined as unknown as string, body, now })).toBe(false);
  });

  it("SIG-04: a secret is taken as each scheme takes it: without its prefix it is another one, empty it is none, of several one suffices", async () => {
    const body = "hello";
    const bare = secret.slice(6);
    expect(await verifyQueueSignature(queueHeader(body), { ...delivery, secret: bare, body })).toBe(false);
    expect(await verifyPushSignature(pushHeader(body), { secret: bare, body, now })).toBe(false);
    expect(await verifyQueueSignature(queueHeader(body), { ...delivery, secret: "", body })).toBe(false);
    expect(await verifyQueueSignature(queueHeader(body), { ...delivery, secret: [], body })).toBe(false);
    expect(await verifyQueueSignature(queueHeader(body), { ...delivery, secret: [other, secret], body })).toBe(true);
    expect(await verifyPushSignature(pushHeader(body), { secret: [other, secret], body, now })).toBe(true);
    expect(await verifyPushSignature(pushHeader(body), { secret: other, body, now })).toBe(false);
    // Gigadrive's secrets need not have our form.
    const free = queueHeader(body, now, "any text äöü");
    expect(await verifyQueueSignature(free, { ...delivery, secret: "any text äöü", body })).toBe(true);
  });

  it("C14: queue, message id and attempt are covered by the signature", async () => {
    for (const changed of [{ queue: "email" }, { messageId: "m2" }, { attempt: 3 }, { attempt: "3" }]) {
      expect(await verifyQueueSignature(queueHeader("x"), { ...delivery, body: "x", ...changed })).toBe(false);
    }
    expect(await verifyQueueSignature(queueHeader("x"), { ...delivery, attempt: "2", body: "x" })).toBe(true);
  });
});
