/**
 * Reads a policy as it was given into one that can be evaluated (T10). Everything wrong with it is a 400 that names the JSON path, so that
 * a policy which was accepted never fails later. The depth is bounded first: nothing here recurses further than that.
 */
import { invalid } from "@millrace/contract";
import { isObject } from "./document.ts";
import { bounds, type Condition, type FilterPolicy, type FilterScope, type Rule, type TextPattern } from "./policy.ts";
import { readConditions } from "./read-conditions.ts";
import { mustSearch } from "./wildcard.ts";

/** What is counted while a policy is read. */
interface Tally {
  keys: number;
  wildcards: number;
}

/** The conditions that an evaluation may have to try: values of a key add up, keys multiply, branches add up. */
function combinationsOf(rules: readonly Rule[]): number {
  let product = 1;
  for (const rule of rules) {
    if (rule.kind === "nested") product *= combinationsOf(rule.rules);
    else if (rule.kind === "or") product *= rule.branches.reduce((sum, branch) => sum + combinationsOf(branch), 0);
    else product *= rule.conditions.reduce((sum, condition) => sum + valuesIn(condition), 0);
    // enough to refuse it, and far from overflowing
    if (product > bounds.combinations) return bounds.combinations + 1;
  }
  return product;
}

/** A list within `anything-but` counts each of its values. */
function valuesIn(condition: Condition): number {
  if (condition.kind === "anything-but") return condition.values.length;
  return condition.kind === "anything-but-pattern" ? condition.patterns.length : 1;
}

/** The patterns of a condition that have to search a text. */
function searchesOf(condition: Condition): TextPattern[] {
  const patterns = condition.kind === "anything-but-pattern" ? condition.patterns : condition.kind === "wildcard" ? [condition] : [];
  return patterns.filter(({ kind, text }) => kind === "wildcard" && mustSearch(text));
}

function readBranches(given: unknown, path: string, scope: FilterScope, depth: number, tally: Tally): Rule {
  if (!Array.isArray(given) || given.length === 0) throw invalid(path, "must be a list of at least one policy", given);
  if (given.length > bounds.combinations) throw invalid(path, `must have at most ${bounds.combinations} policies`, given.length);
  return { kind: "or", branches: given.map((branch, at) => readRules(branch, `${path}.${at}`, scope, depth + 1, tally)) };
}

function readRule(key: string, given: unknown, path: string, scope: FilterScope, depth: number, tally: Tally): Rule {
  tally.keys += 1;
  if (tally.keys > bounds.keys) throw invalid(path, `a policy has at most ${bounds.keys} keys in all`);
  if (key === "$or") return readBranches(given, path, scope, depth, tally);
  if (Array.isArray(given)) {
    const conditions = readConditions(given, path);
    tally.wildcards += conditions.flatMap(searchesOf).length;
    if (tally.wildcards > bounds.wildcards)
      throw invalid(path, `a policy has at most ${bounds.wildcards} wildcards of more than one star in all`);
    return { kind: "key", key, conditions, given };
  }
  if (scope === "attributes") throw invalid(path, "must be a list of conditions", given);
  if (!isObject(given)) throw invalid(path, "must be a list of conditions, or a policy for what is nested below", given);
  return { kind: "nested", key, rules: readRules(given, path, scope, depth + 1, tally) };
}

function readRules(given: unknown, path: string, scope: FilterScope, depth: number, tally: Tally): Rule[] {
  if (!isObject(given)) throw invalid(path, "must be an object of conditions by key", given);
  if (depth > bounds.depth) throw invalid(path, `a policy is at most ${bounds.depth} levels deep`);
  const entries = Object.entries(given);
  if (entries.length === 0) throw invalid(path, "must have at least one key");
  return entries.map(([key, below]) => readRule(key, below, `${path}.${key}`, scope, depth, tally));
}

/**
 * The policy as rules. Throws the `invalid_request` fault of the first thing wrong, its path beginning with `path`: a shape that is no
 * policy, more than 5 keys at the top, 150 combinations, 262,144 bytes, 100 keys, 10 levels or 5 wildcards of more than one star.
 */
export function readPolicy(given: unknown, scope: FilterScope, path = "filter_policy"): FilterPolicy {
  if (isObject(given)) {
    const top = Object.keys(given).length;
    if (top > bounds.topKeys) throw invalid(path, `must have at most ${bounds.topKeys} keys at the top`, top);
  }
  const rules = readRules(given, path, scope, 1, { keys: 0, wildcards: 0 });
  const bytes = Buffer.byteLength(JSON.stringify(given));
  if (bytes > bounds.bytes) throw invalid(path, `must be at most ${bounds.bytes} bytes of JSON`, bytes);
  if (combinationsOf(rules) > bounds.combinations)
    throw invalid(path, `must have at most ${bounds.combinations} combinations: the numbers of values of all keys, multiplied`);
  return { scope, rules };
}
