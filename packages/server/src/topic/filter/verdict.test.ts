import { describe, expect, it } from "vitest";
import { compileFilter, documentOf } from "./filter.ts";

const explain = (policy: unknown, message: unknown) =>
  compileFilter(policy, "message").explain(
    documentOf({ attributes: null, message: typeof message === "string" ? message : JSON.stringify(message) }),
  );

describe("verdicts", () => {
  it("T16: every key that failed is named, with what it expected beside what it got", () => {
    const policy = { kind: ["order"], price: [{ numeric: [">", 100] }, 5], store: ["berlin"] };
    expect(explain(policy, { kind: "order", price: 50 })).toEqual({
      matched: false,
      failures: [
        { key: "price", reason: "different", expected: [{ numeric: [">", 100] }, 5], got: 50 },
        { key: "store", reason: "absent", expected: ["berlin"], got: null },
      ],
    });
    expect(explain(policy, { kind: "order", price: 5, store: "berlin" })).toEqual({ matched: true, failures: [] });
  });

  it("T16: nested keys are named by their path, of a list by the element that came closest", () => {
    const policy = { order: { items: { sku: ["a"], count: [2] } } };
    expect(explain(policy, { order: { items: [{ sku: "b" }, { sku: "a", count: 3 }] } }).failures).toEqual([
      { key: "order.items.count", reason: "different", expected: [2], got: 3 },
    ]);
    expect(explain(policy, { order: 5 }).failures.map(({ key, reason }) => [key, reason])).toEqual([
      ["order.items.sku", "absent"],
      ["order.items.count", "absent"],
    ]);
  });

  it("T16: where no branch of $or holds, each says what it lacked", () => {
    expect(explain({ $or: [{ a: [1] }, { b: { c: [null] } }] }, { a: 2, b: { c: false } }).failures).toEqual([
      { key: "$or.0.a", reason: "different", expected: [1], got: 2 },
      { key: "$or.1.b.c", reason: "different", expected: [null], got: false },
    ]);
  });

  it("T16: a message that is no JSON object is told as such", () => {
    for (const message of ["text", "[1]"])
      expect(explain({ a: [1] }, message)).toEqual({
        matched: false,
        failures: [{ key: "", reason: "not_an_object", expected: ["a message that is a JSON object"], got: null }],
      });
  });

  it("T16: a verdict stays small, whatever the policy and the message", () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `${at}${"x".repeat(1_000)}`);
    const policy = { a: names(100), b: Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, [1]])) };
    const verdict = explain(policy, { a: names(200).map((name) => `y${name}`), b: { k0: { deep: { deeper: { deepest: 1 } } } } });
    expect(verdict.failures).toHaveLength(10);
    expect(JSON.stringify(verdict).length).toBeLessThan(20_000);
    expect(verdict.failures[0]?.got).toHaveLength(21);
    expect(verdict.failures[1]?.got).toEqual({ deep: { deeper: "an object" } });
  });
});
