/**
 * What a notification must have for a policy to be able to match: an exact value at a path, or at least the path. An index over anchors finds
 * the few policies of a topic that are worth evaluating. Every notification that matches a policy has one of its anchors. Read from the
 * policy as it is stored: it was checked then, and most policies of a topic are never evaluated.
 */
import { isObject, isScalar } from "./document.ts";
import type { Scalar } from "./policy.ts";

/** A key path from the top, and the values of which one must be there; `null`: any value. */
export interface Anchor {
  path: readonly string[];
  values: readonly Scalar[] | null;
}

const allowsAbsence = (condition: unknown): boolean => isObject(condition) && condition.exists === false;

/**
 * Sets of anchors, each of which stands for the whole policy: a match has at least one anchor of every set. Empty when the policy can match a
 * notification that has nothing at all (`exists: false`).
 */
export function anchorsOf(policy: unknown, above: readonly string[] = []): Anchor[][] {
  return Object.entries(policy ?? {}).flatMap(([key, below]): Anchor[][] => {
    const path = [...above, key];
    if (!Array.isArray(below)) return anchorsOf(below, path);
    if (key === "$or") {
      // one set of each branch together: whichever branch holds, one of its anchors is there
      const sets = below.map((branch) => anchorsOf(branch, above)[0]);
      return sets.every((set) => set !== undefined) ? [sets.flat()] : [];
    }
    if (below.every(isScalar)) return [[{ path, values: below }]];
    return below.some(allowsAbsence) ? [] : [[{ path, values: null }]];
  });
}
