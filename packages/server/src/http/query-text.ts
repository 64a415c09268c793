/** The query of a URL, read strictly: each parameter once, percent-encoding and Unicode well-formed. */
import { Fault, invalid } from "@millrace/contract";

/** No URL needs more parameters than this. */
const MOST = 100;

function decode(text: string, where: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw new Fault("invalid_request", `${where}: must be percent-encoded UTF-8`, {
      path: where,
      bound: "percent-encoded UTF-8",
      got: text.slice(0, 100),
    });
  }
}

/** The parameters of `text` (without its `?`). Throws `invalid_request` for a parameter given twice or badly encoded. */
export function readQuery(text: string): Record<string, string> {
  const query: Record<string, string> = Object.create(null);
  const parts = text.split("&");
  if (parts.length > MOST) throw invalid("query", `must have at most ${MOST} parameters`, parts.length);
  for (const part of parts) {
    if (part === "") continue;
    const equals = part.indexOf("=");
    const name = decode(equals < 0 ? part : part.slice(0, equals), "query");
    if (name in query) throw invalid(name, "must be given once");
    query[name] = equals < 0 ? "" : decode(part.slice(equals + 1), name);
  }
  return query;
}
