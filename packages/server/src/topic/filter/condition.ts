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

function patternTest({ kind, text }: TextPattern): (value: string) => boolean {
  if (kind === "prefix") return (value) => value.startsWith(text);
  return kind === "suffix" ? (value) => value.endsWith(text) : compileWildcard(text);
}

/** Whether a text fits any of several patterns. It is lowered once for all that ignore the case: it may be long. */
function textTest(patterns: readonly TextPattern[]): (value: string) => boolean {
  const lower = new Set(patterns.flatMap(({ kind, text }) => (kind === "equals-ignore-case" ? [text.toLowerCase()] : [])));
  const tests = patterns.filter(({ kind }) => kind !== "equals-ignore-case").map(patternTest);
  if (lower.size > 0) tests.push((value) => lower.has(value.toLowerCase()));
  const [only] = tests;
  return tests.length === 1 && only !== undefined ? only : (value) => tests.some((test) => test(value));
}

/** The test of what is neither named whole nor about presence. */
function testOf(condition: Exclude<Condition, TextPattern | { kind: "exact" | "exists" }>): Test {
  switch (condition.kind) {
    case "anything-but": {
      const except = new Set(condition.values);
      return (value) => !except.has(value);
    }
    case "anything-but-pattern": {
      const fits = textTest(condition.patterns);
      return (value) => typeof value !== "string" || !fits(value);
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
  }
}

const isPattern = (condition: Condition): condition is TextPattern => "text" in condition;

/** Compiles the alternatives of a key. */
export function compileConditions(conditions: readonly Condition[]): Alternatives {
  const exact = new Set<Scalar>();
  const tests: Test[] = [];
  let absent = false;
  let present = false;
  for (const condition of conditions) {
    if (condition.kind === "exact") exact.add(condition.value);
    else if (condition.kind === "exists") {
      if (condition.present) present = true;
      else absent = true;
    } else if (!isPattern(condition)) tests.push(testOf(condition));
  }
  const patterns = conditions.filter(isPattern);
  if (patterns.length > 0) {
    const textFits = textTest(patterns);
    tests.push((value) => typeof value === "string" && textFits(value));
  }
  const [only] = tests;
  let fits: Test = (value) => exact.has(value) || tests.some((test) => test(value));
  if (only === undefined) fits = (value) => exact.has(value);
  else if (tests.length === 1) fits = (value) => exact.has(value) || only(value);
  return { absent, present, fits };
}
