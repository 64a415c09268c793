/**
 * Why a notification does or does not pass a policy: the keys that failed, what they expected and what they got (T16). Bounded, whatever
 * the policy and the message: a verdict is for people.
 */
import { type FilterDocument, valueAt } from "./document.ts";
import type { FilterPolicy, Rule } from "./policy.ts";
import { compileRule } from "./rule.ts";

/** One key that failed. */
export interface Failure {
  /** The path in the policy, dotted: `store.country`, or `$or.1.price` within a branch; empty for the message itself. */
  key: string;
  reason: "absent" | "different" | "not_an_object";
  /** The key's conditions as the policy has them; at most 20, and long texts cut. */
  expected: unknown[];
  /** The value that came, cut; `null` when the key was absent. */
  got: unknown;
}

/** What a filter says about one notification. `failures`: at most 10, none when it matched. */
export interface Verdict {
  matched: boolean;
  failures: Failure[];
}

const maxFailures = 10;
const maxShown = 20;
const maxText = 200;

/** A value cut for showing: long texts, long lists, and whatever is nested. */
function shown(value: unknown, depth = 2): unknown {
  if (typeof value === "string") return value.length <= maxText ? value : `${value.slice(0, maxText - 1).replace(/[\ud800-\udbff]$/, "")}…`;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    if (depth === 0) return `a list of ${value.length}`;
    const most = value.slice(0, maxShown).map((element) => shown(element, depth - 1));
    return value.length <= maxShown ? most : [...most, `… ${value.length - maxShown} more`];
  }
  if (depth === 0) return "an object";
  const entries = Object.entries(value);
  return Object.fromEntries(entries.slice(0, maxShown).map(([key, below]) => [key, shown(below, depth - 1)]));
}

/** Of a list of objects, the one that fails the fewest keys is the one that was meant. */
function failuresBelow(rules: readonly Rule[], below: unknown, path: string): Failure[] {
  const elements: unknown[] = Array.isArray(below) && below.length > 0 ? below.slice(0, maxShown) : [below];
  const [best = []] = elements.map((element) => failuresOf(rules, element, path)).sort((a, b) => a.length - b.length);
  return best;
}

function failuresOf(rules: readonly Rule[], object: unknown, path = ""): Failure[] {
  return rules.flatMap((rule): Failure[] => {
    if (compileRule(rule)(object)) return [];
    if (rule.kind === "or") return rule.branches.flatMap((branch, at) => failuresOf(branch, object, `${path}$or.${at}.`));
    const key = path + rule.key;
    const value = valueAt(object, rule.key);
    if (rule.kind === "nested") return failuresBelow(rule.rules, value, `${key}.`);
    const expected = rule.given.slice(0, maxShown).map((condition) => shown(condition, 3));
    return [{ key, reason: value === undefined ? "absent" : "different", expected, got: value === undefined ? null : shown(value) }];
  });
}

/** Holds a notification against a policy and says which keys fail. */
export function verdictOf(policy: FilterPolicy, document: FilterDocument): Verdict {
  const object = document.of(policy.scope);
  if (object === undefined)
    return { matched: false, failures: [{ key: "", reason: "not_an_object", expected: ["a message that is a JSON object"], got: null }] };
  const failures = failuresOf(policy.rules, object).slice(0, maxFailures);
  return { matched: failures.length === 0, failures };
}
