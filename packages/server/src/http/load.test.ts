import { Fault } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import { createLoad, type Vitals } from "./load.ts";

const MiB = 1024 * 1024;

function setUp(behind = () => false) {
  const vitals: Vitals = { memoryBytes: 0, loopDelayMs: 0 };
  let ms = 0;
  let reads = 0;
  const load = createLoad({
    memoryCapBytes: 100 * MiB,
    vitals: {
      read() {
        reads += 1;
        return { ...vitals };
      },
      close: () => {},
    },
    behind,
    elapsed: () => ms,
  });
  return { load, vitals, pass: (by: number) => (ms += by), reads: () => reads };
}

const refusal = (call: () => void): Fault | null => {
  try {
    call();
    return null;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
};

describe("load", () => {
  it("A4: bodies under way never take more than a quarter of the cap, and room comes back as they leave", () => {
    const { load } = setUp();
    load.enter(16 * MiB);
    expect(refusal(() => load.enter(16 * MiB))?.code).toBe("overloaded");
    expect(load.bytes).toBe(16 * MiB);
    load.leave(16 * MiB);
    expect(refusal(() => load.enter(16 * MiB))).toBeNull();
  });

  it("A4: memory near the cap refuses new work with a time to come back, and stops refusing when it shrinks", () => {
    const { load, vitals, pass } = setUp();
    vitals.memoryBytes = 95 * MiB;
    const fault = refusal(() => load.enter(1));
    expect(fault?.status).toBe(503);
    expect(fault?.details?.retryAfterSeconds).toBe(1);
    vitals.memoryBytes = 50 * MiB;
    pass(250);
    expect(refusal(() => load.enter(1))).toBeNull();
  });

  it("A4: a late event loop refuses new work, a delay from long ago does not", () => {
    const { load, vitals, pass } = setUp();
    load.enter(1);
    vitals.loopDelayMs = 1500;
    pass(250);
    expect(refusal(() => load.enter(1))?.code).toBe("overloaded");
    pass(60_000);
    expect(refusal(() => load.enter(1))).toBeNull();
  });

  it("A4: what is behind elsewhere refuses too, and vitals are read at most four times a second", () => {
    let late = false;
    const { load, reads } = setUp(() => late);
    for (let i = 0; i < 1000; i += 1) load.enter(0);
    expect(reads()).toBe(1);
    late = true;
    expect(refusal(() => load.enter(0))?.code).toBe("overloaded");
  });
});
