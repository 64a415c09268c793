/** Parameters by name in SQL texts: finds `:name`, leaving casts (`::text`) and quoted strings alone. */
const NAMED = /'(?:[^']|'')*'|::\w+|([:$])([a-zA-Z_]\w*)/g;

/** The text with every `:name` (and `$name`) replaced by what `put` answers for it; `put` hears the mark and the name. */
export function replaceNamed(sql: string, put: (mark: ":" | "$", name: string) => string): string {
  return sql.replace(NAMED, (all, mark: string | undefined, name: string) => (mark === undefined ? all : put(mark as ":" | "$", name)));
}
