/** Reads the alternatives of one key: plain values, and objects with one operator each. What is refused is named by its JSON path (T10). */
import { invalid } from "@millrace/contract";
import { parseBlock } from "./cidr.ts";
import type { Bound, Condition, Scalar, TextPattern } from "./policy.ts";
import { isWildcard } from "./wildcard.ts";

const operators = ["prefix", "suffix", "equals-ignore-case", "wildcard", "anything-but", "numeric", "exists", "cidr"] as const;
type Operator = (typeof operators)[number];

const patternKinds: readonly string[] = ["prefix", "suffix", "equals-ignore-case", "wildcard"] satisfies TextPattern["kind"][];
const isPatternKind = (name: string): name is TextPattern["kind"] => patternKinds.includes(name);

const isScalar = (value: unknown): value is Scalar =>
  value === null || typeof value === "string" || typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value));

/** The one property of an object, or `undefined`. */
function onlyEntry(given: unknown): [name: string, value: unknown] | undefined {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return undefined;
  const entries = Object.entries(given);
  return entries.length === 1 ? entries[0] : undefined;
}

function readPattern(kind: TextPattern["kind"], given: unknown, path: string): TextPattern {
  if (typeof given !== "string") throw invalid(path, "must be a string", given);
  if (kind !== "equals-ignore-case" && given === "") throw invalid(path, "must not be empty");
  if (kind === "wildcard" && !isWildcard(given)) throw invalid(path, "a backslash stands before * or another backslash");
  return { kind, text: given };
}

function readAnythingBut(given: unknown, path: string): Condition {
  const entry = onlyEntry(given);
  if (entry !== undefined) {
    const [kind, texts] = entry;
    if (!isPatternKind(kind)) throw invalid(`${path}.${kind}`, `must be one of ${patternKinds.join(", ")}`);
    if (!Array.isArray(texts)) return { kind: "anything-but-pattern", patterns: [readPattern(kind, texts, `${path}.${kind}`)] };
    if (texts.length === 0) throw invalid(`${path}.${kind}`, "must not be empty");
    return { kind: "anything-but-pattern", patterns: texts.map((text, at) => readPattern(kind, text, `${path}.${kind}.${at}`)) };
  }
  const values: unknown[] = Array.isArray(given) ? given : [given];
  if (values.length === 0) throw invalid(path, "must not be empty");
  return {
    kind: "anything-but",
    values: values.map((value, at) => {
      if (isScalar(value)) return value;
      const where = Array.isArray(given) ? `${path}.${at}` : path;
      throw invalid(where, "must be a value, a list of values, or an object with one of prefix, suffix, …", value);
    }),
  };
}

/** `["=", 5]`, `[">", 0]` or `[">=", 0, "<", 100]`, the lower end first. */
function readNumeric(given: unknown, path: string): Condition {
  if (!Array.isArray(given) || (given.length !== 2 && given.length !== 4))
    throw invalid(path, 'must be a comparison such as ["<", 10], or a range such as [">=", 0, "<", 10]', given);
  let low: Bound | null = null;
  let high: Bound | null = null;
  for (let at = 0; at < given.length; at += 2) {
    const sign: unknown = given[at];
    const value: unknown = given[at + 1];
    const allowed = given.length === 2 ? ["=", "<", "<=", ">", ">="] : at === 0 ? [">", ">="] : ["<", "<="];
    if (typeof sign !== "string" || !allowed.includes(sign)) throw invalid(`${path}.${at}`, `must be one of ${allowed.join(" ")}`, sign);
    if (typeof value !== "number" || !Number.isFinite(value)) throw invalid(`${path}.${at + 1}`, "must be a number", value);
    const bound = { value, inclusive: sign.endsWith("=") };
    if (!sign.startsWith("<")) low = bound;
    if (!sign.startsWith(">")) high = bound;
  }
  if (low !== null && high !== null && (low.value > high.value || (low.value === high.value && !(low.inclusive && high.inclusive))))
    throw invalid(path, "no number is within this range");
  return { kind: "numeric", low, high };
}

function readOperator(operator: Operator, given: unknown, path: string): Condition {
  switch (operator) {
    case "anything-but":
      return readAnythingBut(given, path);
    case "numeric":
      return readNumeric(given, path);
    case "exists":
      if (typeof given !== "boolean") throw invalid(path, "must be true or false", given);
      return { kind: "exists", present: given };
    case "cidr":
      if (typeof given !== "string" || parseBlock(given) === undefined)
        throw invalid(path, "must be a block such as 10.0.0.0/24 or 2001:db8::/32", given);
      return { kind: "cidr", block: given };
    default:
      return readPattern(operator, given, path);
  }
}

/** The alternatives of the key at `path`. Throws the `invalid_request` fault of the first thing wrong. */
export function readConditions(given: readonly unknown[], path: string): Condition[] {
  if (given.length === 0) throw invalid(path, "must have at least one condition");
  return given.map((alternative, at) => {
    const where = `${path}.${at}`;
    if (isScalar(alternative)) return { kind: "exact", value: alternative };
    const [name, value] = onlyEntry(alternative) ?? [];
    if (name === undefined) throw invalid(where, "must be a string, number, boolean, null, or an object with one operator", alternative);
    const operator = operators.find((known) => known === name);
    if (operator === undefined) throw invalid(`${where}.${name}`, `no such operator; there are ${operators.join(", ")}`);
    return readOperator(operator, value, `${where}.${operator}`);
  });
}
