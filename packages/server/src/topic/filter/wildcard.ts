/**
 * Patterns in which `*` stands for any text, none included; `\*` and `\\` are the characters themselves. Matching takes time linear in text
 * and pattern, whatever they are: each piece between two stars is searched once, from left to right, by Knuth, Morris and Pratt.
 */

/** Whether every backslash of a text stands before `*` or another backslash. */
export function isWildcard(text: string): boolean {
  for (let at = text.indexOf("\\"); at >= 0; at = text.indexOf("\\", at + 2))
    if (text[at + 1] !== "*" && text[at + 1] !== "\\") return false;
  return true;
}

/** The pieces of a pattern between its stars, escapes undone: one more than there are stars. */
function piecesOf(pattern: string): string[] {
  const pieces: string[] = [];
  let piece = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const character = pattern[at] as string;
    if (character === "*") {
      pieces.push(piece);
      piece = "";
    } else if (character === "\\") {
      at += 1;
      piece += pattern[at] ?? "";
    } else piece += character;
  }
  pieces.push(piece);
  return pieces;
}

interface Search {
  codes: Uint16Array;
  /** By length of a matched beginning: how much of it is still matched after the next character failed. */
  fallback: Uint32Array;
}

function searchFor(piece: string): Search {
  const codes = Uint16Array.from({ length: piece.length }, (_, at) => piece.charCodeAt(at));
  const fallback = new Uint32Array(codes.length + 1);
  for (let at = 1, matched = 0; at < codes.length; at += 1) {
    while (matched > 0 && codes[at] !== codes[matched]) matched = fallback[matched] as number;
    if (codes[at] === codes[matched]) matched += 1;
    fallback[at + 1] = matched;
  }
  return { codes, fallback };
}

/** Where the first occurrence between `from` and `end` ends, or -1. */
function endOfFirst({ codes, fallback }: Search, text: string, from: number, end: number): number {
  let matched = 0;
  for (let at = from; at < end; at += 1) {
    const code = text.charCodeAt(at);
    while (matched > 0 && code !== codes[matched]) matched = fallback[matched] as number;
    if (code === codes[matched]) matched += 1;
    if (matched === codes.length) return at + 1;
  }
  return -1;
}

/** Whether matching has to search the text, and not only look at its two ends: that is what takes time. */
export const mustSearch = (pattern: string): boolean => piecesOf(pattern).length > 2;

/** A function that says whether a text fits the pattern. */
export function compileWildcard(pattern: string): (text: string) => boolean {
  const pieces = piecesOf(pattern);
  const first = pieces[0] as string;
  if (pieces.length === 1) return (text) => text === first;
  const last = pieces[pieces.length - 1] as string;
  const searches = pieces.slice(1, -1).flatMap((piece) => (piece === "" ? [] : [searchFor(piece)]));
  return (text) => {
    const end = text.length - last.length;
    let at = first.length;
    if (at > end || !text.startsWith(first) || !text.endsWith(last)) return false;
    // the leftmost place of each piece leaves the most room for the next
    for (const search of searches) {
      at = endOfFirst(search, text, at, end);
      if (at < 0) return false;
    }
    return true;
  };
}
