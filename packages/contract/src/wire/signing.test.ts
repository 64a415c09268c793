import { createHash, createHmac, randomBytes } from "node:crypto";
import fc from "fast-check";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, it } from "vitest";
import { buildPush } from "./ezgh-push.ts";
import type { Hmac, SigningKey } from "./format.ts";
import {
  basalticSignature,
  base64,
  ezghSignature,
  generateSecret,
  gigadriveSignature,
  hex,
  parseSecret,
  standardWebhooksSignature,
} from "./signing.ts";
import { verifyBasaltic, verifyEzgh, verifyGigadrive } from "./verify.ts";

const hmac: Hmac = (form, key, ...parts) => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};
const random = (bytes: number): Uint8Array => Uint8Array.from(randomBytes(bytes));
const secret = (): string => generateSecret(random);
const key = (text: string): SigningKey => parseSecret(text) as SigningKey;
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("secrets", () => {
  it("P4: a secret is whsec_ and 43 letters or digits, the same 32 bytes in base64url and in base64", () => {
    for (let i = 0; i < 500; i++) {
      const text = secret();
      expect(text).toMatch(/^whsec_[A-Za-z0-9]{43}$/);
      const bytes = Uint8Array.from(Buffer.from(text.slice(6), "base64url"));
      expect(bytes.length).toBe(32);
      expect(Buffer.from(text.slice(6), "base64").equals(bytes)).toBe(true);
      expect(key(text).decoded).toEqual(bytes);
      expect(Buffer.from(key(text).literal).toString()).toBe(text);
    }
  });

  it("P4: the draw is repeated until the text has neither - nor _", () => {
    const draws = [new Uint8Array(32).fill(0xff), new Uint8Array(32).fill(0xfb), new Uint8Array(32).fill(7)];
    let asked = 0;
    const text = generateSecret((bytes) => {
      expect(bytes).toBe(32);
      return draws[asked++] as Uint8Array;
    });
    expect(asked).toBe(3);
    expect(text).toBe(`whsec_${Buffer.alloc(32, 7).toString("base64url")}`);
  });

  it("P4: another form of secret is not one: prefix, length, alphabet, stray bits", () => {
    const good = secret().slice(6);
    for (const bad of [
      good,
      `WHSEC_${good}`,
      `whsec_${good}=`,
      `whsec_${good.slice(1)}`,
      `whsec_${good}A`,
      `whsec_ ${good.slice(1)}`,
      "",
    ]) {
      expect(parseSecret(bad), bad).toBeUndefined();
    }
    expect(parseSecret(`whsec_${"A".repeat(43)}`)).toBeDefined();
    expect(parseSecret(`whsec_${"A".repeat(42)}B`)).toBeUndefined();
  });

  it("P4: hex is lower case and base64 is the standard one, for every length", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
        expect(hex(bytes)).toBe(Buffer.from(bytes).toString("hex"));
        expect(base64(bytes)).toBe(Buffer.from(bytes).toString("base64"));
      }),
    );
  });
});

