import { describe, expect, it } from "vitest";
import { compileFilter, documentOf, type FilterAttribute } from "./filter.ts";

/** Whether a policy on attributes passes these. */
const passes = (policy: unknown, attributes: Record<string, FilterAttribute>): boolean =>
  compileFilter(policy, "attributes").matches(documentOf({ attributes, message: "" }));
/** Whether a policy on the message passes it. */
const passesMessage = (policy: unknown, message: unknown): boolean =>
  compileFilter(policy, "message").matches(documentOf({ attributes: null, message: JSON.stringify(message) }));

describe("filters on attributes", () => {
  it("T10: keys are all required, values of a key are alternatives, and text is compared exactly", () => {
    const policy = { store: ["berlin", "paris"], event: ["order"] };
    expect(passes(policy, { store: "paris", event: "order" })).toBe(true);
    expect(passes(policy, { store: { type: "String", value: "berlin" }, event: "order", more: "x" })).toBe(true);
    expect(passes(policy, { store: "paris" })).toBe(false);
    expect(passes(policy, { store: "Paris", event: "order" })).toBe(false);
    expect(passes(policy, { store: "", event: "order" })).toBe(false);
  });

  it("T10: Number attributes compare as numbers, String attributes never do", () => {
    expect(passes({ price: [100] }, { price: { type: "Number", value: "100.0" } })).toBe(true);
    expect(passes({ price: [100] }, { price: { type: "Number", value: 100 } })).toBe(true);
    expect(passes({ price: [100] }, { price: "100" })).toBe(false);
    expect(passes({ price: ["100"] }, { price: { type: "Number", value: "100" } })).toBe(false);
    expect(passes({ price: [{ numeric: [">", 9] }] }, { price: { type: "Number", value: "10" } })).toBe(true);
    expect(passes({ price: [{ numeric: [">", 9] }] }, { price: { type: "Number", value: " " } })).toBe(false);
    expect(passes({ price: [{ exists: true }] }, { price: { type: "Number", value: "ten" } })).toBe(true);
  });

  it("T10: a String.Array passes if any of its elements does, given as a list or as its JSON", () => {
    const policy = { tags: ["new", 5, true, null] };
    for (const value of [["old", "new"], '["old","new"]', [5], "[true]", [[null]]])
      expect(passes(policy, { tags: { type: "String.Array", value } })).toBe(true);
    for (const value of [[], ["old"], "not json", '"new"', ["5"]])
      expect(passes(policy, { tags: { type: "String.Array", value } })).toBe(false);
    expect(passes({ tags: [{ "anything-but": "old" }] }, { tags: { type: "String.Array", value: ["old", "new"] } })).toBe(true);
    expect(passes({ tags: [{ "anything-but": "old" }] }, { tags: { type: "String.Array", value: ["old"] } })).toBe(false);
  });

  it("T10: a binary attribute exists, and passes nothing else", () => {
    const attributes = { data: { type: "Binary", value: "AAEC" } };
    expect(passes({ data: [{ exists: true }] }, attributes)).toBe(true);
    expect(passes({ data: ["AAEC"] }, attributes)).toBe(false);
    expect(passes({ data: [{ "anything-but": "x" }] }, attributes)).toBe(false);
  });
});

