/**
 * The text of an API key (A5): `mlr_`, 43 base62 characters holding 32 random bytes, and 6 of checksum. The checksum lets a mistyped
 * or invented key be refused without a look-up; only the SHA-256 of the whole text is ever stored.
 */
import * as crypto from "node:crypto";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const FORM = /^mlr_[0-9A-Za-z]{49}$/;

/** `value` in base62, zero-padded to `length` characters (the lowest ones, when it has more). */
function base62(value: bigint, length: number): string {
  let text = "";
  let rest = value;
  for (let i = 0; i < length; i += 1) {
    text = `${ALPHABET[Number(rest % 62n)]}${text}`;
    rest /= 62n;
  }
  return text;
}

/** 6 base62 characters of the SHA-256 of the part before them. */
function checksum(text: string): string {
  return base62(BigInt(`0x${crypto.createHash("sha256").update(`checksum:${text}`).digest("hex").slice(0, 16)}`), 6);
}

/** Makes a key's text from 32 random bytes. */
export function formatKey(bytes: Uint8Array): string {
  const text = `mlr_${base62(BigInt(`0x${Buffer.from(bytes).toString("hex")}`), 43)}`;
  return text + checksum(text);
}

/** Whether `text` can be a key at all. */
export function isKey(text: string): boolean {
  return FORM.test(text) && checksum(text.slice(0, -6)) === text.slice(-6);
}

/** Node's one-shot hash: it takes half the time, once per request. Node 20 has it, the type declarations for it do not. */
const oneShot = (crypto as { hash?: (algorithm: string, text: string, encoding: "hex") => string }).hash;

/** What is stored of a key, and what it is found by: SHA-256 in hex. */
export const hashKey: (text: string) => string =
  oneShot === undefined ? (text) => crypto.createHash("sha256").update(text).digest("hex") : (text) => oneShot("sha256", text, "hex");
