/**
 * What a policy is held against: one JSON object, made of the notification's attributes or read out of its message. Keys are own
 * properties only, and lists are walked without recursion: a message may be nested as deep as it is long.
 */
import type { FilterScope, Scalar } from "./policy.ts";

/** An attribute as it was published; plain text is of type `String`. The value of a `String.Array` is a list, or a list as JSON text. */
export type FilterAttribute = string | { type: string; value: unknown };

/** What filters read of a notification: `message` is the payload selected for the subscription's protocol. */
export interface FilterInput {
  attributes: Readonly<Record<string, FilterAttribute>> | null;
  message: string;
}

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** A notification as both scopes see it, each looked into at most once. `undefined`: the message is no JSON object, so that no policy fits. */
export interface FilterDocument {
  of(scope: FilterScope): JsonObject | undefined;
}

export const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An attribute's value as JSON. What cannot be compared (binary, a number or list that is none) is `{}`: it exists, and fits nothing else. */
function comparable(attribute: FilterAttribute): unknown {
  if (typeof attribute === "string") return attribute;
  const { type, value } = attribute;
  if (type === "String" && typeof value === "string") return value;
  if (type === "Number") {
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
    return typeof number === "number" && !Number.isNaN(number) ? number : {};
  }
  if (type === "String.Array") {
    const list = typeof value === "string" ? parse(value) : value;
    return Array.isArray(list) ? list : {};
  }
  return {};
}

/** The document of a notification. Parses nothing until a policy asks. */
export function documentOf({ attributes, message }: FilterInput): FilterDocument {
  let ofAttributes: JsonObject | undefined;
  let ofMessage: JsonObject | null | undefined;
  return {
    of(scope) {
      if (scope === "attributes") {
        ofAttributes ??= Object.fromEntries(Object.entries(attributes ?? {}).map(([name, attribute]) => [name, comparable(attribute)]));
        return ofAttributes;
      }
      if (ofMessage === undefined) {
        const value = parse(message);
        ofMessage = isObject(value) ? value : null;
      }
      return ofMessage ?? undefined;
    },
  };
}

/** The value of a key, `undefined` when there is none. */
export const valueAt = (object: unknown, key: string): unknown =>
  isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;

/** Whether a value, or any element of a list however nested, passes. An empty list has none. */
export function anyElement(value: unknown, passes: (element: unknown) => boolean): boolean {
  if (!Array.isArray(value)) return passes(value);
  const lists: { list: readonly unknown[]; at: number }[] = [{ list: value, at: 0 }];
  for (let top = lists.at(-1); top !== undefined; top = lists.at(-1)) {
    if (top.at >= top.list.length) {
      lists.pop();
      continue;
    }
    const element = top.list[top.at];
    top.at += 1;
    if (Array.isArray(element)) lists.push({ list: element, at: 0 });
    else if (passes(element)) return true;
  }
  return false;
}

/** Whether a value can be compared. */
export const isScalar = (value: unknown): value is Scalar => value === null || (typeof value !== "object" && value !== undefined);
