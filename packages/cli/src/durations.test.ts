import { describe, expect, it } from "vitest";
import { parseSeconds, parseWhole, showSeconds } from "./durations.ts";

describe("durations", () => {
  it("A17: are seconds, or a number with s, m, h or d", () => {
    expect(["0", "90", "90s", "10m", "1.1m", "1.5h", "3d"].map(parseSeconds)).toEqual([0, 90, 90, 600, 66, 5400, 259_200]);
  });

  it("A17: of any other form, or of a part of a second, are refused", () => {
    for (const text of ["", "s", "1x", "-1", "1w", "0.5s", "ten", "1e3"]) expect(() => parseSeconds(text)).toThrow(/90s, 10m, 12h or 3d/);
    for (const text of ["", "1.5", "-1", "x"]) expect(() => parseWhole(text)).toThrow(/whole number/);
  });

  it("are shown in the largest unit that divides them", () => {
    expect([0, 59, 60, 90, 5400, 86_400, 345_600].map(showSeconds)).toEqual(["0s", "59s", "1m", "90s", "90m", "1d", "4d"]);
  });
});
