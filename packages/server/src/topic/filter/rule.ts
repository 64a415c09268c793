/**
 * Rules as functions: every key must hold, a key holds by any of its conditions, a list by any of its elements. One evaluation visits each
 * part of a message a bounded number of times, and recurses no deeper than the policy does.
 */
import { compileConditions } from "./condition.ts";
import { anyElement, isScalar, valueAt } from "./document.ts";
import type { Rule } from "./policy.ts";

/** Whether something holds of an object; of anything else every key is absent. */
export type Holds = (object: unknown) => boolean;

/** One rule as a function. */
export function compileRule(rule: Rule): Holds {
  if (rule.kind === "nested") {
    const { key } = rule;
    const holds = compileRules(rule.rules);
    return (object) => {
      const below = valueAt(object, key);
      return Array.isArray(below) && below.length === 0 ? holds(undefined) : anyElement(below, holds);
    };
  }
  if (rule.kind === "or") {
    const branches = rule.branches.map(compileRules);
    return (object) => branches.some((holds) => holds(object));
  }
  const { key } = rule;
  const { absent, present, fits } = compileConditions(rule.conditions);
  const elementFits = (element: unknown): boolean => isScalar(element) && fits(element);
  return (object) => {
    const value = valueAt(object, key);
    if (value === undefined) return absent;
    return present || anyElement(value, elementFits);
  };
}

/** All of several rules as one function. */
export function compileRules(rules: readonly Rule[]): Holds {
  const all = rules.map(compileRule);
  const [only] = all;
  if (all.length === 1 && only !== undefined) return only;
  return (object) => all.every((holds) => holds(object));
}