describe("foreign verifiers", () => {
  const delivery = {
    subscription: "qsb_7m2k9x0q4r1s",
    queue: "que_4k2m9x0a7qpe",
    fifo: false,
    deliveryId: "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f",
    messages: [
      {
        messageId: "01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f",
        seq: 1,
        body: utf8("héllo 🎉\u2028\n"),
        attributes: null,
        groupKey: null,
        sentAt: 1_760_000_000_000,
        receives: 1,
        meta: null,
      },
    ],
  };

  it("P4: the standardwebhooks and svix packages verify a delivery, with the documented = appended to the secret", () => {
    const text = secret();
    const { headers, body } = buildPush(delivery, { hmac, keys: [key(text)], wallMs: Date.now(), version: "1.0.0" });
    const payload = Buffer.from(body).toString("utf8");
    expect(new StandardWebhook(`${text}=`).verify(payload, headers)).toEqual(JSON.parse(payload));
    expect(() => new SvixWebhook(`${text}=`).verify(payload, headers)).not.toThrow();
    expect(() => new StandardWebhook(`${text}=`).verify(`${payload} `, headers)).toThrow();
    expect(() => new SvixWebhook(`${secret()}=`).verify(payload, headers)).toThrow();
  });

  it("P4: while two secrets are active a delivery carries one signature of each, newest first, and either verifies it", () => {
    const [newest, oldest] = [secret(), secret()];
    const { headers, body } = buildPush(delivery, { hmac, keys: [key(newest), key(oldest)], wallMs: Date.now(), version: "1.0.0" });
    const payload = Buffer.from(body).toString("utf8");
    for (const text of [newest, oldest]) {
      new StandardWebhook(`${text}=`).verify(payload, headers);
      new SvixWebhook(`${text}=`).verify(payload, headers);
      expect(verifyEzgh(hmac, headers["ezgh-signature"], body, [key(text)], Date.now())).toBe(true);
    }
    const first = createHmac("sha256", key(newest).decoded).update(`${headers["webhook-timestamp"]}.`).update(body).digest("hex");
    expect(headers["ezgh-signature"]).toMatch(new RegExp(`^t=\\d+,v1=${first},v1=[0-9a-f]{64}$`));
    expect(headers["webhook-signature"]?.split(" ").length).toBe(2);
  });

  it("P4: webhook-id is the delivery id, and a retry is signed anew", () => {
    const keys = [key(secret())];
    const at = (wallMs: number, deliveryId: string) =>
      buildPush({ ...delivery, deliveryId }, { hmac, keys, wallMs, version: "1.0.0" }).headers;
    const one = at(1_760_000_000_999, "01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f");
    const two = at(1_760_000_004_000, "01999f41-7c3b-7a2d-9e1f-0a1b2c3d4e5f");
    expect(one["webhook-id"]).toBe("01999f41-6c3b-7a2d-9e1f-0a1b2c3d4e5f");
    expect(one["webhook-timestamp"]).toBe("1760000000");
    expect(two["webhook-timestamp"]).toBe("1760000004");
    expect(two["ezgh-signature"]).not.toBe(one["ezgh-signature"]);
  });
});

