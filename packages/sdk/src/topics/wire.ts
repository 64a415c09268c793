/** The topics' door writes names_like_this and instants as text; programs read namesLikeThis and `Date`. What is the user's own is left as it is. */
import { asDate } from "../meta.ts";

/** Fields whose value is somebody's own JSON. */
const own: ReadonlySet<string> = new Set(["filter_policy", "policy", "attributes", "expected", "got"]);
/** `_at` and the one instant that is named otherwise. */
const isInstant = (name: string): boolean => name === "at" || name.endsWith("_at") || name === "confirmable_until";

const camel = (name: string): string => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** A record of an answer with names in camel case and instants as dates, however nested. */
export function fromWire<T>(value: unknown): T {
  if (Array.isArray(value)) return value.map((each) => fromWire(each)) as T;
  if (typeof value !== "object" || value === null) return value as T;
  const entries = Object.entries(value).map(([name, below]): [string, unknown] => {
    if (own.has(name)) return [camel(name), below];
    if (isInstant(name) && typeof below === "string") return [camel(name), asDate(below)];
    return [camel(name), fromWire(below)];
  });
  return Object.fromEntries(entries) as T;
}
