/**
 * What a notification must have for a policy to be able to match: an exact value at a path, or at least the path. An index over anchors finds
 * the few policies of a topic that are worth evaluating. Every notification that matches a policy has one of its anchors.
 */
import type { Condition, Rule, Scalar } from "./policy.ts";

/** A key path from the top, and the values of which one must be there; `null`: any value. */
export interface Anchor {
  path: readonly string[];
  values: readonly Scalar[] | null;
}

const needsPresence = (condition: Condition): boolean => condition.kind !== "exists" || condition.present;

function anchorOfKey(path: readonly string[], conditions: readonly Condition[]): Anchor | undefined {
  const values = conditions.flatMap((condition) => (condition.kind === "exact" ? [condition.value] : []));
  if (values.length === conditions.length) return { path, values };
  return conditions.every(needsPresence) ? { path, values: null } : undefined;
}

/**
 * Sets of anchors, each of which stands for the rules alone: a match has at least one anchor of every set. Empty when the rules can hold of
 * an empty notification (`exists: false`).
 */
export function anchorsOf(rules: readonly Rule[], above: readonly string[] = []): Anchor[][] {
  return rules.flatMap((rule): Anchor[][] => {
    if (rule.kind === "nested") return anchorsOf(rule.rules, [...above, rule.key]);
    if (rule.kind === "or") {
      // one set of each branch together: whichever branch holds, one of its anchors is there
      const sets = rule.branches.map((branch) => anchorsOf(branch, above)[0]);
      return sets.every((set) => set !== undefined) ? [sets.flat()] : [];
    }
    const anchor = anchorOfKey([...above, rule.key], rule.conditions);
    return anchor === undefined ? [] : [[anchor]];
  });
}
