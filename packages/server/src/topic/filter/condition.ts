/** The alternatives of one key as one test. Values that are named whole are found by hash; only the rest is tried one by one. */
import { isWithin, parseBlock } from "./cidr.ts";
import type { Condition, Scalar, TextPattern } from "./policy.ts";
import { compileWildcard } from "./wildcard.ts";

/** Whether a value that is there fits. */
type Test = (value: Scalar) => boolean;

/** The alternatives of one key: what an absent key, a present one of any value, and one value mean to them. */
export interface Alternatives {
  absent: boolean;
  present: boolean;
  fits: Test;
}

function textTest({ kind, text }: TextPattern): (value: string) => boolean {
  switch (kind) {
    case "prefix":
      return (value) => value.startsWith(text);
    case "suffix":
      return (value) => value.endsWith(text);
    case "equals-ignore-case": {
      const lower = text.toLowerCase();
      return (value) => value.toLowerCase() === lower;
    }
    case "wildcard":
      return compileWildcard(text);
  }
}

/** The test of what is neither named whole nor about presence. */
function testOf(condition: Exclude<Condition, { kind: "exact" | "exists" | "equals-ignore-case" }>): Test {
  switch (condition.kind) {
    case "anything-but": {
      const except = new Set(condition.values);
      return (value) => !except.has(value);
    }
    case "anything-but-pattern": {
      const tests = condition.patterns.map(textTest);
      return (value) => typeof value !== "string" || !tests.some((test) => test(value));
    }
    case "numeric": {
      const { low, high } = condition;
      return (value) =>
        typeof value === "number" &&
        (low === null || value > low.value || (low.inclusive && value === low.value)) &&
        (high === null || value < high.value || (high.inclusive && value === high.value));
    }
    case "cidr": {
      const block = parseBlock(condition.block);
      return (value) => typeof value === "string" && block !== undefined && isWithin(value, block);
    }
    default: {
      const test = textTest(condition);
      return (value) => typeof value === "string" && test(value);
    }
  }
}

/** Compiles the alternatives of a key. */
export function compileConditions(conditions: readonly Condition[]): Alternatives {
  const exact = new Set<Scalar>();
  const lower = new Set<string>();
  const tests: Test[] = [];
  let absent = false;
  let present = false;
  for (const condition of conditions) {
    if (condition.kind === "exact") exact.add(condition.value);
    else if (condition.kind === "equals-ignore-case") lower.add(condition.text.toLowerCase());
    else if (condition.kind !== "exists") tests.push(testOf(condition));
    else if (condition.present) present = true;
    else absent = true;
  }
  // lowered once for all alternatives: a long text is not lowered for each
  if (lower.size > 0) tests.push((value) => typeof value === "string" && lower.has(value.toLowerCase()));
  const [only] = tests;
  let fits: Test = (value) => exact.has(value) || tests.some((test) => test(value));
  if (only === undefined) fits = (value) => exact.has(value);
  else if (tests.length === 1) fits = (value) => exact.has(value) || only(value);
  return { absent, present, fits };
}
