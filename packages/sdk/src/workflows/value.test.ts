import { describe, expect, it } from "vitest";
import { crashing } from "./crashing.fixture.ts";
import { ValueError } from "./errors.ts";
import { decodeValue, encodeValue } from "./value.ts";
import { workflow } from "./workflow.ts";

const limit = 262_144;
const circle: Record<string, unknown> = {};
circle.self = circle;

describe("values in a journal", () => {
  it("WF-13, Q5: a result of exactly the limit is kept whole, one byte more is refused, counted in UTF-8", () => {
    // Two quotes of JSON, letters of two and three bytes.
    for (const letter of ["a", "ä", "€"]) {
      const size = new TextEncoder().encode(letter).length;
      const filled = `${letter.repeat(Math.floor((limit - 2) / size))}${"a".repeat((limit - 2) % size)}`;
      for (const [text, fits] of [
        [filled.slice(0, -1), true],
        [filled, true],
        [`${filled}a`, false],
      ] as const) {
        if (fits) expect(decodeValue(encodeValue(text, "it", limit))).toBe(text);
        else expect(() => encodeValue(text, "it", limit)).toThrow(`it is ${limit + 1} bytes of JSON; at most ${limit} can be recorded`);
      }
    }
  });

  it.each([
    ["undefined", undefined, undefined],
    ["null", null, null],
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
    ["undefined members", { a: undefined, b: 1 }, { b: 1 }],
    ["half a character", "\ud800", "\ud800"],
  ])("WF-13: %s is told the same live and on every replay", (_, value, told) => {
    expect(decodeValue(encodeValue(value, "it", limit))).toEqual(told);
  });

  it.each([
    ["NaN", Number.NaN, "NaN is no JSON"],
    ["infinity in depth", { sums: [1, Number.POSITIVE_INFINITY] }, "Infinity is no JSON (at 1)"],
    ["a bigint", 1n, "a bigint is no JSON"],
    ["a circle", circle, "circular"],
    ["a function", { done: () => 1 }, "a function is no JSON (at done)"],
    ["a map", new Map([[1, 2]]), "a Map is no JSON"],
    ["a promise", { later: Promise.resolve() }, "a Promise is no JSON (at later)"],
  ])("WF-13: %s fails its step at once, says why, and leaves the process alone", async (_, value, why) => {
    let calls = 0;
    const run = crashing();
    const tested = workflow("t", async ({ step }) => {
      await step.run("bad", () => {
        calls += 1;
        return value as unknown;
      });
    });
    const answer = await run.finish(tested);
    expect(answer).toMatchObject({ status: "failed", error: { code: "invalid_value", name: "ValueError" } });
    expect(JSON.stringify(answer)).toContain(why);
    expect(calls).toBe(1);
  });

  it("W3, WF-13: a result that is too large fails its step, and a caught failure leaves the run whole", async () => {
    const run = crashing();
    const tested = workflow("t", ({ step }) => step.run("big", () => "x".repeat(limit)).catch((error: { code: string }) => error.code));
    expect(await run.finish(tested)).toMatchObject({ status: "completed", output: '"limit_exceeded"' });
  });

  it("W3: an output may have 4 MiB, no more", async () => {
    const output = (length: number) => crashing().finish(workflow("t", () => "x".repeat(length)));
    expect(await output(4 * 1024 * 1024 - 2)).toMatchObject({ status: "completed" });
    expect(await output(4 * 1024 * 1024 - 1)).toMatchObject({ status: "failed", error: { code: "limit_exceeded" } });
  });

  it("WF-13: what throws while it becomes JSON is the step's own error", () => {
    const thrown = new RangeError("no");
    const bad = {
      toJSON() {
        throw thrown;
      },
    };
    expect(() => encodeValue(bad, "it", limit)).toThrow(thrown);
    expect(() => encodeValue(circle, "it", limit)).toThrow(ValueError);
  });
});