describe("operators", () => {
  const rows: [name: string, condition: unknown, fits: unknown[], not: unknown[]][] = [
    ["a string", "a", ["a", ["b", "a"]], ["A", "", 1, null, ["b"], [], {}]],
    ["a number", 1.5, [1.5, [1.5]], ["1.5", 1, null, true]],
    ["zero, whatever its sign", 0, [0, -0], ["0", false, null, ""]],
    ["a boolean", true, [true], ["true", 1, false]],
    ["null", null, [null, [1, null]], ["null", 0, "", false, []]],
    ["prefix", { prefix: "ab" }, ["ab", "abc", ["x", "abd"]], ["a", "cab", "AB", 1, null]],
    ["suffix", { suffix: ".png" }, [".png", "a.png"], ["png", ".png ", 1]],
    ["equals-ignore-case", { "equals-ignore-case": "Grüße" }, ["grüße", "GRÜßE", "Grüße"], ["grüsse", "", 1, null]],
    ["anything-but one", { "anything-but": "a" }, ["b", "", 1, null, true, ["a", "b"]], ["a", ["a"], []]],
    ["anything-but several", { "anything-but": ["a", 1, null] }, ["b", "1", 2, false], ["a", 1, null]],
    ["anything-but a prefix", { "anything-but": { prefix: "ab" } }, ["ba", 1, "a"], ["ab", "abc"]],
    ["anything-but prefixes", { "anything-but": { prefix: ["a", "b"] } }, ["c", ""], ["ax", "b"]],
    ["anything-but a suffix", { "anything-but": { suffix: "x" } }, ["xy", null], ["x", "yx"]],
    ["anything-but, whatever the case", { "anything-but": { "equals-ignore-case": ["A", "b"] } }, ["c", 1], ["a", "A", "B"]],
    ["anything-but a wildcard", { "anything-but": { wildcard: "*.tmp" } }, ["a.txt"], ["a.tmp", ".tmp"]],
    ["=", { numeric: ["=", 5] }, [5, 5.0], ["5", 5.0001, null]],
    ["<", { numeric: ["<", 5] }, [4.99, -1e300], [5, 6, "4"]],
    ["<=", { numeric: ["<=", 5] }, [5, 4], [5.01]],
    [">", { numeric: [">", 5] }, [5.01, 1e300], [5, 4]],
    [">=", { numeric: [">=", 5] }, [5, 6], [4.99]],
    ["a range", { numeric: [">", 0, "<=", 10] }, [0.1, 10], [0, 10.1, "5"]],
    ["a range of one number", { numeric: [">=", 5, "<=", 5] }, [5], [4, 6]],
    ["exists", { exists: true }, [null, "", 0, [], {}, false], [undefined]],
    ["does not exist", { exists: false }, [undefined], [null, "", [], {}]],
    [
      "a block of IPv4",
      { cidr: "10.1.0.0/16" },
      ["10.1.2.3", "::ffff:10.1.2.3", ["x", "10.1.0.0"]],
      ["10.2.0.0", "10.1.2", "010.1.2.3", "10.1.2.256", 1, ""],
    ],
    ["one address", { cidr: "10.1.2.3" }, ["10.1.2.3"], ["10.1.2.4"]],
    [
      "a block of IPv6",
      { cidr: "2001:db8::/33" },
      ["2001:db8::1", "2001:DB8:0:0::1", "2001:db8::", "2001:db8::1.2.3.4", "2001:db8:1:2:3:4:5:6"],
      ["2001:db8:8000::", "10.0.0.1", "2001:db8::1%eth0", "2001:db8::1::", "2001:db8:12345::", "2001:db8:1:2:3:4:5", ":::"],
    ],
    ["every address of a family", { cidr: "0.0.0.0/0" }, ["1.2.3.4"], ["::1", "x"]],
    ["an IPv4-mapped block", { cidr: "::ffff:10.0.0.0/104" }, ["10.9.9.9"], ["11.0.0.0"]],
    ["wildcard", { wildcard: "a*c" }, ["ac", "abc", "a*c", "acc"], ["a", "abcd", "xac", 1]],
    ["wildcard in the middle and around", { wildcard: "*/v1/*.json" }, ["/v1/.json", "x/v1/y.json"], ["/v1.json", "/v1/json"]],
    ["wildcards whose pieces must not overlap", { wildcard: "aba*aba" }, ["abaaba", "abaxaba"], ["aba", "ababa"]],
    ["wildcards that come one after another", { wildcard: "a**b" }, ["ab", "axb"], ["a"]],
    ["an escaped star and backslash", { wildcard: "\\*\\\\*" }, ["*\\", "*\\x"], ["x\\", "**"]],
    ["a wildcard without a star", { wildcard: "abc" }, ["abc"], ["abcd", "ab"]],
  ];
  it.each(rows)("T10: %s", (_, condition, fits, not) => {
    const message = (value: unknown) => (value === undefined ? { other: 1 } : { key: value });
    for (const value of fits) expect([value, passesMessage({ key: [condition] }, message(value))]).toEqual([value, true]);
    for (const value of not) expect([value, passesMessage({ key: [condition] }, message(value))]).toEqual([value, false]);
  });

  it("T10: alternatives of different operators stand beside each other", () => {
    const policy = { key: ["a", { prefix: "b" }, { exists: false }, { numeric: [">", 5] }] };
    for (const message of [{ key: "a" }, { key: "bx" }, {}, { key: 6 }]) expect(passesMessage(policy, message)).toBe(true);
    for (const message of [{ key: "c" }, { key: 5 }, { key: null }]) expect(passesMessage(policy, message)).toBe(false);
  });
});

