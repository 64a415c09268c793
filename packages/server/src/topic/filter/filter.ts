/**
 * A policy that can be asked (T10): whether a notification passes, and if not, why. Pure, and never throws: the policy was checked when it
 * was stored, and any notification can be held against it.
 */
import type { FilterDocument } from "./document.ts";
import type { FilterPolicy, FilterScope } from "./policy.ts";
import { readPolicy } from "./read-policy.ts";
import { compileRules } from "./rule.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

export { documentOf, type FilterAttribute, type FilterDocument, type FilterInput } from "./document.ts";
export type { FilterScope } from "./policy.ts";
export type { Failure, Verdict } from "./verdict.ts";

/** A compiled policy. */
export interface Filter {
  policy: FilterPolicy;
  matches(document: FilterDocument): boolean;
  /** As `matches`, with the keys that failed. Slower: for people who ask why. */
  explain(document: FilterDocument): Verdict;
}

/** Makes a filter of a checked policy. */
export function createFilter(policy: FilterPolicy): Filter {
  const holds = compileRules(policy.rules);
  return {
    policy,
    matches(document) {
      const object = document.of(policy.scope);
      return object !== undefined && holds(object);
    },
    explain: (document) => verdictOf(policy, document),
  };
}

/**
 * Checks and compiles a policy as it was given, a parsed JSON value. Throws the `invalid_request` fault of `readPolicy`, its path beginning
 * with `path` (`filter_policy` unless given).
 */
export function compileFilter(given: unknown, scope: FilterScope, path?: string): Filter {
  return createFilter(readPolicy(given, scope, path));
}
