import { describe, expect, it } from "vitest";
import { readingFrom, unknownFront, WHOLE_EVERY_MS } from "./front.ts";

const whole = { line: 0, later: 0, until: Number.MAX_SAFE_INTEGER };

describe("from where a claim reads", () => {
  it("STORE-05: it reads the whole line where little is left behind, whatever it knows", () => {
    const front = { line: 900_000, later: 900_000, wholeAt: 999_000 };
    expect(readingFrom(front, 1_000_000, false)).toEqual(whole);
  });

  it("STORE-05: else it begins a second before the line does, and reads no further than to when it reads the whole again", () => {
    const front = { line: 900_000, later: 950_000, wholeAt: 999_000 };
    expect(readingFrom(front, 1_000_000, true)).toEqual({ line: 899_000, later: 949_000, until: 999_000 + WHOLE_EVERY_MS });
  });

  it("STORE-05: a front that nobody has looked at, and one of long ago, is read as a whole, once", () => {
    const front = unknownFront();
    expect(readingFrom(front, 1_000_000, true)).toEqual(whole);
    expect(readingFrom(front, 1_000_001, true)).not.toEqual(whole);
    expect(readingFrom(front, 1_000_000 + WHOLE_EVERY_MS, true)).toEqual(whole);
    expect(readingFrom(front, 1_000_001 + WHOLE_EVERY_MS, true)).not.toEqual(whole);
  });

  it("PG-03: with a clock that was set back it trusts nothing that it knew before", () => {
    const front = { line: 900_000, later: 900_000, wholeAt: 999_000 };
    expect(readingFrom(front, 500_000, true)).toEqual(whole);
    expect(readingFrom(front, 500_001, true)).toEqual({ line: 499_001, later: 499_001, until: 500_000 + WHOLE_EVERY_MS });
  });
});
