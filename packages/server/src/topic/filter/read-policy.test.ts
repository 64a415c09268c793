import { Fault } from "@millrace/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { FilterScope } from "./policy.ts";
import { readPolicy } from "./read-policy.ts";

/** The path and the rule that a policy is refused by. */
function refusal(policy: unknown, scope: FilterScope = "message"): string {
  try {
    readPolicy(policy, scope);
  } catch (error) {
    if (error instanceof Fault && error.code === "invalid_request") return `${error.details?.path}: ${error.details?.bound}`;
    throw error;
  }
  return "accepted";
}
const path = (policy: unknown, scope?: FilterScope): string => refusal(policy, scope).split(": ")[0] as string;

/** The values 0, 1, 2, … */
const values = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

describe("reading a policy", () => {
  it.each<[policy: unknown, path: string]>([
    [null, "filter_policy"],
    [[], "filter_policy"],
    ["text", "filter_policy"],
    [{}, "filter_policy"],
    [{ a: "x" }, "filter_policy.a"],
    [{ a: [] }, "filter_policy.a"],
    [{ a: {} }, "filter_policy.a"],
    [{ a: { b: [] } }, "filter_policy.a.b"],
    [{ a: ["x", [1]] }, "filter_policy.a.1"],
    [{ a: [{}] }, "filter_policy.a.0"],
    [{ a: [{ prefix: "x", suffix: "y" }] }, "filter_policy.a.0"],
    [{ a: [{ prefixx: "x" }] }, "filter_policy.a.0.prefixx"],
    [{ a: [{ prefix: 5 }] }, "filter_policy.a.0.prefix"],
    [{ a: [{ prefix: "" }] }, "filter_policy.a.0.prefix"],
    [{ a: [{ suffix: null }] }, "filter_policy.a.0.suffix"],
    [{ a: [{ "equals-ignore-case": ["x"] }] }, "filter_policy.a.0.equals-ignore-case"],
    [{ a: [{ wildcard: "a\\b" }] }, "filter_policy.a.0.wildcard"],
    [{ a: [{ wildcard: "a\\" }] }, "filter_policy.a.0.wildcard"],
    [{ a: [{ exists: "true" }] }, "filter_policy.a.0.exists"],
    [{ a: [{ cidr: "10.0.0.0/33" }] }, "filter_policy.a.0.cidr"],
    [{ a: [{ cidr: "10.0.0/8" }] }, "filter_policy.a.0.cidr"],
    [{ a: [{ cidr: "::/129" }] }, "filter_policy.a.0.cidr"],
    [{ a: [{ cidr: "::ffff:10.0.0.0/95" }] }, "filter_policy.a.0.cidr"],
    [{ a: [{ "anything-but": [] }] }, "filter_policy.a.0.anything-but"],
    [{ a: [{ "anything-but": ["x", {}] }] }, "filter_policy.a.0.anything-but.1"],
    [{ a: [{ "anything-but": { numeric: ["=", 1] } }] }, "filter_policy.a.0.anything-but.numeric"],
    [{ a: [{ "anything-but": { prefix: ["x", 1] } }] }, "filter_policy.a.0.anything-but.prefix.1"],
    [{ a: [{ "anything-but": { prefix: [] } }] }, "filter_policy.a.0.anything-but.prefix"],
    [{ a: [{ numeric: 5 }] }, "filter_policy.a.0.numeric"],
    [{ a: [{ numeric: [">"] }] }, "filter_policy.a.0.numeric"],
    [{ a: [{ numeric: ["!=", 5] }] }, "filter_policy.a.0.numeric.0"],
    [{ a: [{ numeric: [">", "5"] }] }, "filter_policy.a.0.numeric.1"],
    [{ a: [{ numeric: ["<", 5, ">", 1] }] }, "filter_policy.a.0.numeric.0"],
    [{ a: [{ numeric: [">", 1, "=", 5] }] }, "filter_policy.a.0.numeric.2"],
    [{ a: [{ numeric: [">", 5, "<", 5] }] }, "filter_policy.a.0.numeric"],
    [{ $or: { a: ["x"] } }, "filter_policy.$or"],
    [{ $or: [] }, "filter_policy.$or"],
    [{ $or: [{ a: ["x"] }, { b: [{ exists: 1 }] }] }, "filter_policy.$or.1.b.0.exists"],
    [{ a: { $or: [{ b: ["x"] }, "y"] } }, "filter_policy.a.$or.1"],
  ])("T10: %j is refused at %s", (policy, expected) => {
    expect(path(policy)).toBe(expected);
  });

  it("T10: keys nest in policies on the message only", () => {
    expect(path({ a: { b: ["x"] } }, "attributes")).toBe("filter_policy.a");
    expect(refusal({ a: { b: ["x"] } }, "message")).toBe("accepted");
    expect(refusal({ $or: [{ a: ["x"] }, { b: ["x"] }] }, "attributes")).toBe("accepted");
  });

  it("T10: at most 5 keys stand at the top", () => {
    const keys = (count: number) => Object.fromEntries(values(count).map((at) => [`k${at}`, ["x"]]));
    expect(refusal(keys(5))).toBe("accepted");
    expect(refusal(keys(6))).toBe("filter_policy: must have at most 5 keys at the top");
    expect(refusal({ a: keys(6) })).toBe("accepted");
  });

  it("T10: values of all keys multiply to at most 150 combinations, branches add up, and lists within anything-but count", () => {
    const bound = /^filter_policy: must have at most 150 combinations/;
    expect(refusal({ a: values(150) })).toBe("accepted");
    expect(refusal({ a: values(151) })).toMatch(bound);
    expect(refusal({ a: values(10), b: { c: values(15) } })).toBe("accepted");
    expect(refusal({ a: values(10), b: { c: values(16) } })).toMatch(bound);
    expect(refusal({ $or: [{ a: values(75) }, { b: values(75) }] })).toBe("accepted");
    expect(refusal({ $or: [{ a: values(75) }, { b: values(76) }] })).toMatch(bound);
    expect(refusal({ a: [{ "anything-but": values(150) }] })).toBe("accepted");
    expect(refusal({ a: [{ "anything-but": values(151) }] })).toMatch(bound);
    expect(refusal({ a: [{ "anything-but": { prefix: values(151).map(String) } }] })).toMatch(bound);
  });

  it("T10: a policy has at most 262,144 bytes of JSON", () => {
    const around = JSON.stringify({ a: [""] }).length;
    expect(refusal({ a: ["x".repeat(262_144 - around)] })).toBe("accepted");
    expect(refusal({ a: ["x".repeat(262_145 - around)] })).toBe("filter_policy: must be at most 262144 bytes of JSON");
    expect(refusal({ a: ["ü".repeat(131_072)] })).toBe("filter_policy: must be at most 262144 bytes of JSON");
  });

  it("T10: depth, keys in all and wildcards are bounded too", () => {
    const nested = (depth: number): unknown => values(depth).reduce<unknown>((below) => ({ a: below }), ["x"]);
    expect(refusal(nested(10))).toBe("accepted");
    expect(refusal(nested(11))).toBe(`filter_policy${".a".repeat(10)}: a policy is at most 10 levels deep`);
    expect(refusal(nested(100_000))).toMatch(/at most 10 levels deep$/);
    const below = (count: number) => ({ a: Object.fromEntries(values(count).map((at) => [`k${at}`, ["x"]])) });
    expect(refusal(below(99))).toBe("accepted");
    expect(refusal(below(100))).toBe("filter_policy.a.k99: a policy has at most 100 keys in all");
    const wildcards = (count: number) => [
      ...values(count - 1).map((at) => ({ wildcard: `*${at}*` })),
      { "anything-but": { wildcard: "*x*" } },
    ];
    expect(refusal({ a: [...wildcards(5), ...values(50).map((at) => ({ wildcard: `${at}*` }))] })).toBe("accepted");
    expect(refusal({ a: wildcards(3), b: wildcards(3) })).toBe(
      "filter_policy.b: a policy has at most 5 wildcards of more than one star in all",
    );
  });

  it("T10: whatever JSON comes, it is read or refused with a path", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom<FilterScope>("attributes", "message"), (policy, scope) => {
        expect(refusal(policy, scope)).toMatch(/^(accepted$|filter_policy)/);
      }),
      { numRuns: 300 },
    );
  });
});
