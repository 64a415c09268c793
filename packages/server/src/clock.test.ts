import { describe, expect, it } from "vitest";
import { createClock } from "./clock.ts";

const day = 86_400_000;

describe("the clock", () => {
  it("P26: a frozen clock moves by advance alone and runs what became due, in order of its instants", () => {
    const clock = createClock({ frozen: true });
    const start = clock.now();
    const ran: string[] = [];
    clock.after(3000, () => ran.push(`third at ${clock.now() - start}`));
    clock.after(1000, () => ran.push("first"));
    const cancel = clock.after(1500, () => ran.push("cancelled"));
    clock.after(2000, () => {
      ran.push("second");
      clock.after(500, () => ran.push("nested"));
    });
    cancel();
    clock.advance(999);
    expect(ran).toEqual([]);
    clock.advance(1);
    expect(ran).toEqual(["first"]);
    clock.advance(2000);
    expect(ran).toEqual(["first", "second", "third at 3000"]);
    clock.advance(500);
    expect(ran).toEqual(["first", "second", "third at 3000", "nested"]);
    expect(clock.offset).toBe(3500);
  });

  it("P26: wall time stays real while the virtual clock moves, for signatures", () => {
    const clock = createClock({ wall: () => 1_000_000, monotonic: () => 5 });
    clock.advance(3_600_000);
    expect(clock.wall()).toBe(1_000_000);
    expect(clock.now()).toBe(4_600_000);
  });

  it("LEASE-11: a wall clock set back an hour stops nothing, and set forward it is followed", () => {
    let wall = 10_000_000;
    let monotonic = 0;
    const clock = createClock({ wall: () => wall, monotonic: () => monotonic });
    const pass = (ms: number): void => {
      wall += ms;
      monotonic += ms;
    };
    pass(10_000);
    expect(clock.now()).toBe(10_010_000);
    wall -= 3_600_000;
    expect(clock.now()).toBe(10_010_000);
    pass(30_000);
    expect(clock.now()).toBe(10_040_000);
    wall += 3_600_000;
    expect(clock.now()).toBe(10_040_000);
    wall += 3_600_000;
    expect(clock.now()).toBe(13_640_000);
  });

  it("WF-04: a timer beyond the longest delay that the platform takes does not fire early", () => {
    const clock = createClock({ frozen: true });
    let fired = 0;
    clock.after(30 * day, () => fired++);
    clock.advance(25 * day);
    expect(fired).toBe(0);
    clock.advance(5 * day);
    expect(fired).toBe(1);
  });

  it("WF-04: real timers far ahead neither fire at once nor keep the process busy", async () => {
    const clock = createClock();
    let early = false;
    clock.after(60 * day, () => {
      early = true;
    });
    await new Promise<void>((resolve) => clock.after(5, resolve));
    expect(early).toBe(false);
  });
});
