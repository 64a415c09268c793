import { Fault } from "@millrace/contract";
import { expect, it } from "vitest";
import { checkMode, payloadBytes, payloadOf } from "./rules.ts";

const faultOf = (call: () => unknown): Fault => {
  try {
    call();
  } catch (error) {
    if (error instanceof Fault) return error;
  }
  throw new Error("it was not refused");
};

it("W3, WF-13: a payload has at most 262,144 bytes of JSON text, in multi-byte text too; nothing is cut", () => {
  for (const [text, bytes] of [
    ["é".repeat(131_071), 262_144],
    ["x".repeat(262_142), 262_144],
    ["x".repeat(262_141), 262_143],
  ] as const) {
    const stored = payloadBytes("input", text);
    expect(stored).toHaveLength(bytes);
    expect(payloadOf(stored)).toBe(text);
  }
  const fault = faultOf(() => payloadBytes("input", "x".repeat(262_143)));
  expect([fault.code, fault.details?.path, fault.details?.got]).toEqual(["payload_too_large", "input", "262145"]);
});

it("W3: no input is none, and null is an input", () => {
  expect(payloadBytes("input", undefined)).toBeNull();
  expect(payloadOf(null)).toBeNull();
  expect(new TextDecoder().decode(payloadBytes("input", null) ?? undefined)).toBe("null");
});

it("W1: a push app has a URL, a pull app has none", () => {
  expect(() => checkMode("push", "https://example.com/")).not.toThrow();
  expect(() => checkMode("pull", undefined)).not.toThrow();
  expect(faultOf(() => checkMode("push", undefined)).details?.path).toBe("url");
  expect(faultOf(() => checkMode("pull", "https://example.com/")).details?.path).toBe("url");
});
