import { Fault } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import { checkMessage, dedupOf, type GivenMessage, type MessageBounds, receiptOutcome } from "./rules.ts";

const bounds: MessageBounds = { maxBytes: 262_144, maxAttributes: 10 };
const check = (given: GivenMessage, type: "standard" | "fifo" = "standard", index = 3) => checkMessage(given, index, type, bounds);

function refusal(given: GivenMessage, type: "standard" | "fifo" = "standard"): Fault {
  try {
    check(given, type);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("was accepted");
}

describe("the size of a message", () => {
  it("Q5, BODY-02: counts UTF-8 bytes, so 262,144 of them pass in every script and one more does not", () => {
    for (const [character, width] of [
      ["a", 1],
      ["é", 2],
      ["€", 3],
      ["😀", 4],
    ] as const) {
      const fits = character.repeat(Math.floor(262_144 / width));
      const padded = fits + "x".repeat(262_144 - Buffer.byteLength(fits));
      expect(check({ body: padded }).body.length).toBe(262_144);
      expect(refusal({ body: `${padded}x` }).details).toMatchObject({ index: 3, path: "messages.3.body", got: "262145 bytes" });
    }
  });

  it("Q5, BODY-03: counts attribute names and values with the body", () => {
    const body = "x".repeat(262_144 - 10);
    expect(check({ body, attributes: { name: "value1" } }).attributes).toEqual({ name: "value1" });
    expect(refusal({ body, attributes: { name: "value12" } }).details?.got).toBe("262145 bytes");
    expect(refusal({ body: "x".repeat(262_144), attributes: { a: "" } }).status).toBe(400);
    const wide = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`a${i}`, "x".repeat(30 * 1024)]));
    expect(refusal({ body: "", attributes: wide }).details?.bound).toBe("at most 1024 bytes");
  });

  it("Q5: takes at most 10 attributes, with names of 1 to 64 plain characters and values up to 1,024 bytes", () => {
    const many = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`a${i}`, "v"]));
    expect(Object.keys(check({ body: "", attributes: many(10) }).attributes ?? {})).toHaveLength(10);
    expect(refusal({ body: "", attributes: many(11) }).details).toMatchObject({ bound: "at most 10", got: "11" });
    for (const name of ["", "a b", "é", "x".repeat(65), "a\n"])
      expect(refusal({ body: "", attributes: { [name]: "v" } }).code).toBe("invalid_request");
    expect(check({ body: "", attributes: { ["x".repeat(64)]: "€".repeat(341) } }).attributes).not.toBeNull();
    expect(refusal({ body: "", attributes: { a: "€".repeat(342) } }).details?.got).toBe("1026 bytes");
  });
});

describe("the body of a message", () => {
  it("Q5: text must be well-formed Unicode, in the body and in attribute values", () => {
    for (const bad of ["\ud800", "a\udc00b", "\udfff\ud800"]) {
      expect(refusal({ body: bad }).details?.bound).toMatch(/lone surrogates/);
      expect(refusal({ body: "", attributes: { a: bad } }).details?.path).toBe("messages.3.attributes.a");
    }
    expect(Buffer.from(check({ body: "\u0000😀\ufeff" }).body).toString()).toBe("\u0000😀\ufeff");
  });

  it("BODY-04: empty and blank bodies and values pass as they are; an empty name does not", () => {
    for (const body of ["", " ", "\n"]) expect(Buffer.from(check({ body }).body).toString()).toBe(body);
    expect(check({ body: "", attributes: { a: "" } }).attributes).toEqual({ a: "" });
    expect(check({ body: "", attributes: {} }).attributes).toBeNull();
    expect(refusal({ body: "", attributes: { "": "v" } }).details?.index).toBe(3);
  });

  it("Q5: is given as text or as strict base64, exactly one of them", () => {
    expect([...check({ bodyBase64: "/wAB" }).body]).toEqual([255, 0, 1]);
    expect(check({ bodyBase64: "" }).body).toHaveLength(0);
    expect(refusal({ body: "a", bodyBase64: "YQ==" }).details?.bound).toBe("body or bodyBase64, not both");
    expect(refusal({}).details?.bound).toBe("body or bodyBase64 is required");
    for (const bad of ["YQ", "YR==", "Y Q=", "_w==", "YQ==YQ==", "====", "YQ==\n"])
      expect(refusal({ bodyBase64: bad }).details?.path, bad).toBe("messages.3.bodyBase64");
  });

  it("Q9: a message of a FIFO queue needs its group", () => {
    expect(refusal({ body: "a" }, "fifo").details).toMatchObject({ path: "messages.3.groupId", bound: "required on a FIFO queue" });
    expect(check({ body: "a", groupId: "g" }, "fifo").body).toHaveLength(1);
  });
});

it("Q11: a send is remembered by its own id, or by its body's hash where asked for, and only while the window is open", () => {
  const hash = () => "hash";
  const settings = { deduplicationWindowMs: 1000, contentBasedDeduplication: false };
  expect(dedupOf(settings, "id", hash)).toEqual({ key: "id", shown: "id" });
  expect(dedupOf(settings, undefined, hash)).toEqual({ key: null, shown: undefined });
  expect(dedupOf({ ...settings, contentBasedDeduplication: true }, undefined, hash)).toEqual({ key: "hash", shown: "hash" });
  expect(dedupOf({ ...settings, contentBasedDeduplication: true }, "id", hash).key).toBe("id");
  expect(dedupOf({ deduplicationWindowMs: 0, contentBasedDeduplication: true }, "id", hash)).toEqual({ key: null, shown: "id" });
});

it("Q8: a stale receipt and a message that is gone are told apart", () => {
  expect(receiptOutcome("stale")).toMatchObject({ ok: false, code: "receipt_mismatch" });
  expect(receiptOutcome("gone")).toMatchObject({ ok: false, code: "message_not_found" });
  for (const done of ["acked", "retrying", "extended", "dead", "dropped", "expired"] as const)
    expect(receiptOutcome(done)).toEqual({ ok: true });
});
