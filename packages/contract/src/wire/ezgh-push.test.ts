import { createHmac } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildPush, ezghPush, type PushMessage, readPushAnswer } from "./ezgh-push.ts";
import { cut, type Hmac, type SigningKey } from "./format.ts";
import { generateSecret, parseSecret } from "./signing.ts";
import { verifyEzgh } from "./verify.ts";

const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
const keys = [parseSecret(generateSecret((n) => new Uint8Array(n).fill(9))) as SigningKey];
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const wallMs = 1_760_374_960_500;
const making = { hmac, keys, wallMs, version: "0.1.0" };

const message = (given: Partial<PushMessage> = {}): PushMessage => ({
  messageId: "01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f",
  seq: 18_446,
  body: utf8('{"orderId": "o-123"}'),
  attributes: { source: "checkout" },
  groupKey: null,
  sentAt: Date.UTC(2026, 9, 13, 17, 2, 40),
  receives: 1,
  meta: null,
  ...given,
});
const delivery = (messages: PushMessage[], fifo = false) => ({
  subscription: "qsb_7m2k9x0q4r1s",
  queue: "que_4k2m9x0a7qpe",
  fifo,
  deliveryId: "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f",
  messages,
});
const parsed = (messages: PushMessage[], fifo = false) =>
  JSON.parse(new TextDecoder().decode(buildPush(delivery(messages, fifo), making).body)) as { messages: Record<string, unknown>[] };

describe("the request", () => {
  it("P6: body and headers are those of the source's example", () => {
    const { headers, body } = buildPush(delivery([message()]), making);
    expect(JSON.parse(new TextDecoder().decode(body))).toEqual({
      subscription: "qsb_7m2k9x0q4r1s",
      queue: "que_4k2m9x0a7qpe",
      deliveryId: "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f",
      messages: [
        {
          messageId: "01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f",
          body: '{"orderId": "o-123"}',
          attributes: { source: "checkout" },
          sentAt: "2026-10-13T17:02:40.000Z",
          receiveCount: 1,
        },
      ],
    });
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": "Millrace/0.1.0",
      "ezgh-delivery-id": "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f",
    });
    expect(headers).not.toHaveProperty("traceparent");
    expect(verifyEzgh(hmac, headers["ezgh-signature"], body, keys, wallMs)).toBe(true);
  });

  it("P6: groupId and seq are there on a FIFO queue, seq as a decimal string, and nowhere else", () => {
    const grouped = message({ groupKey: 'acct-"9"', seq: 9_007_199_254_740_991, receives: 4 });
    expect(parsed([grouped], true).messages[0]).toMatchObject({ groupId: 'acct-"9"', seq: "9007199254740991", receiveCount: 4 });
    expect(Object.keys(parsed([grouped]).messages[0] ?? {})).toEqual(["messageId", "body", "attributes", "sentAt", "receiveCount"]);
  });

  it("P6: sentAt is ISO 8601 with milliseconds, whatever was sent before it", () => {
    const instants = [0, 7, 999, 1000, 1_760_374_960_042, 1_760_374_960_999, 1_760_374_961_000, 7, 253_402_300_799_999];
    const sent = parsed(instants.map((sentAt) => message({ sentAt }))).messages;
    expect(sent.map(({ sentAt }) => sentAt)).toEqual(instants.map((ms) => new Date(ms).toISOString()));
  });

  it("P6: a body that is not UTF-8 goes as bodyBase64, in place of body", () => {
    for (const bytes of [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x61, 0x80, 0x62]]) {
      const [sent] = parsed([message({ body: Uint8Array.from(bytes) })]).messages;
      expect(sent).not.toHaveProperty("body");
      expect(Buffer.from(String(sent?.bodyBase64), "base64")).toEqual(Buffer.from(bytes));
    }
  });

  it("P6: the first traceparent of the batch is forwarded", () => {
    const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const { headers } = buildPush(delivery([message(), message({ meta: { traceparent: trace } })]), making);
    expect(headers.traceparent).toBe(trace);
  });

  it("P6, SIG-01: any text arrives character for character, and the signature holds for the very bytes", () => {
    const odd = ["", " ", "\n", "🎉", "e\u0301", "\u2028\u2029", "tail\n", "\u0000\u001f", "\ufeffbom", '\\"', "__proto__", "\u202eabc"];
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom(...odd), fc.string({ unit: "binary", maxLength: 60 })), { minLength: 1, maxLength: 10 }),
        fc.dictionary(fc.string({ maxLength: 8 }), fc.string({ unit: "binary", maxLength: 20 }), { maxKeys: 4 }),
        (bodies, attributes) => {
          const messages = bodies.map((body) => message({ body: utf8(body), attributes }));
          const request = buildPush(delivery(messages), making);
          const read = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(request.body)) as {
            messages: { body: string; attributes: object }[];
          };
          expect(read.messages.map(({ body }) => body)).toEqual(bodies);
          for (const each of read.messages) expect(Object.entries(each.attributes)).toEqual(Object.entries(attributes));
          expect(verifyEzgh(hmac, request.headers["ezgh-signature"], request.body, keys, wallMs)).toBe(true);
        },
      ),
    );
  });

  it("SIG-02: messages of 0, 1 and 2 bytes are delivered and signed", () => {
    const request = buildPush(delivery([message({ body: utf8("") }), message({ body: utf8("x") }), message({ body: utf8("é") })]), making);
    expect(
      (JSON.parse(new TextDecoder().decode(request.body)) as { messages: { body: string }[] }).messages.map(({ body }) => body),
    ).toEqual(["", "x", "é"]);
    expect(verifyEzgh(hmac, request.headers["ezgh-signature"], request.body, keys, wallMs)).toBe(true);
  });
});

