/** Filters against a slow reading of the rules, on made-up policies and messages that often nearly match. */
import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { describe, expect, it } from "vitest";
import { isWithin, parseBlock } from "./cidr.ts";
import { documentOf } from "./document.ts";
import { compileFilter } from "./filter.ts";
import { createMatcher } from "./matcher.ts";
import { compileWildcard } from "./wildcard.ts";

const flat = (value: unknown): unknown[] => (Array.isArray(value) ? value.flatMap(flat) : [value]);
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const regExpOf = (pattern: string): RegExp =>
  new RegExp(
    `^${pattern.replace(/\\([*\\])|\*|[^\\*]/g, (all, escaped) => (all === "*" ? "[^]*" : `\\u{${(escaped ?? all).codePointAt(0).toString(16)}}`))}$`,
    "u",
  );

/** One condition of one present value that is no list. */
function fits(condition: unknown, value: unknown): boolean {
  if (!isObject(condition)) return condition === value;
  const [[operator, operand] = []] = Object.entries(condition);
  const text = typeof value === "string" ? value : undefined;
  if (operator === "prefix") return text?.startsWith(String(operand)) ?? false;
  if (operator === "suffix") return text?.endsWith(String(operand)) ?? false;
  if (operator === "equals-ignore-case") return text?.toLowerCase() === String(operand).toLowerCase();
  if (operator === "wildcard") return text !== undefined && regExpOf(String(operand)).test(text);
  if (operator === "anything-but") {
    if (isObject(value)) return false;
    if (!isObject(operand)) return !flat(operand).includes(value);
    const [[kind = "", texts] = []] = Object.entries(operand);
    return !flat(texts).some((each) => fits({ [kind]: each }, value));
  }
  if (operator === "numeric" && typeof value === "number") {
    const list = operand as [string, number, string?, number?];
    const one = (sign: string, bound: number) =>
      ({ "=": value === bound, "<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound })[sign] ?? false;
    return one(list[0], list[1]) && (list[2] === undefined || one(list[2], list[3] as number));
  }
  return false;
}

/** The rules as they are written, without thinking of time. */
function holds(policy: Record<string, unknown>, object: unknown): boolean {
  return Object.entries(policy).every(([key, below]) => {
    if (key === "$or") return (below as Record<string, unknown>[]).some((branch) => holds(branch, object));
    const value = isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
    if (!Array.isArray(below)) {
      const elements = flat(value);
      return (elements.length === 0 ? [undefined] : elements).some((element) => holds(below as Record<string, unknown>, element));
    }
    return below.some((condition) => {
      if (isObject(condition) && "exists" in condition) return condition.exists === (value !== undefined);
      return value !== undefined && flat(value).some((element) => fits(condition, element));
    });
  });
}

const key = fc.constantFrom("a", "b", "c");
const text = fc.string({ unit: fc.constantFrom("x", "y", "X", "*"), maxLength: 3 });
const some = fc.string({ unit: fc.constantFrom("x", "y", "X"), minLength: 1, maxLength: 2 });
const number = fc.integer({ min: -2, max: 2 });
const scalar = fc.oneof(text, number, fc.boolean(), fc.constant(null));
const pattern = fc.oneof(
  fc.record({ prefix: some }),
  fc.record({ suffix: some }),
  fc.record({ "equals-ignore-case": some }),
  fc.record({ wildcard: fc.string({ unit: fc.constantFrom("x", "*", "\\*"), minLength: 1, maxLength: 4 }) }),
);
const condition = fc.oneof(
  scalar,
  pattern,
  fc.record({
    "anything-but": fc.oneof(
      scalar,
      fc.array(scalar, { minLength: 1, maxLength: 2 }),
      pattern,
      fc.record({ prefix: fc.array(some, { minLength: 1, maxLength: 2 }) }),
    ),
  }),
  fc.record({ exists: fc.boolean() }),
  fc.record({ numeric: fc.tuple(fc.constantFrom("=", "<", "<=", ">", ">="), number) }),
  fc.record({ numeric: fc.tuple(fc.constantFrom(">", ">="), fc.constantFrom(-2, -1), fc.constantFrom("<", "<="), fc.constantFrom(0, 1)) }),
);
const conditions = fc.array(condition, { minLength: 1, maxLength: 2 });
const { policy } = fc.letrec<{ policy: Record<string, unknown>; below: unknown }>((tie) => ({
  policy: fc
    .tuple(
      fc.dictionary(key, tie("below"), { minKeys: 1, maxKeys: 2 }),
      fc.option(fc.array(tie("policy") as fc.Arbitrary<Record<string, unknown>>, { minLength: 1, maxLength: 2 }), {
        depthSize: "small",
        freq: 3,
      }),
    )
    .map(([keys, branches]) => (branches === null ? keys : { ...keys, $or: branches })),
  below: fc.oneof({ depthSize: "small" }, { arbitrary: conditions, weight: 4 }, { arbitrary: tie("policy"), weight: 1 }),
}));
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    { arbitrary: scalar, weight: 3 },
    { arbitrary: fc.array(tie("value"), { maxLength: 2 }), weight: 1 },
    { arbitrary: fc.dictionary(key, tie("value"), { maxKeys: 3 }), weight: 2 },
  ),
}));
const message = fc.dictionary(key, value, { maxKeys: 3 });

