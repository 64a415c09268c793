/**
 * Secrets at rest (P5): sealed with AES-256-GCM under the server's key and bound to their owner's id, so that a sealed text copied to
 * another row does not open. Several keys may be known, newest first: the first one seals, every one opens.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import { chmodSync, closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const HOW = "make one with: openssl rand -base64 32";

/** A start-up error about encryption keys; its message says what to do and holds no key. */
export class VaultError extends Error {}

export interface Vault {
  /** Encrypts `text` for the row `owner` (an id). The answer's first 12 characters name the key it is under. */
  seal(text: string, owner: string): string;
  /** Decrypts what `seal` made for the same owner. Throws `VaultError` when the key is unknown or the text was changed. */
  open(sealed: string, owner: string): string;
  /** Throws `VaultError` unless every sealed text (or its first 12 characters) is under a known key: for start-up. */
  check(sealed: readonly string[]): void;
  /** Signs `text` for one purpose, in base64url. */
  sign(purpose: string, text: string): string;
  /** Whether `signature` was made by `sign` under any known key; constant-time. */
  verify(purpose: string, text: string, signature: string): boolean;
}

interface VaultKey {
  label: string;
  bytes: Uint8Array;
}

const octets = (buffer: Buffer): Uint8Array => new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);

/** Reads one key: 32 bytes as base64, base64url or hex. */
function readKey(text: string, from: string): VaultKey {
  const bytes = octets(Buffer.from(text, /^[0-9a-f]{64}$/i.test(text) ? "hex" : "base64"));
  const wellFormed = /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) && bytes.length === 32;
  if (!wellFormed) throw new VaultError(`${from} must be 32 bytes in base64 or hex; ${HOW}`);
  return { label: createHash("sha256").update("label").update(bytes).digest("hex").slice(0, 8), bytes };
}

/** Makes a vault of the keys of `MILLRACE_ENCRYPTION_KEY`, newest first. */
export function createVault(keys: readonly string[]): Vault {
  const known = keys.map((key, index) => readKey(key, `key ${index + 1} of MILLRACE_ENCRYPTION_KEY`));
  const newest = known[0];
  if (newest === undefined) throw new VaultError(`MILLRACE_ENCRYPTION_KEY is empty; ${HOW}`);

  const keyOf = (sealed: string): VaultKey => {
    const [version, label] = sealed.split(".");
    const key = version === "v1" ? known.find((each) => each.label === label) : undefined;
    if (key !== undefined) return key;
    throw new VaultError(
      `stored secrets are encrypted under key ${version === "v1" ? label : "of an unknown form"}, which is not among the configured keys (${known
        .map((each) => each.label)
        .join(", ")}): add the former key to MILLRACE_ENCRYPTION_KEY after the new one`,
    );
  };
  /** Of the few purposes there are; made once, for signatures are many. */
  const purposeKeys = new Map<string, KeyObject>();
  const purposeKey = (key: VaultKey, purpose: string): KeyObject => {
    const name = `${key.label} ${purpose}`;
    const made = purposeKeys.get(name) ?? createSecretKey(createHmac("sha256", key.bytes).update(`sign:${purpose}`).digest());
    purposeKeys.set(name, made);
    return made;
  };
  const mac = (key: VaultKey, purpose: string, text: string): Uint8Array =>
    octets(createHmac("sha256", purposeKey(key, purpose)).update(text).digest());

  return {
    seal(text, owner) {
      const iv = octets(randomBytes(12));
      const cipher = createCipheriv("aes-256-gcm", newest.bytes, iv).setAAD(octets(Buffer.from(owner)));
      const hidden = [cipher.update(text, "utf8"), cipher.final()].map(octets);
      return `v1.${newest.label}.${Buffer.concat([iv, octets(cipher.getAuthTag()), ...hidden]).toString("base64url")}`;
    },
    open(sealed, owner) {
      const key = keyOf(sealed);
      const bytes = octets(Buffer.from(sealed.slice(12), "base64url"));
      try {
        const decipher = createDecipheriv("aes-256-gcm", key.bytes, bytes.subarray(0, 12), { authTagLength: 16 });
        decipher.setAAD(octets(Buffer.from(owner)));
        decipher.setAuthTag(bytes.subarray(12, 28));
        return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()].map(octets)).toString("utf8");
      } catch {
        throw new VaultError(`a stored secret of ${owner} does not open: it was changed, or belongs to another owner`);
      }
    },
    check(sealed) {
      for (const each of sealed) keyOf(each);
    },
    sign: (purpose, text) => Buffer.from(mac(newest, purpose, text)).toString("base64url"),
    verify(purpose, text, signature) {
      const given = octets(Buffer.from(signature, "base64url"));
      return known.some((key) => {
        const expected = mac(key, purpose, text);
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
    },
  };
}

/** Makes the names in a folder durable: a secret sealed under a key whose file a power cut takes is lost. */
function flushFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/**
 * The key beside a SQLite database: read from `path`, or made there with mode 0600 when there is none. Refuses a file that others may
 * read. Two processes that start at once end up with the same key.
 */
export function readKeyFile(path: string): string {
  const exists = statSync(path, { throwIfNoEntry: false }) !== undefined;
  if (!exists) {
    const draft = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
    writeFileSync(draft, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600, flag: "wx", flush: true });
    chmodSync(draft, 0o600);
    try {
      linkSync(draft, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
    flushFolder(dirname(path));
  }
  if ((statSync(path).mode & 0o077) !== 0) throw new VaultError(`${path} may be read by others: run chmod 600 ${path}`);
  const key = readFileSync(path, "utf8").trim();
  readKey(key, path);
  return key;
}

/**
 * The vault by configuration: `keys` of `MILLRACE_ENCRYPTION_KEY` when given, else the key file at `keyFile` (SQLite), else a start-up
 * error (PostgreSQL, where `keyFile` is `null`).
 */
export function openVault(given: { keys: readonly string[]; keyFile: string | null }): Vault {
  if (given.keys.length > 0) return createVault(given.keys);
  if (given.keyFile !== null) return createVault([readKeyFile(given.keyFile)]);
  throw new VaultError(`MILLRACE_ENCRYPTION_KEY is required on PostgreSQL; ${HOW}`);
}
