import { createHash, randomBytes } from "node:crypto";
import {
  basalticSignature,
  buildPush,
  ezghSignature,
  generateSecret,
  gigadriveSignature,
  type PushDelivery,
  parseSecret,
  type SigningKey,
  type WireRequest,
} from "@millrace/contract/wire";
import { describe, expect, it } from "vitest";
import { ask, type Language, type Question, serve } from "./foreign-verifier.ts";
import { hmac } from "./hmac.ts";
import { lacks } from "./tools.ts";

const wallMs = Date.UTC(2026, 9, 13, 17, 2, 40, 700);
const seconds = Math.floor(wallMs / 1000);
const secret = generateSecret((bytes) => Uint8Array.from(randomBytes(bytes)));
const newer = generateSecret((bytes) => Uint8Array.from(randomBytes(bytes)));
const key = (text: string): SigningKey => parseSecret(text) as SigningKey;

function delivery(bodies: readonly (string | Uint8Array)[]): PushDelivery {
  const messages = bodies.map((body, index) => ({
    messageId: `01999f3d-02b4-7c1d-8e2f-00000000000${index}`,
    seq: index + 1,
    body: typeof body === "string" ? new TextEncoder().encode(body) : body,
    attributes: { source: "sample" },
    groupKey: null,
    sentAt: wallMs - 1000,
    receives: 1,
    meta: null,
  }));
  return {
    subscription: "qsb_7m2k9x0q4r1s",
    queue: "que_4k2m9x0a7qpe",
    fifo: false,
    deliveryId: "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f",
    messages,
  };
}
const build = (bodies: readonly (string | Uint8Array)[], secrets = [secret], at = wallMs): WireRequest =>
  buildPush(delivery(bodies), { hmac, keys: secrets.map(key), wallMs: at, version: "0.0.0" });

const genuine = build(["plain"]);
const header = genuine.headers["ezgh-signature"] as string;
const signature = header.slice(header.indexOf("v1=") + 3);
const question = (change: Partial<Question> = {}): Question => ({
  header,
  body: genuine.body,
  secrets: [secret],
  nowMs: wallMs,
  ...change,
});

const samples: [Language, boolean][] = [
  ["node", false],
  ["go", lacks("go", "version")],
  ["python", lacks("python3")],
];

