/**
 * All filters of a topic at once: which of its members does a notification reach? A member is filed under what its policy needs and fewest
 * others do (an exact value, or a key at all), so that a notification costs what it carries plus its candidates, not all members (T15). A
 * policy is compiled when it first is a candidate.
 */
import { type Anchor, anchorsOf } from "./anchor.ts";
import { anyElement, type FilterDocument, isObject, isScalar } from "./document.ts";
import { compileFilter, type Filter } from "./filter.ts";
import type { FilterScope, Scalar } from "./policy.ts";

/** A policy that was checked when it was stored, as JSON text. */
export interface StoredPolicy {
  text: string;
  scope: FilterScope;
}

/** A member's place; `remove` wants it back. */
export interface Place<T> {
  readonly member: T;
  readonly policy: StoredPolicy | null;
  filter: Filter | null;
  readonly lists: readonly Place<T>[][];
}

/** The members of one topic, coming and going. */
export interface Matcher<T> {
  readonly size: number;
  /** How many keys and values the index knows; none when nobody needs any. */
  readonly keys: number;
  /** Without a policy everything reaches the member. */
  add(member: T, policy: StoredPolicy | null): Place<T>;
  remove(place: Place<T>): void;
  /**
   * Evaluates a notification's candidates one after the other, in no order: yields each that it reaches, and `null` for each that it does
   * not, so that the caller may rest between two. Nobody may come or go meanwhile.
   */
  walk(document: FilterDocument): Generator<T | null>;
  /** How many members `walk` looks at for this notification; for tests and figures. */
  candidates(document: FilterDocument): number;
}

/** The index: a tree of keys, with the members that wait at each. */
interface Node<T> {
  below: Map<string, Node<T>>;
  byValue: Map<Scalar, Place<T>[]>;
  anyValue: Place<T>[];
}

const emptyNode = <T>(): Node<T> => ({ below: new Map(), byValue: new Map(), anyValue: [] });

/** The value of a key in a map, made when it is missing. */
function valueIn<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** Adds the members that wait for something of this object to `found`. Recurses no deeper than the index, and so than the policies. */
function collect<T>(node: Node<T>, object: unknown, found: Set<Place<T>>): void {
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

const keysIn = <T>(node: Node<T>): number => node.byValue.size + [...node.below.values()].reduce((sum, next) => sum + 1 + keysIn(next), 0);

/** Removes what nobody waits at any more. Answers whether the node itself is such. */
function prune<T>(node: Node<T>, path: readonly string[], values: readonly Scalar[] | null): boolean {
  const [key, ...rest] = path;
  if (key === undefined) for (const value of values ?? []) if (node.byValue.get(value)?.length === 0) node.byValue.delete(value);
  const next = key === undefined ? undefined : node.below.get(key);
  if (key !== undefined && next !== undefined && prune(next, rest, values)) node.below.delete(key);
  return node.below.size === 0 && node.byValue.size === 0 && node.anyValue.length === 0;
}

/** Makes an index without members. Its memory is a few references for each member. */
export function createMatcher<T>(): Matcher<T> {
  const roots: Record<FilterScope, Node<T>> = { attributes: emptyNode(), message: emptyNode() };
  const always: Place<T>[] = [];
  let size = 0;

  /** Where members of an anchor wait. */
  const listsAt = (scope: FilterScope, path: readonly string[], values: readonly Scalar[] | null): Place<T>[][] => {
    const node = path.reduce((at, key) => valueIn(at.below, key, emptyNode<T>), roots[scope]);
    return values === null ? [node.anyValue] : [...new Set(values)].map((value) => valueIn(node.byValue, value, () => []));
  };
  /** The emptiest of the places that would do, none when nothing is needed. */
  const emptiest = (scope: FilterScope, sets: readonly Anchor[][]): Place<T>[][] => {
    const crowd = (lists: readonly Place<T>[][]): number => lists.reduce((sum, list) => sum + list.length, 0);
    const choices = sets.map((set) => set.flatMap(({ path, values }) => listsAt(scope, path, values)));
    return choices.reduce<Place<T>[][]>((best, lists) => (best.length === 0 || crowd(lists) < crowd(best) ? lists : best), []);
  };
  /** Forgets those places at which nobody waits. */
  const tidy = (scope: FilterScope, sets: readonly Anchor[][]): void => {
    for (const { path, values } of sets.flat()) prune(roots[scope], path, values);
  };
  const candidatesOf = (document: FilterDocument): Set<Place<T>> => {
    const found = new Set(always);
    // a message is parsed only when somebody looks at it
    for (const scope of ["attributes", "message"] as const)
      if (roots[scope].below.size > 0) collect(roots[scope], document.of(scope), found);
    return found;
  };

  return {
    get size() {
      return size;
    },
    get keys() {
      return keysIn(roots.attributes) + keysIn(roots.message);
    },
    add(member, policy) {
      const scope = policy?.scope ?? "attributes";
      const sets = policy === null ? [] : anchorsOf(JSON.parse(policy.text));
      const chosen = emptiest(scope, sets);
      const place: Place<T> = { member, policy, filter: null, lists: chosen.length === 0 ? [always] : chosen };
      for (const list of place.lists) list.push(place);
      // the other choices were only looked at
      tidy(scope, sets);
      size += 1;
      return place;
    },
    remove(place) {
      for (const list of place.lists) {
        const at = list.indexOf(place);
        const last = list.pop();
        // the last one takes the empty place, unless it was the one
        if (last !== undefined && at < list.length) list[at] = last;
      }
      if (place.policy !== null) tidy(place.policy.scope, anchorsOf(JSON.parse(place.policy.text)));
      size -= 1;
    },
    *walk(document) {
      for (const place of candidatesOf(document)) {
        const { member, policy } = place;
        if (policy !== null) place.filter ??= compileFilter(JSON.parse(policy.text), policy.scope);
        yield (place.filter?.matches(document) ?? true) ? member : null;
      }
    },
    candidates: (document) => candidatesOf(document).size,
  };
}
