/**
 * HMAC-SHA256 and SHA-256 by WebCrypto, which only answers asynchronously. The contract's pure checks want an HMAC at once: a check is
 * run twice, first to learn which digests it needs, then with them. That is sound because it decides from its arguments alone.
 */
import { base64, type Hmac, hex } from "@millrace/contract/wire";

const utf8 = new TextEncoder();

function joined(texts: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const parts = texts.map((part) => (typeof part === "string" ? utf8.encode(part) : part));
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** Keys that were used of late, by their bytes: importing one costs more than a digest. A process has one or two. */
const imported = new Map<string, Promise<ImportedKey>>();
const maxImported = 16;

function importedKey(key: Uint8Array): Promise<ImportedKey> {
  const name = hex(key);
  let known = imported.get(name);
  if (known === undefined) {
    known = crypto.subtle.importKey("raw", joined([key]), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    if (imported.size === maxImported) imported.clear();
    imported.set(name, known);
  }
  return known;
}

async function digest(key: Uint8Array, text: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign("HMAC", await importedKey(key), text));
}

/** Runs a pure function of digests, twice: it must not read a clock. Keys must not be empty: WebCrypto takes none such. */
export async function withHmac<T>(run: (hmac: Hmac) => T): Promise<T> {
  const asked: Promise<Uint8Array>[] = [];
  const nothing = new Uint8Array(32);
  run((_form, key, ...parts) => {
    asked.push(digest(key, joined(parts)));
    return "";
  });
  const digests = await Promise.all(asked);
  let at = 0;
  return run((form) => (form === "hex" ? hex : base64)(digests[at++] ?? nothing));
}

/** The 32 bytes of a SHA-256. */
export async function sha256(body: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined([body])));
}
