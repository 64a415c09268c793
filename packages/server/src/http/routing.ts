/** The routes as the router wants them, and which methods a path knows: for 405, `Allow` and OPTIONS. */
import { type OperationName, routes } from "@millrace/contract";

/** `/v1/organizations/:organizationId` of `/v1/organizations/{organizationId}`. */
export const routerPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** A path with its parameters filled in. */
export const filledPath = (path: string, params: Readonly<Record<string, string>>): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));

/** Answers the methods of a path, sorted; empty for a path that nothing is at. `more` are routes besides the operations. */
export function createMethodTable(more: readonly { method: string; path: string }[]): (path: string) => string[] {
  const known = new Map<string, { pattern: RegExp; methods: Set<string> }>();
  const names = Object.keys(routes) as OperationName[];
  for (const { method, path } of [...names.map((name) => routes[name]), ...more]) {
    const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
    const entry = known.get(path) ?? { pattern, methods: new Set(["OPTIONS"]) };
    entry.methods.add(method);
    if (method === "GET") entry.methods.add("HEAD");
    known.set(path, entry);
  }
  return (path) => {
    for (const { pattern, methods } of known.values()) if (pattern.test(path)) return [...methods].sort();
    return [];
  };
}
