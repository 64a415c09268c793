/**
 * Holds input against its shape and says what is wrong in our own words: the field, the bound, what came, and for an unknown field
 * the name that was probably meant (A2). The first fault is the answer; which one is first does not depend on key order in the input.
 */
import { Fault, invalid, nearest } from "@millrace/contract";
import { z } from "zod";

type Issue = z.core.$ZodIssue;

const pathText = (path: readonly PropertyKey[], root: string): string => {
  const text = path.map((part) => String(part).slice(0, 100)).join(".");
  return text === "" ? root : text;
};

/** What `input` holds at `path`, own properties only. */
function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

/** The field names that the object at `path` of a shape knows. */
function knownNames(shape: unknown, path: readonly PropertyKey[]): string[] {
  let at = shape;
  const rest = [...path];
  for (;;) {
    if (at instanceof z.ZodOptional || at instanceof z.ZodNullable) at = at.unwrap();
    else if (at instanceof z.ZodObject) {
      const part = rest.shift();
      if (part === undefined) return Object.keys(at.shape);
      at = at.shape[String(part)];
    } else if (at instanceof z.ZodArray) {
      rest.shift();
      at = at.element;
    } else return [];
  }
}

const plural = (count: number | bigint, noun: string): string => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const article = (noun: string): string => (/^[aio]/.test(noun) ? `an ${noun}` : `a ${noun}`);

function boundOf(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${issue.expected === "int" ? "a whole number" : article(issue.expected === "record" ? "object" : issue.expected)}`;
    case "too_small":
    case "too_big": {
      const [limit, words] = issue.code === "too_small" ? [issue.minimum, "at least"] : [issue.maximum, "at most"];
      if (issue.origin === "string") return `must have ${words} ${plural(limit, "character")}`;
      if (issue.origin === "array")
        return `must have ${words} ${plural(limit, "entr")
          .replace(/entrs$/, "entries")
          .replace(/entr$/, "entry")}`;
      return `must be ${words} ${limit.toLocaleString("en")}`;
    }
    case "invalid_union":
      return "options" in issue && Array.isArray(issue.options) ? `must be one of ${issue.options.join(", ")}` : `must be ${issue.message}`;
    case "invalid_value":
      return `must be ${issue.values.length === 1 ? "" : "one of "}${issue.values.join(", ")}`;
    case "invalid_format":
      return issue.message.startsWith("Invalid ") ? `must be ${article(issue.message.slice(8))}` : `must be ${issue.message}`;
    case "invalid_key":
      return issue.issues[0] === undefined ? "must have another name" : `its name ${boundOf(issue.issues[0])}`;
    default:
      return `must be ${issue.message}`;
  }
}

/** The refusal that a zod issue stands for. `root` names the whole input: `body`, `query` or `path`. */
function faultOf(issue: Issue, shape: z.ZodType, input: unknown, root: string): Fault {
  const index = issue.path.find((part): part is number => typeof part === "number");
  const at = index === undefined ? {} : { index };
  if (issue.code === "unrecognized_keys") {
    const key = [...issue.keys].sort()[0] ?? "";
    const path = pathText([...issue.path, key], root);
    const meant = nearest(key, knownNames(shape, issue.path));
    const bound = meant === undefined ? "unknown field" : `unknown field; did you mean ${meant}?`;
    return new Fault("invalid_request", `${path}: ${bound}`, { path, bound, got: key.slice(0, 100), ...at });
  }
  const path = pathText(issue.path, root);
  const got = issue.code === "invalid_key" ? issue.path.at(-1) : valueAt(input, issue.path);
  const missing = issue.code === "invalid_type" || issue.code === "invalid_union";
  const fault = got === undefined && missing ? invalid(path, "is required") : invalid(path, boundOf(issue), got);
  return index === undefined ? fault : new Fault(fault.code, fault.message, { ...fault.details, ...at });
}

/** `input` as `shape` has it. Throws `invalid_request`. */
export function validate<Shape extends z.ZodType>(shape: Shape, input: unknown, root: "body" | "query" | "path"): z.output<Shape> {
  const result = shape.safeParse(input);
  if (result.success) return result.data;
  // An unknown field explains a missing one, so it is told first.
  const issue = result.error.issues.find(({ code }) => code === "unrecognized_keys") ?? result.error.issues[0];
  throw issue === undefined ? invalid(root, "is not valid") : faultOf(issue, shape, input, root);
}
