/**
 * HMAC-SHA256 for the push formats, which do no cryptography of their own. It is RFC 2104 by two one-shot hashes: Node's `Hmac` objects
 * take half as long again, and the garbage collector has to see each of them off.
 */
import { createHmac, hash } from "node:crypto";
import type { Hmac } from "@millrace/contract/wire";

/** What SHA-256 takes at once, and what it answers, in bytes. */
const BLOCK = 64;
const DIGEST = 32;
/** Texts up to this size are put together in one buffer. */
const MOST = 64 * 1024;
/** A character of a string takes at most so many bytes. */
const WIDEST = 3;

/** The padded key and what follows it: the whole text within, the digest of that without. Used anew by each call. */
const inner = Buffer.alloc(BLOCK + MOST);
const outer = Buffer.alloc(BLOCK + DIGEST);
/** Whose padded form stands there: a key is never changed. */
let padded: Uint8Array | undefined;

function pad(key: Uint8Array): void {
  if (padded === key) return;
  for (let i = 0; i < BLOCK; i++) {
    const byte = key[i] ?? 0;
    inner[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  }
  padded = key;
}

/** The digest over all parts in turn. */
export const hmac: Hmac = (form, key, ...parts) => {
  let most = 0;
  for (const part of parts) most += typeof part === "string" ? part.length * WIDEST : part.length;
  if (most > MOST || key.length > BLOCK) return long(form, key, parts);
  pad(key);
  let end = BLOCK;
  for (const part of parts) {
    if (typeof part === "string") end += inner.write(part, end);
    else {
      inner.set(part, end);
      end += part.length;
    }
  }
  outer.write(hash("sha256", inner.subarray(0, end), "binary"), BLOCK, "latin1");
  return hash("sha256", outer, form);
};

function long(form: "hex" | "base64", key: Uint8Array, parts: readonly (string | Uint8Array)[]): string {
  const state = createHmac("sha256", key);
  for (const part of parts) state.update(part);
  return state.digest(form);
}