describe("the answer", () => {
  const ids = ["id-1", "id-2", "id-3"];
  const read = (body: string | Uint8Array, given: { status?: number; truncated?: boolean; headers?: Record<string, string> } = {}) =>
    readPushAnswer(
      {
        status: given.status ?? 200,
        headers: given.headers ?? {},
        body: typeof body === "string" ? utf8(body) : body,
        truncated: given.truncated ?? false,
      },
      ids,
      { nowMs: wallMs, maxDelayMs: 30_000 },
    );
  const kinds = (body: string | Uint8Array, given?: Parameters<typeof read>[1]) => read(body, given).outcomes.map(({ kind }) => kind);
  const all = ["ack", "ack", "ack"];

  it("P9, ANS-01: a 2xx body that is not exactly the failure shape acknowledges the whole batch", () => {
    for (const body of [
      "",
      "ok",
      "<html>",
      '{"failed":null}',
      '{"failed":"id-1"}',
      '{"failed":[1]}',
      '{"failed":["id-1",1]}',
      '{"failed":["id-1",null]}',
      '{"failed":[{"id":"id-1"}]}',
      '{"failed":[["id-1"]]}',
      '{"failed":{}}',
      '{"failed":{"0":"id-1","length":1}}',
      "[]",
      '["id-1"]',
      "null",
      "42",
      '"failed"',
      '{"Failed":["id-1"]}',
      '{"data":{"failed":["id-1"]}}',
      '{"__proto__":{"failed":["id-1"]}}',
      '{"failed":["id-1"]',
      '{"failed":["id-1"]} x',
      "{'failed':['id-1']}",
      '\ufeff{"failed":["id-1"]}',
      Uint8Array.from([...utf8('{"failed":["id-1"],"x":"'), 0xff, ...utf8('"}')]),
    ]) {
      expect(kinds(body), String(body)).toEqual(all);
    }
  });

  it("P9, ANS-01: the listed messages are retried, extra members, repeats and unknown ids or not", () => {
    expect(kinds('{"failed":[]}')).toEqual(all);
    expect(kinds('{"failed":["id-2"],"x":1}')).toEqual(["ack", "retry", "ack"]);
    expect(kinds(' \r\n\t{"x":1,"failed":["id-2","id-2"]}\n')).toEqual(["ack", "retry", "ack"]);
    expect(kinds('{"failed":["nobody","id-3"]}')).toEqual(["ack", "ack", "retry"]);
    expect(kinds('{"failed":["nobody"]}')).toEqual(all);
    expect(kinds('{"failed":["id-3","id-1","id-2"]}', { status: 299 })).toEqual(["retry", "retry", "retry"]);
    expect(kinds('{"failed":["\\u0069d-1"]}', { headers: { "content-type": "text/plain" } })).toEqual(["retry", "ack", "ack"]);
  });

  it("P9: a body over the limit acknowledges, even if what was kept lists failures", () => {
    expect(kinds('{"failed":["id-1"]}', { truncated: true })).toEqual(all);
  });

  it("P9: a 2xx that lists failures is a successful delivery; its messages follow the schedule", () => {
    const reading = read('{"failed":["id-1"]}', { headers: { "retry-after": "9" } });
    expect(reading).toMatchObject({ ok: true, slowDown: false, error: null });
    expect(reading.outcomes[0]).toEqual({ kind: "retry", delayMs: null });
  });

  it("P9: any other status retries the whole batch, whatever its body says", () => {
    for (const status of [199, 300, 301, 304, 307, 400, 401, 404, 410, 500, 502, 599, 999]) {
      const reading = read('{"failed":[]}', { status });
      expect(reading.outcomes, String(status)).toEqual(ids.map(() => ({ kind: "retry", delayMs: null })));
      expect(reading).toMatchObject({ ok: false, slowDown: false });
    }
  });

  it("P12, P13: 429 and 503 ask for less, and their Retry-After delays the whole batch", () => {
    for (const status of [429, 503]) {
      expect(read("", { status }).slowDown).toBe(true);
      expect(read("", { status, headers: { "retry-after": "12" } }).outcomes).toEqual(ids.map(() => ({ kind: "retry", delayMs: 12_000 })));
      expect(read("", { status, headers: { "retry-after": "3600" } }).outcomes[0]).toEqual({ kind: "retry", delayMs: 30_000 });
      expect(read("", { status, headers: { "retry-after": "-5" } }).outcomes[0]).toEqual({ kind: "retry", delayMs: null });
    }
    expect(read("", { status: 500, headers: { "retry-after": "12" } }).outcomes[0]).toEqual({ kind: "retry", delayMs: null });
  });

  it("ANS-03: the error text is at most 200 characters and never ends in half a character", () => {
    for (const filler of ["é", "🎉", "x🎉", "字"]) {
      const text = read(filler.repeat(300), { status: 500 }).error ?? "";
      expect(text.length).toBeLessThanOrEqual(200);
      expect(text.startsWith("HTTP 500: ")).toBe(true);
      expect(text).not.toMatch(/\p{Surrogate}/u);
    }
    expect(read("", { status: 502 }).error).toBe("HTTP 502");
    expect(read("no\r\nsuch\u0000 thing", { status: 404 }).error).toBe("HTTP 404: no such thing");
    expect(cut("a🎉", 2)).toBe("a");
    expect(cut("a🎉", 3)).toBe("a🎉");
  });

  it("P5: an endpoint that answers with its secret or a key does not bring them into the error text", () => {
    const secret = `whsec_${"aB3".repeat(14)}x`;
    const text = read(`config: {"secret":"${secret}","key":"mlr_${"k9".repeat(24)}"} failed`, { status: 500 }).error;
    expect(text).toBe('HTTP 500: config: {"secret":"whsec_…","key":"mlr_…"} failed');
    expect(read(`${"y".repeat(170)} ${secret}`, { status: 500 }).error).not.toContain("aB3");
  });

  it("P22: the format is data: building and reading, nothing else", () => {
    expect(Object.keys(ezghPush).sort()).toEqual(["build", "read"]);
    expect(ezghPush.build(delivery([message()]), making)).toEqual(buildPush(delivery([message()]), making));
  });
});
