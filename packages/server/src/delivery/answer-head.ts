/**
 * The head of an answer, read strictly (RFC 9112): what is not plainly HTTP/1.1, or says two things about where its body ends, is none.
 * Whoever reads such a head with goodwill may take the end of one answer for the beginning of the next.
 */

/** Where a body ends: after so many bytes, with its last chunk, or with its connection. */
export type BodyEnd = number | "chunks" | "close";

/** Never changed: equal heads may be one. */
export interface AnswerHead {
  status: number;
  /** Names in lower case. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  bodyEnd: BodyEnd;
  /** How long the connection may wait for another request, in milliseconds; 0: it must not carry one. */
  keepMs: number;
}

/** How long a connection is kept when its endpoint names no time: below the 5 s after which common servers hang up. */
const KEEP_MS = 4_000;
/** So much sooner than at the time that an endpoint names. */
const SPARE_MS = 2_000;

const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const name = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const value = /^[\t\x20-\x7e\x80-\xff]*$/;

/** The line of one header, or of a trailer: its name in lower case and its value; `null`: it is none. */
export function readField(line: string): { key: string; given: string } | null {
  const colon = line.indexOf(":");
  const key = line.slice(0, Math.max(0, colon)).toLowerCase();
  const given = line.slice(colon + 1);
  // What trimming takes away may be more than spaces and tabs.
  return name.test(key) && value.test(given) ? { key, given: given.trim() } : null;
}

/** Reads a head, given as latin1 and without the empty line that ends it; `null`: it is none. */
export function readHead(text: string): AnswerHead | null {
  const lines = text.split("\r\n");
  const first = statusLine.exec(lines[0] as string);
  if (first === null) return null;
  const headers: Record<string, string | string[]> = {};
  for (let i = 1; i < lines.length; i++) {
    const field = readField(lines[i] as string);
    if (field === null) return null;
    const { key, given } = field;
    const before = Object.hasOwn(headers, key) ? headers[key] : undefined;
    if (Array.isArray(before)) before.push(given);
    else headers[key] = before === undefined ? given : [before, given];
  }
  const status = Number(first[2]);
  const bodyEnd = bodyEndOf(status, headers);
  if (bodyEnd === null) return null;
  return { status, headers, bodyEnd, keepMs: keepMsOf(first[1] === "1", status, headers, bodyEnd) };
}

/** RFC 9112, 6.3; `null` where it is in doubt. */
function bodyEndOf(status: number, headers: AnswerHead["headers"]): BodyEnd | null {
  const coding = headers["transfer-encoding"];
  const length = headers["content-length"];
  if (coding !== undefined && length !== undefined) return null;
  if (length !== undefined && !(typeof length === "string" && /^\d{1,19}$/.test(length))) return null;
  if (status < 200 || status === 204 || status === 304) return 0;
  if (coding !== undefined) return listed(coding).at(-1) === "chunked" ? "chunks" : "close";
  return length === undefined ? "close" : Number(length);
}

function keepMsOf(isNew: boolean, status: number, headers: AnswerHead["headers"], bodyEnd: BodyEnd): number {
  const options = headers.connection === undefined ? [] : listed(headers.connection);
  if (isNew ? options.includes("close") : !options.includes("keep-alive")) return 0;
  // A body that must not be there may come all the same.
  const unwanted = bodyEnd === 0 && (headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0");
  if (bodyEnd === "close" || unwanted || status === 101) return 0;
  const timeout = /timeout=(\d{1,9})/i.exec(String(headers["keep-alive"] ?? ""));
  return timeout === null ? KEEP_MS : Math.max(0, Number(timeout[1]) * 1000 - SPARE_MS);
}

/** The members of a list, in lower case. */
function listed(given: string | string[]): string[] {
  return String(given)
    .toLowerCase()
    .split(",")
    .map((each) => each.trim());
}
