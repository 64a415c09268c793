/** How bytes travel in JSON: as text where they are valid UTF-8, else as base64 under another name (Q5). Nothing is re-encoded. */
import { isUtf8 } from "node:buffer";

/** The body under the name that says how to read it. */
export function wireBody(body: Uint8Array): { body: string } | { bodyBase64: string } {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  // `toString` keeps a byte order mark, unlike a TextDecoder.
  return isUtf8(bytes) ? { body: bytes.toString("utf8") } : { bodyBase64: bytes.toString("base64") };
}
