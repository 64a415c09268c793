import { Fault } from "@millrace/contract";
import { describe, expect, it } from "vitest";
import { type GivenPublication, payloadFor, readPublication } from "./payload.ts";

const standard = { no: 7, fifo: false };
const fifo = { no: 8, fifo: true };
const refusedAt = (topic: { no: number; fifo: boolean }, given: GivenPublication, path?: string): string | undefined => {
  try {
    readPublication(topic, given, undefined, path);
  } catch (error) {
    if (error instanceof Fault) return error.details?.path;
    throw error;
  }
  return undefined;
};

describe("what is published", () => {
  it("T3: text is kept as its bytes, with what was given beside it", () => {
    expect(readPublication(standard, { message: "é", subject: "", attributes: { a: "b" } }, "00-trace")).toEqual({
      ...{ topicNo: 7, message: new TextEncoder().encode("é"), structure: null, subject: "", attributes: { a: "b" } },
      ...{ groupId: null, dedupId: null, traceparent: "00-trace" },
    });
    expect(readPublication(standard, { message: "", attributes: {} }, undefined).attributes).toBeNull();
  });

  it("T3: each refusal names its field, and in a batch its entry", () => {
    const attributes = { big: "x".repeat(262_144) };
    expect(refusedAt(standard, { message: "m", message_structure: "json" })).toBe("message");
    expect(refusedAt(standard, { message: { default: "m" } })).toBe("message");
    expect(refusedAt(standard, { message: "m", message_group_id: "g" })).toBe("message_group_id");
    expect(refusedAt(standard, { message: "m", message_deduplication_id: "d" })).toBe("message_deduplication_id");
    expect(refusedAt(fifo, { message: "m" })).toBe("message_group_id");
    expect(refusedAt(standard, { message: "m", attributes }, "entries.3.")).toBe("entries.3.message");
    expect(refusedAt(fifo, { message: "m", message_group_id: "g", message_deduplication_id: "d" })).toBeUndefined();
  });

  it("T3: sizes count bytes, not characters", () => {
    expect(refusedAt(standard, { message: "é".repeat(131_072) })).toBeUndefined();
    expect(refusedAt(standard, { message: "é".repeat(131_073) })).toBe("message");
  });

  it("T3, T5: a structured message has a payload for each protocol, the default for those it does not name", () => {
    const message = { default: "for all", webhook: "for webhooks" };
    const publication = readPublication(standard, { message, message_structure: "json" }, undefined);
    expect([payloadFor(publication, "webhook"), payloadFor(publication, "queue")]).toEqual(["for webhooks", "for all"]);
    const text = readPublication(standard, { message: '{"default": "not looked into"}' }, undefined);
    expect(payloadFor(text, "queue")).toBe('{"default": "not looked into"}');
  });
});
