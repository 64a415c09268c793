import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { hmac } from "./hmac.ts";

const theirs = (form: "hex" | "base64", key: Uint8Array, parts: readonly (string | Uint8Array)[]): string => {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
};

it("P4: signatures are HMAC-SHA256 as Node computes it: keys of every length, texts and bytes in any order, one key after the other", () => {
  const part = fc.oneof(fc.string({ unit: "binary" }), fc.uint8Array({ maxLength: 300 }));
  const call = fc.tuple(fc.constantFrom("hex" as const, "base64" as const), fc.nat(2), fc.array(part, { maxLength: 4 }));
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 150 }), { minLength: 3, maxLength: 3 }), fc.array(call), (keys, calls) => {
      for (const [form, which, parts] of calls) {
        const key = keys[which] as Uint8Array;
        expect(hmac(form, key, ...parts)).toBe(theirs(form, key, parts));
      }
    }),
  );
});

it("P4: the largest text that is put together at once, and the next larger one", () => {
  const key = new Uint8Array(32).fill(7);
  for (const length of [65_535, 65_536, 65_537, 1_000_000]) {
    const body = new Uint8Array(length).fill(length & 0xff);
    expect(hmac("hex", key, body)).toBe(theirs("hex", key, [body]));
    expect(hmac("base64", key, "é".repeat(21_846), body)).toBe(theirs("base64", key, ["é".repeat(21_846), body]));
  }
});
