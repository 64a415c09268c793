import { describe, expect, it } from "vitest";
import { documentOf } from "./document.ts";
import { compileFilter, type FilterScope } from "./filter.ts";
import { createMatcher, type Member } from "./matcher.ts";

const member = (name: string, policy: unknown, scope: FilterScope = "attributes"): Member<string> => ({
  member: name,
  filter: policy === null ? null : compileFilter(policy, scope),
});
const attributes = (given: Record<string, string>) => documentOf({ attributes: given, message: "not json" });
const message = (given: unknown) => documentOf({ attributes: null, message: JSON.stringify(given) });

describe("the index of a topic's filters", () => {
  it("T15: of 100,000 members with a value of their own, a notification evaluates the one that wants its value", () => {
    const members = Array.from({ length: 100_000 }, (_, at) => member(`s${at}`, { tenant: [`t${at}`], kind: ["order"] }));
    const matcher = createMatcher(members);
    const document = attributes({ tenant: "t77777", kind: "order" });
    expect(matcher.candidates(document)).toBe(1);
    expect(matcher.match(document)).toEqual(["s77777"]);
    expect(matcher.candidates(attributes({ tenant: "t", kind: "order" }))).toBe(0);
  });

  it("T15: members that want only a key, by whatever pattern, cost nothing to a notification without it", () => {
    const members = Array.from({ length: 1_000 }, (_, at) => member(`s${at}`, { [`key${at}`]: [{ prefix: "x" }, { wildcard: "*y*" }] }));
    const matcher = createMatcher(members);
    expect(matcher.candidates(attributes({ other: "x" }))).toBe(0);
    expect(matcher.candidates(attributes({ key5: "x" }))).toBe(1);
    expect(matcher.match(attributes({ key5: "x", key7: "z", key9: "ay" }))).toEqual(["s5", "s9"]);
  });

  it("T10, T15: unfiltered members are always reached, and policies that a missing key satisfies are always evaluated", () => {
    const matcher = createMatcher([
      member("all", null),
      member("absent", { a: [{ exists: false }] }),
      member("either", { $or: [{ a: ["x"] }, { b: [{ exists: false }] }] }),
    ]);
    expect(matcher.match(attributes({}))).toEqual(["all", "absent", "either"]);
    expect(matcher.match(attributes({ a: "x", b: "y" }))).toEqual(["all", "either"]);
    expect(matcher.match(attributes({ a: "y", b: "y" }))).toEqual(["all"]);
  });

  it("T15: branches of $or are filed under one key each, nested keys under their path, and lists under each element", () => {
    const matcher = createMatcher([
      member("or", { $or: [{ a: ["x"] }, { b: ["y"] }] }, "message"),
      member("nested", { order: { items: { sku: ["s1"] } } }, "message"),
      member("attribute", { a: ["x"] }),
    ]);
    expect(matcher.match(message({ b: ["z", "y"] }))).toEqual(["or"]);
    expect(matcher.match(message({ order: { items: [{ sku: "s0" }, { sku: "s1" }] } }))).toEqual(["nested"]);
    expect(matcher.candidates(message({ order: { items: [{ sku: "s2" }] }, a: "z", b: "x" }))).toBe(0);
    expect(matcher.match(documentOf({ attributes: { a: "x" }, message: '{"a":"x"}' }))).toEqual(["or", "attribute"]);
  });

  it("T10: a topic without members reaches nobody", () => {
    expect(createMatcher([]).match(attributes({ a: "x" }))).toEqual([]);
  });
});
