import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { formatKey, hashKey, isKey } from "./key-text.ts";

describe("key text", () => {
  it("A5: a key is mlr_, 32 random bytes in base62 and a checksum", () => {
    const low = formatKey(new Uint8Array(32));
    const high = formatKey(new Uint8Array(32).fill(255));
    expect(low).toMatch(/^mlr_0{43}[0-9A-Za-z]{6}$/);
    expect(high).toMatch(/^mlr_[0-9A-Za-z]{49}$/);
    expect(new Set(Array.from({ length: 200 }, () => formatKey(randomBytes(32)))).size).toBe(200);
  });

  it("A5: the checksum catches every single mistyped character and every swap of neighbours", () => {
    const key = formatKey(new Uint8Array(32).map((_, i) => i * 7));
    expect(isKey(key)).toBe(true);
    for (let at = 4; at < key.length; at += 1) {
      const other = key[at] === "x" ? "y" : "x";
      expect(isKey(key.slice(0, at) + other + key.slice(at + 1))).toBe(false);
      const swapped = key.slice(0, at) + (key[at + 1] ?? "") + key[at] + key.slice(at + 2);
      if (swapped !== key) expect(isKey(swapped)).toBe(false);
    }
    for (const bad of ["", "mlr_", key.slice(0, -1), `${key}0`, ` ${key}`, key.toUpperCase()]) expect(isKey(bad)).toBe(false);
  });

  it("A5: what is stored is the SHA-256 of the text", () => {
    expect(hashKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });
});