describe("the three schemes side by side", () => {
  const text = secret();
  const keys = [key(text)];
  const now = 1_760_000_000_000;
  const seconds = now / 1000;
  const body = utf8('{"n":12345678901234567890}');
  const of = {
    queue: "orders",
    messageId: "01999f3d-02b4-7c1d-8e2f-3a4b5c6d7e8f",
    attempt: 3,
    bodyHash: createHash("sha256").update(body).digest("hex"),
  };
  const ezgh = ezghSignature(hmac, keys, seconds, body);
  const gigadrive = gigadriveSignature(hmac, keys[0] as SigningKey, now, of);
  const basaltic = basalticSignature(hmac, keys[0] as SigningKey, seconds, body);
  const verifiers = {
    ezgh: (header: string | undefined, nowMs = now) => verifyEzgh(hmac, header, body, keys, nowMs),
    gigadrive: (header: string | undefined, nowMs = now) => verifyGigadrive(hmac, header, of, keys, nowMs),
    basaltic: (header: string | undefined, nowMs = now) => verifyBasaltic(hmac, String(seconds), header, body, keys, nowMs),
  };

  it("SIG-04: only the right verifier accepts a signature", () => {
    const made = { ezgh, gigadrive, basaltic };
    for (const [scheme, header] of Object.entries(made)) {
      for (const [verifier, verify] of Object.entries(verifiers))
        expect(verify(header), `${scheme} by ${verifier}`).toBe(scheme === verifier);
    }
    // Even with its timestamp put in front, a Basaltic digest is not an EZGH one: the keys are read differently.
    expect(verifiers.ezgh(`t=${seconds},${basaltic}`)).toBe(false);
    expect(verifiers.gigadrive(`t=${now},${basaltic}`)).toBe(false);
    expect(verifiers.basaltic(ezgh.slice(ezgh.indexOf(",") + 1))).toBe(false);
  });

  it("SIG-04: 300 seconds off are accepted and 301 refused, either way, in each scheme", () => {
    for (const [off, accepted] of [
      [299, true],
      [300, true],
      [301, false],
    ] as const) {
      for (const sign of [-1, 1]) {
        expect(verifiers.ezgh(ezgh, now + sign * off * 1000), `ezgh ${sign * off}`).toBe(accepted);
        expect(verifiers.gigadrive(gigadrive, now + sign * off * 1000), `gigadrive ${sign * off}`).toBe(accepted);
        expect(verifiers.basaltic(basaltic, now + sign * off * 1000), `basaltic ${sign * off}`).toBe(accepted);
      }
    }
    // Within the 300th second, as a clock that counts whole seconds sees it.
    expect(verifiers.ezgh(ezgh, now + 300_999)).toBe(true);
  });

  it("SIG-04: a malformed header is false and never an error", () => {
    const digest = ezgh.slice(ezgh.indexOf("v1="));
    const bad = [
      undefined,
      "",
      ",",
      "=",
      digest,
      `t=,${digest}`,
      `t=abc,${digest}`,
      `t=-${seconds},${digest}`,
      `t=${seconds}.0,${digest}`,
      `t=${seconds},t=${seconds},${digest}`,
      `t=${seconds},t=1,${digest}`,
      `t=${seconds}`,
      `t=${seconds},v1=`,
      `t=${seconds},${digest.toUpperCase()}`,
      `t=${seconds},${digest.slice(0, -1)}`,
      `t=${seconds},${digest}0`,
      `t=${seconds},v0=${digest.slice(3)}`,
      `t=${"9".repeat(400)},${digest}`,
      `t=${seconds},v1=${"é".repeat(64)}`,
      `${"t=1,".repeat(100_000)}${digest}`,
    ];
    for (const header of bad) {
      for (const verify of Object.values(verifiers)) expect(verify(header), String(header).slice(0, 60)).toBe(false);
    }
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (header) => {
        for (const verify of Object.values(verifiers)) expect(verify(header)).toBe(false);
      }),
    );
  });

  it("SIG-04: among a hundred v1 values the genuine one counts; a hundred strangers do not", () => {
    const strangers = Array.from({ length: 99 }, (_, i) => `v1=${hmac("hex", utf8(String(i)), body)}`).join(",");
    const own = ezgh.slice(ezgh.indexOf("v1="));
    expect(verifiers.ezgh(`t=${seconds},${strangers},${own}`)).toBe(true);
    expect(verifiers.ezgh(`t=${seconds},${strangers},${strangers.slice(0, 67)}`)).toBe(false);
  });

  it("SIG-04: a secret without its prefix is no secret, and another secret does not verify", () => {
    expect(parseSecret(text.slice(6))).toBeUndefined();
    expect(verifyEzgh(hmac, ezgh, body, [key(secret())], now)).toBe(false);
    expect(verifyEzgh(hmac, ezgh, body, [key(secret()), ...keys], now)).toBe(true);
    expect(verifyEzgh(hmac, ezgh, body, [], now)).toBe(false);
  });

  it("SIG-02: a body of 0, 1 or 2 bytes is signed as it is, and the hash of an empty one is SHA-256 of nothing", () => {
    expect(createHash("sha256").update(new Uint8Array(0)).digest("hex")).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    for (const small of [new Uint8Array(0), utf8("x"), utf8("é")]) {
      expect(verifyEzgh(hmac, ezghSignature(hmac, keys, seconds, small), small, keys, now)).toBe(true);
      const hash = { ...of, bodyHash: createHash("sha256").update(small).digest("hex") };
      expect(verifyGigadrive(hmac, gigadriveSignature(hmac, keys[0] as SigningKey, now, hash), hash, keys, now)).toBe(true);
      expect(verifyGigadrive(hmac, gigadriveSignature(hmac, keys[0] as SigningKey, now, hash), of, keys, now)).toBe(false);
      const header = standardWebhooksSignature(hmac, keys, "id", seconds, small);
      const expected = createHmac("sha256", Uint8Array.from(Buffer.from(text.slice(6), "base64")))
        .update(`id.${seconds}.`)
        .update(small)
        .digest("base64");
      expect(header).toBe(`v1,${expected}`);
    }
  });
});