describe("filters on the message", () => {
  it("T10: keys nest, in objects and in lists of objects, of which one must pass as a whole", () => {
    const policy = { order: { items: { sku: ["a"], count: [{ numeric: [">", 1] }] } } };
    expect(passesMessage(policy, { order: { items: { sku: "a", count: 2 } } })).toBe(true);
    expect(passesMessage(policy, { order: { items: [{ sku: "b" }, { sku: "a", count: 2 }] } })).toBe(true);
    expect(passesMessage(policy, { order: [[{ items: [[{ sku: ["x", "a"], count: 2 }]] }]] })).toBe(true);
    expect(
      passesMessage(policy, {
        order: {
          items: [
            { sku: "a", count: 1 },
            { sku: "b", count: 2 },
          ],
        },
      }),
    ).toBe(false);
    expect(passesMessage(policy, { order: { items: "a" } })).toBe(false);
    expect(passesMessage(policy, {})).toBe(false);
  });

  it("T10: what is below an absent key, an empty list or a plain value does not exist", () => {
    const policy = { a: { b: [{ exists: false }] } };
    for (const message of [{}, { a: 1 }, { a: null }, { a: [] }, { a: {} }, { a: [{ b: 1 }, {}] }])
      expect(passesMessage(policy, message)).toBe(true);
    for (const message of [{ a: { b: null } }, { a: [{ b: 1 }] }]) expect(passesMessage(policy, message)).toBe(false);
  });

  it("T10: of the branches of $or one must hold, beside the other keys, at any depth", () => {
    const policy = {
      kind: ["order"],
      $or: [{ price: [{ numeric: [">", 100] }] }, { customer: { tier: ["gold"], $or: [{ a: [1] }, { b: [2] }] } }],
    };
    expect(passesMessage(policy, { kind: "order", price: 101 })).toBe(true);
    expect(passesMessage(policy, { kind: "order", price: 1, customer: { tier: "gold", b: 2 } })).toBe(true);
    expect(passesMessage(policy, { kind: "order", customer: { tier: "gold", b: 1 } })).toBe(false);
    expect(passesMessage(policy, { kind: "other", price: 101 })).toBe(false);
    expect(passesMessage(policy, { kind: "order" })).toBe(false);
  });

  it("T10: a message that is no JSON object passes no policy, not even one that wants keys absent", () => {
    const filter = compileFilter({ a: [{ exists: false }] }, "message");
    for (const message of ["", "text", "[1]", "null", '"a"', "{"])
      expect(filter.matches(documentOf({ attributes: null, message }))).toBe(false);
    expect(filter.matches(documentOf({ attributes: null, message: "{}" }))).toBe(true);
  });

  it("T10: names that objects have by birth are keys like others", () => {
    const message = '{"__proto__": "x", "a": {"constructor": 1}}';
    const matches = (policy: string) => compileFilter(JSON.parse(policy), "message").matches(documentOf({ attributes: null, message }));
    expect(matches('{"__proto__": ["x"]}')).toBe(true);
    expect(matches('{"a": {"constructor": [1]}}')).toBe(true);
    expect(matches('{"toString": [{"exists": true}]}')).toBe(false);
    expect(passes({ constructor: [{ exists: true }] }, {})).toBe(false);
  });
});

