import { Fault } from "@millrace/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readJson } from "./json-text.ts";

const read = (text: string): unknown => readJson(new TextEncoder().encode(text));
function faultOf(call: () => unknown): Fault {
  try {
    call();
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("JSON as it comes", () => {
  it.each([
    ['{"a":}', "line 1, column 6 (offset 5)"],
    ['{"a":1,}', "line 1, column 8 (offset 7)"],
    ["[1,\n 2,\n x]", "line 3, column 2 (offset 9)"],
    ["{", "line 1, column 2 (offset 1)"],
    ["[]]", "line 1, column 3 (offset 2)"],
    ['"a\nb"', "line 1, column 3 (offset 2)"],
    ['{"a" 1}', "line 1, column 6 (offset 5)"],
    ["01", "line 1, column 2 (offset 1)"],
    ["nul", "line 1, column 1 (offset 0)"],
    ['["\\x"]', "line 1, column 4 (offset 3)"],
    ["\ufeff{}", "line 1, column 1 (offset 0)"],
    ["{a:1}", "line 1, column 2 (offset 1)"],
  ])("A2: %j is refused with its position", (text, position) => {
    const fault = faultOf(() => read(text));
    expect(fault.code).toBe("invalid_json");
    expect(fault.message).toContain(position);
  });

  it("A2: whatever JSON.parse refuses is refused as invalid_json, and nothing else is", () => {
    const piece = fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', '"', "1", "-", "true", "nul", " ", "\\", "e5", ".");
    fc.assert(
      fc.property(
        fc.array(piece, { minLength: 1, maxLength: 10 }).map((parts) => parts.join("")),
        (text) => {
          let parsed: unknown;
          try {
            parsed = JSON.parse(text);
          } catch {
            expect(faultOf(() => read(text)).code).toBe("invalid_json");
            return;
          }
          expect(read(text)).toEqual(parsed);
        },
      ),
      { numRuns: 5000 },
    );
  });

  it("A2: text that is broken after very much or very deep JSON is told of without running out of stack", () => {
    expect(faultOf(() => read(`${"[".repeat(500_000)}x`)).message).toContain("offset 500000");
    expect(faultOf(() => read(`["${"\\n".repeat(1_000_000)}",x]`)).message).toContain("offset 2000004");
  });

  it("Q5: bytes that are not UTF-8 are refused, never replaced", () => {
    expect(faultOf(() => readJson(Uint8Array.from([0x22, 0xff, 0x22]))).code).toBe("invalid_json");
    expect(faultOf(() => readJson(Uint8Array.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).code).toBe("invalid_json");
  });

  it("Q5: a lone surrogate in any string or key is refused by its path; pairs, NUL and the empty string pass", () => {
    const fault = faultOf(() => read('{"messages":[{"body":"ok"},{"body":"\\ud83d"}]}'));
    expect(fault.code).toBe("invalid_request");
    expect(fault.details?.path).toBe("messages.1.body");
    expect(faultOf(() => read('{"a":{"\\udc00":1}}')).details?.path).toBe("a");
    expect(faultOf(() => read('"\\ude00\\ud83d"')).details?.path).toBe("body");
    expect(read('["\\ud83d\\ude00","\\u0000",""]')).toEqual(["😀", "\u0000", ""]);
    expect(faultOf(() => read(`${"[".repeat(200_000)}"\\ud800"${"]".repeat(200_000)}`)).code).toBe("invalid_request");
  });

  it("A2: __proto__ is a key like any other and pollutes nothing; of duplicate keys the last counts", () => {
    const value = read('{"__proto__":{"polluted":1},"a":1,"a":2}') as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["__proto__", "a"]);
    expect(value.a).toBe(2);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});
