import { describe, expect, it } from "vitest";
import { type Duration, readDuration, toSeconds } from "./duration.ts";

describe("durations", () => {
  it("C11: durations are seconds or a number with s, m, h or d, in whole seconds rounded up", () => {
    for (const [given, seconds] of [
      [0, 0],
      [90, 90],
      ["90s", 90],
      ["10m", 600],
      ["2h", 7200],
      ["3d", 259_200],
      ["1.5h", 5400],
      ["1.1m", 66],
      ["66.1s", 67],
      [0.2, 1],
      ["0", 0],
      ["365d", 31_536_000],
    ] as const) {
      expect(readDuration(given), String(given)).toBe(seconds);
    }
  });

  it("C11: anything else is none, and is refused with the field, its bounds and what came", () => {
    for (const given of [
      "-5s",
      "1y",
      "abc",
      "",
      " 5s",
      "5 s",
      "1e3",
      "s",
      -1,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      "366d",
      undefined,
      null,
      {},
      [5],
    ]) {
      expect(readDuration(given), String(given)).toBeUndefined();
    }
    expect(() => toSeconds("wait", "30s", 0, 20)).toThrow(
      new RangeError('wait: must be 0 to 20 seconds, or a text such as "90s", "10m", "2h", "3d", got 30s'),
    );
    expect(() => toSeconds("delay", "soon" as Duration)).toThrow("delay: must be 0 to 31536000 seconds");
  });
});