/** The filter of a made-up policy; `undefined` when it exceeds a bound, as a few do. */
function filterOf(given: Record<string, unknown>) {
  try {
    return compileFilter(given, "message");
  } catch {
    return undefined;
  }
}

describe("filters against the rules as they are written", () => {
  it("T10: every policy decides as the slow reading does, and its verdict names failures exactly when it does not match", () => {
    let matched = 0;
    fc.assert(
      fc.property(policy, message, (given, object) => {
        const filter = filterOf(given);
        fc.pre(filter !== undefined);
        const document = documentOf({ attributes: null, message: JSON.stringify(object) });
        const expected = holds(given, JSON.parse(JSON.stringify(object)));
        if (expected) matched += 1;
        expect(filter.matches(document)).toBe(expected);
        const verdict = filter.explain(document);
        expect(verdict.matched).toBe(expected);
        expect(verdict.failures.length > 0).toBe(!expected);
      }),
      { numRuns: 1_500 },
    );
    // both outcomes were really met
    expect(matched).toBeGreaterThan(25);
    expect(matched).toBeLessThan(1_475);
  });

  it("T10, T15: the index of a topic finds exactly the members whose filters match, also after some have left", () => {
    let reached = 0;
    const some = fc.array(fc.tuple(fc.option(policy, { freq: 10 }), fc.boolean()), { maxLength: 12 });
    fc.assert(
      fc.property(some, message, (given, object) => {
        const members = given.map(([each, leaves], no) => ({ no, leaves, policy: each, filter: each === null ? null : filterOf(each) }));
        const usable = members.filter(({ filter }) => filter !== undefined);
        const document = documentOf({ attributes: null, message: JSON.stringify(object) });
        const matcher = createMatcher<number>();
        const expected = (staying: typeof usable) =>
          staying.filter(({ filter }) => filter === null || filter?.matches(document) === true).map(({ no }) => no);
        const places = usable.map((each) =>
          matcher.add(each.no, each.policy === null ? null : { text: JSON.stringify(each.policy), scope: "message" }),
        );
        const walked = () => [...matcher.walk(document)].filter((no) => no !== null).sort((a, b) => a - b);
        const all = walked();
        expect(all).toEqual(expected(usable));
        usable.forEach(({ leaves }, at) => {
          if (leaves) matcher.remove(places[at] as (typeof places)[0]);
        });
        expect(walked()).toEqual(expected(usable.filter(({ leaves }) => !leaves)));
        reached += all.length;
      }),
      { numRuns: 500 },
    );
    expect(reached).toBeGreaterThan(100);
  });

  it("T10: a wildcard decides as the regular expression it stands for", () => {
    const letters = (unit: string[], maxLength: number) => fc.string({ unit: fc.constantFrom(...unit), maxLength });
    fc.assert(
      fc.property(letters(["a", "b", "*", "\\*", "\\\\"], 8), letters(["a", "b", "*", "\\"], 14), (given, against) => {
        expect(compileWildcard(given)(against)).toBe(regExpOf(given).test(against));
      }),
      { numRuns: 5_000 },
    );
  });

  it("T10: blocks of both families hold what a known reader of addresses says they hold", () => {
    // mapped addresses are IPv4 to us, and IPv6 to that reader, which moreover takes ::1.2.3.4 for one
    const mapped = (text: string) => text.includes(".") || /^[0:]+:ffff:/i.test(text);
    const [v4, v6] = [fc.ipV4(), fc.ipV6().filter((text) => !mapped(text))];
    fc.assert(
      fc.property(fc.oneof(v4, v6), fc.oneof(v4, v6), fc.integer({ min: 0, max: 128 }), (base, given, length) => {
        const known = ipaddr.parse(base);
        const prefix = known.kind() === "ipv4" ? length % 33 : length;
        // half of the addresses share the block's beginning
        const near = [ipaddr.fromByteArray(known.toByteArray().map((byte, at) => (at < prefix / 8 ? byte : byte ^ 1))).toString(), given];
        const block = parseBlock(`${base}/${prefix}`);
        for (const text of near.filter((each) => !each.includes(":") || !mapped(each))) {
          const address = ipaddr.parse(text);
          const expected = address.kind() === known.kind() && address.match(known, prefix);
          expect(block === undefined ? undefined : isWithin(text, block)).toBe(expected);
        }
      }),
      { numRuns: 500 },
    );
  });
});
