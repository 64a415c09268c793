/** Lists of values in a statement: `IN (:a0, :a1)` with its parameters, of few different lengths, so that statements stay prepared. */
import type { Value } from "../db/db.ts";

/** The text within the parentheses and its parameters; at least one value. What pads the list repeats the last one. */
export function inList(name: string, values: readonly Value[]): { text: string; params: Record<string, Value> } {
  const params: Record<string, Value> = {};
  const names: string[] = [];
  for (let size = 1; names.length < values.length; size *= 4)
    while (names.length < size) {
      const i = names.length;
      names.push(`:${name}${i}`);
      params[`${name}${i}`] = values[Math.min(i, values.length - 1)] as Value;
    }
  return { text: names.join(", "), params };
}