describe("hostile messages", () => {
  /** Milliseconds of processor time, the least of several runs: what the work takes, without what else the machine does. */
  const fastest = (work: () => void): number =>
    Math.min(
      ...Array.from({ length: 15 }, () => {
        const start = process.cpuUsage();
        work();
        const { user, system } = process.cpuUsage(start);
        return (user + system) / 1000;
      }),
    );
  const long = JSON.parse(JSON.stringify("a".repeat(262_144)));

  it.each([
    ["stars between equal letters", `${"*a".repeat(5_000)}*b*`],
    ["a long piece that fails at its beginning", `*b${"a".repeat(100_000)}*`],
    ["a long piece that fails at its end", `*${"a".repeat(100_000)}b*`],
    ["pieces that nearly fit", `*${"aaaaaaaab*".repeat(1_000)}`],
    ["a piece as long as half the text, twice", `*${"a".repeat(131_072)}*${"a".repeat(131_000)}b*`],
  ])("T10: 256 KiB against %s take less than 10 ms", (_, pattern) => {
    const filter = compileFilter({ key: [{ wildcard: pattern }] }, "attributes");
    const document = documentOf({ attributes: { key: long }, message: "" });
    expect(filter.matches(document)).toBe(false);
    expect(fastest(() => filter.matches(document))).toBeLessThan(10);
  });

  it("T10: as many wildcards as a policy may have take less than 10 ms for 256 KiB", () => {
    const filter = compileFilter({ key: Array.from({ length: 5 }, (_, at) => ({ wildcard: `*aaaaaaaaab${at}*` })) }, "attributes");
    const document = documentOf({ attributes: { key: long }, message: "" });
    expect(fastest(() => filter.matches(document))).toBeLessThan(10);
  });

  it("T10: as many alternatives that ignore the case as a policy may have take less than 10 ms for 256 KiB", () => {
    const names = Array.from({ length: 150 }, (_, at) => `name ${at}`);
    const document = documentOf({ attributes: { key: long }, message: "" });
    for (const conditions of [
      names.map((name) => ({ "equals-ignore-case": name })),
      [{ "anything-but": { "equals-ignore-case": names } }],
    ]) {
      const filter = compileFilter({ key: conditions }, "attributes");
      expect(fastest(() => filter.matches(document))).toBeLessThan(10);
    }
  });

  it("T10: lists nested as deep as the message is long are walked", () => {
    const message = `{"key": ${"[".repeat(120_000)}"a"${"]".repeat(120_000)}}`;
    const deep = documentOf({ attributes: null, message });
    expect(compileFilter({ key: ["a"] }, "message").matches(deep)).toBe(true);
    expect(compileFilter({ key: { below: ["a"] } }, "message").matches(deep)).toBe(false);
    expect(compileFilter({ key: ["b"] }, "message").explain(deep).failures).toHaveLength(1);
  });

  it("T10: tens of thousands of elements against every kind of alternative take time in proportion", () => {
    const alternatives = Array.from({ length: 140 }, (_, at) => ({ "equals-ignore-case": `x${at}` }));
    const filter = compileFilter({ key: [...alternatives, { cidr: "10.0.0.0/8" }, { suffix: "zz" }] }, "attributes");
    const elements = (count: number) =>
      documentOf({ attributes: { key: { type: "String.Array", value: new Array(count).fill("300.1.1.1") } }, message: "" });
    const [few, many] = [elements(4_000), elements(24_000)];
    const ratio = fastest(() => filter.matches(many)) / fastest(() => filter.matches(few));
    expect(ratio).toBeLessThan(20);
  });
});
