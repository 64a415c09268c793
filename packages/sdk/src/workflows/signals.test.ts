import { describe, expect, it } from "vitest";
import { createFan, Halt } from "./signals.ts";

describe("a halt", () => {
  it("W9: its signal is aborted with its reason, whether it was asked for before or after", () => {
    const halt = new Halt();
    const before = halt.signal;
    expect([halt.aborted, before.aborted]).toEqual([false, false]);
    halt.abort("lost");
    halt.abort("again");
    expect([halt.aborted, halt.reason, before.aborted, before.reason]).toEqual([true, "lost", true, "lost"]);
    expect(halt.signal).toBe(before);
    const late = new Halt();
    late.abort("lost");
    expect([late.signal.aborted, late.signal.reason]).toEqual([true, "lost"]);
  });

  it("W9: whoever listens hears of it once, and who listens no more does not", () => {
    const halt = new Halt();
    const heard: string[] = [];
    const gone = () => void heard.push("gone");
    halt.addEventListener("abort", () => heard.push("one"));
    halt.addEventListener("abort", gone);
    halt.addEventListener("abort", () => heard.push("two"));
    halt.removeEventListener("abort", gone);
    halt.abort();
    halt.abort();
    expect(heard).toEqual(["one", "two"]);
  });

  it("W9, W10: a fan that follows one is aborted with it, what it gives out before and afterwards", () => {
    const halt = new Halt();
    const fan = createFan(halt);
    const [one, released] = [fan.fork(), fan.fork()];
    fan.release(released);
    halt.abort("lost");
    expect([one.signal.reason, fan.fork().signal.reason, createFan(halt).fork().signal.reason]).toEqual(["lost", "lost", "lost"]);
    expect(released.signal.aborted).toBe(false);
  });
});
