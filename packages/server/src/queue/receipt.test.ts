import fc from "fast-check";
import { expect, it } from "vitest";
import { readReceipt, writeReceipt } from "./receipt.ts";

it("Q8: a receipt reads back as the lease it was written for, up to the largest numbers", () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), fc.maxSafeNat(), (seq, receipt) => {
      expect(readReceipt(writeReceipt({ seq, receipt }))).toEqual({ seq, receipt });
    }),
  );
});

it("LEASE-03: no text but a written one reads as a receipt, and a lease has one text only", () => {
  for (const text of ["fake", "", "x".repeat(10_240), "01999f3c-7a1e-7b2a-9c4d-5e6f7a8b9c0d", "_".repeat(22)]) {
    expect(readReceipt(text)).toBeNull();
  }
  const text = writeReceipt({ seq: 7, receipt: 9 });
  // The last character holds four unused bits: other letters with the same meaning are refused.
  const others = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].filter((letter) => letter !== text.at(-1));
  for (const letter of others) {
    const read = readReceipt(text.slice(0, -1) + letter);
    expect(read === null || read.receipt !== 9).toBe(true);
  }
});
