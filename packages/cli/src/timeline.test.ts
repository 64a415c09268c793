import { describe, expect, it } from "vitest";
import { drawBar, showSpan } from "./timeline.ts";

describe("the timeline of a run", () => {
  it("A17: durations are shown to the precision that matters", () => {
    const shown = [0, 12.4, 999, 1000, 59_940, 60_000, 200_000, 7_500_000, 280_800_000].map(showSpan);
    expect(shown).toEqual(["0ms", "12ms", "999ms", "1.0s", "59.9s", "1m", "3m 20s", "2h 5m", "3d 6h"]);
  });

  it("A17: a step's bar stands where it ran, is seen however short it was, and is open while the step is", () => {
    const bar = (startedAt: number, endedAt: number | null) => drawBar({ startedAt, endedAt, status: "completed" }, 1000, 2000, 10);
    expect(bar(1000, 2000)).toBe("██████████");
    expect(bar(1500, 1750)).toBe("     ██▌");
    expect(bar(1300, 1300)).toBe("   ▏");
    expect(bar(1999, 2000)).toBe("         ▏");
    expect(bar(1500, null)).toBe("     ────>");
    expect(drawBar({ startedAt: 5, endedAt: 5, status: "completed" }, 5, 5, 10)).toBe("▏");
  });
});