for (const [language, skipped] of samples) {
  describe.skipIf(skipped)(`the ${language} sample`, { timeout: 180_000 }, () => {
    it("P4, SIG-01, SIG-02: verifies every body over the raw bytes: multi-byte, control, empty, one and two bytes, not UTF-8", async () => {
      const bodies = [
        "",
        "a",
        "ab",
        "\u{1f680} e\u0301 \u2028\u2029 \u0000",
        "line\n",
        '{"a": 1}\r\n',
        Uint8Array.of(0xff),
        Uint8Array.of(0xfe, 0),
      ];
      const requests = [...bodies.map((body) => build([body])), build(bodies)];
      const questions = requests.map(({ headers, body }) => question({ header: headers["ezgh-signature"], body }));
      expect(await ask(language, questions)).toEqual(requests.map(() => true));
      expect(requests.every(({ headers }) => /^t=\d+,v1=[0-9a-f]{64}$/.test(headers["ezgh-signature"] ?? ""))).toBe(true);
    });

    it("P4, SIG-04: refuses a changed byte anywhere, another key and another time in the header", async () => {
      const changed = [0, Math.floor(genuine.body.length / 2), genuine.body.length - 1].map((at) => {
        const body = Uint8Array.from(genuine.body);
        body[at] = (body[at] as number) ^ 1;
        return question({ body });
      });
      const longer = question({ body: Uint8Array.of(...genuine.body, 10) });
      const foreign = question({ secrets: [newer] });
      const later = question({ header: header.replace(/t=\d+/, `t=${seconds + 1}`) });
      const questions = [...changed, longer, foreign, later];
      expect(await ask(language, questions)).toEqual(questions.map(() => false));
    });

    it("P4, SIG-04: accepts 299 and 300 s either way and refuses 301", async () => {
      const ages = [-301, -300, -299, 0, 299, 300, 301];
      const answers = await ask(
        language,
        ages.map((age) => question({ nowMs: wallMs + age * 1000 })),
      );
      expect(answers).toEqual([false, true, true, true, true, true, false]);
    });

    it("P4: accepts with either secret, or both, what is signed with two during a rotation", async () => {
      const rotated = build(["x"], [newer, secret]);
      const at = { header: rotated.headers["ezgh-signature"], body: rotated.body };
      expect(at.header?.match(/v1=/g)?.length).toBe(2);
      const third = generateSecret((bytes) => Uint8Array.from(randomBytes(bytes)));
      const lists = [[secret], [newer], [newer, secret], [third, secret], [third]];
      expect(
        await ask(
          language,
          lists.map((secrets) => question({ ...at, secrets })),
        ),
      ).toEqual([true, true, true, true, false]);
    });

    it("SIG-04: refuses the other schemes' signatures of the same body under the same secret", async () => {
      const of = { queue: "orders", messageId: "m", attempt: 1, bodyHash: createHash("sha256").update(genuine.body).digest("hex") };
      const basaltic = `t=${seconds},${basalticSignature(hmac, key(secret), seconds, genuine.body)}`;
      const questions = [gigadriveSignature(hmac, key(secret), wallMs, of), gigadriveSignature(hmac, key(secret), seconds, of), basaltic];
      expect(
        await ask(
          language,
          questions.map((other) => question({ header: other })),
        ),
      ).toEqual([false, false, false]);
    });

    it("SIG-04: answers false to every malformed header or secret, and dies of none", async () => {
      const t = `t=${seconds}`;
      const v1 = `v1=${signature}`;
      const headers = [
        undefined,
        "",
        ",",
        "=",
        "t",
        t,
        v1,
        `${t},v1=`,
        `t=,${v1}`,
        `t=-1,${v1}`,
        `t=1e9,${v1}`,
        `t=${"9".repeat(400)},${v1}`,
        `t=\u0661,${v1}`,
        `${t},v1=${signature.toUpperCase()}`,
        `${t},v1=${signature.slice(2)}`,
        `${t},v1=${signature}00`,
        `${t},v1=${"\u00e9".repeat(64)}`,
        `${t},${t},${v1}`,
        `t=0,${t},${v1}`,
        `${t},${Array.from({ length: 100 }, () => v1).join(",")}`,
        `${t};${v1}`,
        `T=${seconds},V1=${signature}`,
      ];
      const secrets = [secret.slice("whsec_".length), "", "whsec_", "whsec_!!!", `${secret}A`, `whsec_${"\u00e9".repeat(43)}`];
      const questions = [...headers.map((text) => question({ header: text })), ...secrets.map((text) => question({ secrets: [text] }))];
      expect(await ask(language, questions)).toEqual(questions.map(() => false));
      const tolerated = [`${v1},${t}`, ` ${t} , ${v1} `, `${t},v2=later,${v1}`, `${t},v1=${"0".repeat(64)},${v1}`];
      expect(
        await ask(
          language,
          tolerated.map((text) => question({ header: text })),
        ),
      ).toEqual(tolerated.map(() => true));
    });

    it("P4: as an endpoint it handles a genuine delivery, lists what failed and refuses a forged one with 401", async () => {
      const endpoint = await serve(language, [newer, secret]);
      try {
        const { headers, body } = build(["one", "fail", "\u{1f680}"], [secret], Date.now());
        const post = (sent: Uint8Array): Promise<Response> => fetch(endpoint.url, { method: "POST", headers, body: sent });
        const answer = await post(body);
        expect([answer.status, await answer.json()]).toEqual([200, { failed: ["01999f3d-02b4-7c1d-8e2f-000000000001"] }]);
        expect((await post(Uint8Array.from(body).fill(32, 20, 21))).status).toBe(401);
        expect(endpoint.handled.length).toBe(2);
      } finally {
        await endpoint.stop();
      }
    });
  });
}

it("P4: the header names the newest secret first", () => {
  const both = ezghSignature(hmac, [key(newer), key(secret)], seconds, genuine.body);
  expect(both.split(",")[2]).toBe(`v1=${signature}`);
});
