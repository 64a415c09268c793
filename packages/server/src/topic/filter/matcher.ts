/**
 * All filters of a topic at once: which of its members does a notification reach? Members are filed under what their policies need most
 * rarely (an exact value, or a key at all), so that a notification costs what it carries plus its candidates, not all members (T15).
 */
import { type Anchor, anchorsOf } from "./anchor.ts";
import { anyElement, type FilterDocument, isObject, isScalar } from "./document.ts";
import type { Filter } from "./filter.ts";
import type { FilterScope, Scalar } from "./policy.ts";

/** One who may be reached. `filter` is `null` where everything passes. */
export interface Member<T> {
  member: T;
  filter: Filter | null;
}

/** The members of one topic at one version. */
export interface Matcher<T> {
  /** The members that a notification reaches, in the order in which they were given. */
  match(document: FilterDocument): T[];
  /** How many filters `match` evaluates for this notification; for tests and figures. */
  candidates(document: FilterDocument): number;
}

/** The index: a tree of keys, with the places (positions in the list of members) that wait at each. */
interface Node {
  below: Map<string, Node>;
  byValue: Map<Scalar, number[]>;
  anyValue: number[];
}

const emptyNode = (): Node => ({ below: new Map(), byValue: new Map(), anyValue: [] });

function nodeAt(root: Node, path: readonly string[]): Node {
  let node = root;
  for (const key of path) {
    let next = node.below.get(key);
    if (next === undefined) {
      next = emptyNode();
      node.below.set(key, next);
    }
    node = next;
  }
  return node;
}

/** The list under a key of a map, made when it is missing. */
function listAt<K>(lists: Map<K, number[]>, key: K): number[] {
  const known = lists.get(key);
  if (known !== undefined) return known;
  const made: number[] = [];
  lists.set(key, made);
  return made;
}

/** Where an anchor's members wait. */
function listsOf(root: Node, { path, values }: Anchor): number[][] {
  const node = nodeAt(root, path);
  return values === null ? [node.anyValue] : values.map((value) => listAt(node.byValue, value));
}

/** Adds the places that wait for something of this object to `found`. Recurses no deeper than the index, and so than the policies. */
function collect(node: Node, object: unknown, found: Set<number>): void {
  if (!isObject(object)) return;
  for (const [key, value] of Object.entries(object)) {
    const next = node.below.get(key);
    if (next === undefined) continue;
    for (const place of next.anyValue) found.add(place);
    anyElement(value, (element) => {
      if (isScalar(element)) for (const place of next.byValue.get(element) ?? []) found.add(place);
      else if (next.below.size > 0) collect(next, element, found);
      return false;
    });
  }
}

/** How crowded an anchor set is: with how many others a member would wait there. */
const crowd = (sets: readonly number[][]): number => sets.reduce((sum, list) => sum + list.length, 0);

/** Builds the index. Memory is a few numbers for each member beside its filter. */
export function createMatcher<T>(members: readonly Member<T>[]): Matcher<T> {
  const roots: Record<FilterScope, Node> = { attributes: emptyNode(), message: emptyNode() };
  const always: number[] = [];

  // first every anchor of every policy is filed, to learn how crowded each place is; then each policy stays at its emptiest
  const choices = members.map(({ filter }, place) => {
    if (filter === null) return [];
    const { scope, rules } = filter.policy;
    const sets = anchorsOf(rules).map((set) => set.flatMap((anchor) => listsOf(roots[scope], anchor)));
    for (const list of sets.flat()) list.push(place);
    return sets;
  });
  const chosen = choices.map((sets) =>
    sets.reduce<number[][] | undefined>((best, set) => (best === undefined || crowd(set) < crowd(best) ? set : best), undefined),
  );
  for (const list of choices.flat(2)) list.length = 0;
  chosen.forEach((set, place) => {
    if (set === undefined) always.push(place);
    else for (const list of set) list.push(place);
  });

  const candidatesOf = (document: FilterDocument): number[] => {
    const found = new Set(always);
    for (const scope of ["attributes", "message"] as const) {
      // a message is parsed only when somebody looks at it
      if (roots[scope].below.size > 0) collect(roots[scope], document.of(scope), found);
    }
    return [...found].sort((a, b) => a - b);
  };

  return {
    candidates: (document) => candidatesOf(document).length,
    match: (document) =>
      candidatesOf(document).flatMap((place) => {
        const { member, filter } = members[place] as Member<T>;
        return filter === null || filter.matches(document) ? [member] : [];
      }),
  };
}
