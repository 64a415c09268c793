import { describe, expect, it } from "vitest";
import { documentOf, type FilterDocument } from "./document.ts";
import type { FilterScope } from "./filter.ts";
import { createMatcher } from "./matcher.ts";

interface Member {
  name: string;
  policy: unknown;
  scope: FilterScope;
}
const member = (name: string, policy: unknown, scope: FilterScope = "attributes"): Member => ({ name, policy, scope });
const stored = ({ policy, scope }: Member) => (policy === null ? null : { text: JSON.stringify(policy), scope });
/** An index of these members. */
function indexed(members: readonly Member[]) {
  const matcher = createMatcher<string>();
  const places = members.map((each) => matcher.add(each.name, stored(each)));
  return {
    ...matcher,
    match: (document: FilterDocument) => [...matcher.walk(document)].filter((name) => name !== null).sort(),
    places,
    matcher,
  };
}
const attributes = (given: Record<string, string>) => documentOf({ attributes: given, message: "not json" });
const message = (given: unknown) => documentOf({ attributes: null, message: JSON.stringify(given) });

describe("the index of a topic's filters", () => {
  it("T15: of 30,000 members with a value of their own, a notification evaluates the one that wants its value", () => {
    const members = Array.from({ length: 30_000 }, (_, at) => member(`s${at}`, { tenant: [`t${at}`], kind: ["order"] }));
    const matcher = indexed(members);
    const document = attributes({ tenant: "t17777", kind: "order" });
    expect(matcher.candidates(document)).toBe(1);
    expect(matcher.match(document)).toEqual(["s17777"]);
    expect(matcher.candidates(attributes({ tenant: "t", kind: "order" }))).toBe(0);
  });

  it("T15: members that want only a key, by whatever pattern, cost nothing to a notification without it", () => {
    const members = Array.from({ length: 1_000 }, (_, at) => member(`s${at}`, { [`key${at}`]: [{ prefix: "x" }, { wildcard: "*y*" }] }));
    const matcher = indexed(members);
    expect(matcher.candidates(attributes({ other: "x" }))).toBe(0);
    expect(matcher.candidates(attributes({ key5: "x" }))).toBe(1);
    expect(matcher.match(attributes({ key5: "x", key7: "z", key9: "ay" }))).toEqual(["s5", "s9"]);
  });

  it("T10, T15: unfiltered members are always reached, and policies that a missing key satisfies are always evaluated", () => {
    const matcher = indexed([
      member("all", null),
      member("absent", { a: [{ exists: false }] }),
      member("either", { $or: [{ a: ["x"] }, { b: [{ exists: false }] }] }),
    ]);
    expect(matcher.match(attributes({}))).toEqual(["absent", "all", "either"]);
    expect(matcher.match(attributes({ a: "x", b: "y" }))).toEqual(["all", "either"]);
    expect(matcher.match(attributes({ a: "y", b: "y" }))).toEqual(["all"]);
  });

  it("T15: branches of $or are filed under one key each, nested keys under their path, and lists under each element", () => {
    const matcher = indexed([
      member("or", { $or: [{ a: ["x"] }, { b: ["y"] }] }, "message"),
      member("nested", { order: { items: { sku: ["s1"] } } }, "message"),
      member("attribute", { a: ["x"] }),
    ]);
    expect(matcher.match(message({ b: ["z", "y"] }))).toEqual(["or"]);
    expect(matcher.match(message({ order: { items: [{ sku: "s0" }, { sku: "s1" }] } }))).toEqual(["nested"]);
    expect(matcher.candidates(message({ order: { items: [{ sku: "s2" }] }, a: "z", b: "x" }))).toBe(0);
    expect(matcher.match(documentOf({ attributes: { a: "x" }, message: '{"a":"x"}' }))).toEqual(["attribute", "or"]);
  });

  it("T15: members come and go: who has left is not reached, and an index of nobody is empty again", () => {
    const { matcher, places, match } = indexed([
      member("all", null),
      member("either", { $or: [{ a: ["x"] }, { a: ["x", "y"] }] }),
      member("deep", { a: { b: [{ prefix: "x" }], c: [1] } }, "message"),
      member("same", { a: ["x"] }),
    ]);
    const document = documentOf({ attributes: { a: "x" }, message: '{"a":{"b":"xy","c":1}}' });
    expect(match(document)).toEqual(["all", "deep", "either", "same"]);
    const [all, either, deep, same] = places as [(typeof places)[0], (typeof places)[0], (typeof places)[0], (typeof places)[0]];
    for (const [place, left] of [
      [either, ["all", "deep", "same"]],
      [all, ["deep", "same"]],
      [same, ["deep"]],
      [deep, []],
    ] as const) {
      matcher.remove(place);
      expect(match(document)).toEqual(left);
    }
    expect([matcher.size, matcher.candidates(document)]).toEqual([0, 0]);
    expect(matcher.keys).toBe(0);
  });

  it("T10: a topic without members reaches nobody", () => {
    expect(indexed([]).match(attributes({ a: "x" }))).toEqual([]);
  });
});
