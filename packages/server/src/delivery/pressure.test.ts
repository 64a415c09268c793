import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { createPressure, nextShare } from "./pressure.ts";

const behind = { idle: 0.9, healthy: true };

it("A4: sending is slowed while deliveries fall behind, less and less while they catch up, and not at all once they have", () => {
  expect(nextShare(null, 900, 0)).toBeNull();
  expect(nextShare(null, 1_000, 0)).toBe(128);
  expect(nextShare(128, 2_000, 1_000)).toBe(64);
  expect(nextShare(8, 9_000, 2_000)).toBe(8);
  expect(nextShare(64, 1_500, 2_000)).toBe(80);
  expect(nextShare(80, 200, 1_500)).toBeNull();
});

it("A4: an endpoint that fails, or is slow itself, slows no sender down", () => {
  const clock = createClock({ frozen: true });
  const shares: (number | null)[] = [];
  const pressure = createPressure(clock, (rows) => shares.push(rows));
  for (let i = 0; i < 20; i++) {
    pressure.seen({ lagMs: 60_000, idle: 0.1, healthy: true });
    pressure.seen({ lagMs: 60_000, idle: 1, healthy: false });
    clock.advance(250);
  }
  expect(shares).toEqual([]);
});

it("A4: the bound follows the lag and is lifted when nothing lags any more, or at the end", () => {
  const clock = createClock({ frozen: true });
  const shares: (number | null)[] = [];
  const pressure = createPressure(clock, (rows) => shares.push(rows));
  for (const lagMs of [1_500, 2_500, 2_400]) {
    pressure.seen({ ...behind, lagMs });
    clock.advance(250);
  }
  expect(shares).toEqual([128, 64, 80]);
  clock.advance(250);
  expect(shares.at(-1)).toBeNull();
  clock.advance(10_000);
  expect(shares).toHaveLength(4);
  pressure.seen({ ...behind, lagMs: 5_000 });
  clock.advance(250);
  pressure.close();
  expect(shares.slice(4)).toEqual([128, null]);
});
