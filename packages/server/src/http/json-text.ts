/**
 * JSON as it comes over the wire: bytes must be UTF-8, the text must be JSON, strings must be well-formed Unicode (Q5); each refusal
 * says where. Of duplicate keys the last one counts, as RFC 8259 lets a reader do. `__proto__` is a key like any other.
 */
import { isUtf8 } from "node:buffer";
import { Fault, invalid } from "@millrace/contract";

/** An escaped UTF-16 surrogate: only such a text can hold a lone one, since its bytes are UTF-8. */
const SURROGATE = /\\u[dD][89a-fA-F]/;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const SPACE = /[ \t\n\r]*/y;

const ESCAPE = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;

/** The offset after the JSON string that begins at `start`, or minus the offset at which it breaks. By hand: a pattern may run out of stack. */
function endOfString(text: string, start: number): number {
  if (text[start] !== '"') return -start;
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return -at;
    if (code === 0x5c) {
      ESCAPE.lastIndex = at + 1;
      if (!ESCAPE.test(text)) return -(at + 1);
      at = ESCAPE.lastIndex - 1;
    }
  }
  return -text.length;
}

/** The offset of the first character at which `text` stops being JSON; its length when it only ends too early. */
function brokenAt(text: string): number {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const takeString = (): boolean => {
    const end = endOfString(text, at);
    at = Math.abs(end);
    return end > 0;
  };
  const stack: ("{" | "[")[] = [];
  let want: "value" | "first" | "key" | "next" = "value";
  for (;;) {
    take(SPACE);
    const character = text[at];
    if (want === "next") {
      const open = stack.at(-1);
      if (open === undefined) return at;
      if (character === ",") {
        at += 1;
        want = open === "{" ? "key" : "value";
      } else if (character === (open === "{" ? "}" : "]")) {
        at += 1;
        stack.pop();
      } else return at;
      continue;
    }
    if (want === "first" && character === (stack.at(-1) === "{" ? "}" : "]")) {
      at += 1;
      stack.pop();
      want = "next";
      continue;
    }
    if (want === "key" || (want === "first" && stack.at(-1) === "{")) {
      if (!takeString()) return at;
      take(SPACE);
      if (text[at] !== ":") return at;
      at += 1;
      want = "value";
      continue;
    }
    if (character === "{" || character === "[") {
      stack.push(character);
      at += 1;
      want = "first";
    } else if (character === '"' ? takeString() : take(NUMBER) || take(WORD)) want = "next";
    else return at;
  }
}

/** The place of `offset` as people count: lines and columns from 1. */
function place(text: string, offset: number): string {
  const before = text.slice(0, offset);
  const line = before.split("\n").length;
  return `line ${line}, column ${offset - before.lastIndexOf("\n")}`;
}

/** Refuses lone surrogates in any string or key, naming its path. Walks without recursion: depth costs no stack. */
function demandWellFormed(root: unknown): void {
  const open: [value: unknown, path: string][] = [[root, ""]];
  for (let entry = open.pop(); entry !== undefined; entry = open.pop()) {
    const [value, path] = entry;
    if (typeof value === "string" && !isWellFormed(value)) {
      throw invalid(path === "" ? "body" : path, "must be well-formed Unicode: it holds a lone surrogate");
    }
    if (typeof value !== "object" || value === null) continue;
    const inside = path === "" ? "" : `${path.length > 200 ? "…" : path}.`;
    for (const [key, child] of Object.entries(value)) {
      if (!isWellFormed(key)) throw invalid(path === "" ? "body" : path, "must have well-formed Unicode keys: one holds a lone surrogate");
      open.push([child, inside + key]);
    }
  }
}

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
/** Whether `text` has no lone surrogate. */
const isWellFormed = (text: string): boolean => !LONE.test(text);

/** The value of a body. `undefined` for an empty one. Throws `invalid_json` with the position, or `invalid_request` with the path. */
export function readJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new Fault("invalid_json", "the body must be JSON in UTF-8: its bytes are not UTF-8", { path: "body" });
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    const offset = brokenAt(text);
    const got = offset >= text.length ? "the end of the body" : JSON.stringify(String.fromCodePoint(text.codePointAt(offset) ?? 0));
    throw new Fault("invalid_json", `the body is not JSON: unexpected ${got} at ${place(text, offset)} (offset ${offset})`, {
      path: "body",
      bound: "JSON",
      got,
    });
  }
  if (SURROGATE.test(text)) demandWellFormed(value);
  return value;
}
