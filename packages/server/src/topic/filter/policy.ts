/**
 * A filter policy as the rest of this folder reads it: conditions by key, alternatives within a key, branches of an `$or` (T10).
 * What is of these types was checked by `readPolicy`: it is within the bounds below, and evaluating it needs no second look.
 */

/** What a policy looks at: the notification's attributes, or its message as JSON. */
export type FilterScope = "attributes" | "message";

/** A JSON value that can be compared. */
export type Scalar = string | number | boolean | null;

/** One inclusive or exclusive end of a numeric range. */
export interface Bound {
  value: number;
  inclusive: boolean;
}

/** How a text can be looked at without naming it whole. */
export interface TextPattern {
  kind: "prefix" | "suffix" | "equals-ignore-case" | "wildcard";
  text: string;
}

/** One alternative of a key. */
export type Condition =
  | { kind: "exact"; value: Scalar }
  | TextPattern
  | { kind: "anything-but"; values: readonly Scalar[] }
  | { kind: "anything-but-pattern"; patterns: readonly TextPattern[] }
  | { kind: "numeric"; low: Bound | null; high: Bound | null }
  | { kind: "exists"; present: boolean }
  | { kind: "cidr"; block: string };

/** What must hold: one key's alternatives, what is nested below a key, or one of several branches. */
export type Rule =
  | { kind: "key"; key: string; conditions: readonly Condition[]; given: readonly unknown[] }
  | { kind: "nested"; key: string; rules: readonly Rule[] }
  | { kind: "or"; branches: readonly (readonly Rule[])[] };

/** A checked policy: every rule must hold. */
export interface FilterPolicy {
  scope: FilterScope;
  rules: readonly Rule[];
}

/** The bounds of a policy (T10), and three of ours that keep one evaluation cheap: all keys, depth, and wildcards of more than one star. */
export const bounds = {
  topKeys: 5,
  combinations: 150,
  bytes: 262_144,
  keys: 100,
  depth: 10,
  wildcards: 5,
} as const;
