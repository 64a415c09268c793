/** Payloads and bodies. Without a codec of the queue's own, the content type decides how a body is read. */

/** How payloads become bodies and back. `decode` may throw: the message then goes to the dead letters. */
export interface Codec<T> {
  /** What the bodies are sent as. */
  contentType: string;
  encode(payload: T): string | Uint8Array;
  decode(body: Uint8Array, contentType: string | undefined): T | Promise<T>;
}

/** A body as a send carries it. */
export interface WireBody {
  body: string;
  encoding: "utf8" | "base64";
  contentType: string;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
/** As `strict`, without a byte order mark, which JSON does not allow. */
const json = new TextDecoder("utf-8", { fatal: true });
const octets = "application/octet-stream";

/** `text/plain; charset=utf-8` → `text/plain` */
const mediaType = (contentType: string): string => (contentType.split(";", 1)[0] ?? "").trim().toLowerCase();

function charset(contentType: string): string {
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? "utf-8";
}

function decodeText(body: Uint8Array, contentType: string): string {
  const label = charset(contentType);
  return label === "utf-8" || label === "utf8" || label === "us-ascii"
    ? strict.decode(body)
    : new TextDecoder(label, { fatal: true }).decode(body);
}

/** A body that says nothing about itself: JSON if it is, else text if it is, else bytes. */
function guess(body: Uint8Array): unknown {
  let text: string;
  try {
    text = strict.decode(body);
  } catch {
    return body;
  }
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** JSON as its value, text as a string, anything else as bytes. Throws when the body is not what its content type says. */
export function decodeByContentType(body: Uint8Array, contentType: string | undefined): unknown {
  if (contentType === undefined || contentType === "") return guess(body);
  const type = mediaType(contentType);
  if (type === "application/json" || type.endsWith("+json")) return JSON.parse(json.decode(body));
  if (type.startsWith("text/")) return decodeText(body, contentType);
  return body;
}

/** The bytes of a buffer of any kind, also of another realm; `undefined` for anything else. */
export function asBytes(value: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return Object.prototype.toString.call(value) === "[object ArrayBuffer]" ? new Uint8Array(value as ArrayBuffer) : undefined;
}

/** Standard base64, by the platform's own encoder, which takes a text of bytes. */
function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

/** A string as text, bytes as they are, anything else as JSON. Throws a `TypeError` for what JSON has no word for. */
export function encodePayload<T>(payload: T, codec: Codec<T> | undefined): WireBody {
  const encoded: unknown = codec === undefined ? payload : codec.encode(payload);
  const given = codec?.contentType;
  if (typeof encoded === "string") return { body: encoded, encoding: "utf8", contentType: given ?? "text/plain; charset=utf-8" };
  const bytes = asBytes(encoded);
  if (bytes !== undefined) return { body: base64(bytes), encoding: "base64", contentType: given ?? octets };
  const body = JSON.stringify(encoded);
  if (body === undefined) throw new TypeError(`payload: must be a string, bytes, or something that JSON can hold, got ${typeof encoded}`);
  return { body, encoding: "utf8", contentType: given ?? "application/json" };
}

/** The bytes of a body in an answer. */
export function bodyBytes(body: string, encoding: string | undefined): Uint8Array {
  if (encoding !== "base64") return new TextEncoder().encode(body);
  const binary = atob(body);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}
