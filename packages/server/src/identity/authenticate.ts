/**
 * Turns an `Authorization` header into a caller (A5). A key's form and checksum are checked before anything is looked up; known keys
 * are remembered by their hash for five seconds, and forgotten at once when this process deletes them.
 */
import { Fault } from "@millrace/contract";
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { Caller } from "./caller.ts";
import { hashKey, isKey } from "./key-text.ts";
import { isToken, readToken } from "./token.ts";
import type { Vault } from "./vault.ts";

/** How long another process's deletion of a key may go unnoticed here, in milliseconds. */
const KEY_MEMORY_MS = 5_000;
const LAST_USED_STEP_MS = 60_000;

/** A key as the authenticator knows it; times by this process's clock. */
interface Known {
  no: number;
  caller: Caller;
  until: number;
  expiresAt: number;
  touchedAt: number;
}

export interface Authenticator {
  /** The caller of a header's value; at once when the key is remembered. Throws or rejects with `unauthorized`. */
  authenticate(header: string | undefined): Caller | Promise<Caller>;
  /** The caller whose key has this id and this text, with the seconds until the key expires (`null`: never); `null` for any other pair. */
  exchange(keyId: string, text: string): Promise<{ caller: Caller; expiresInSeconds: number | null } | null>;
  /** Forgets a key that was deleted. */
  forget(keyId: string): void;
}

const refused = (message: string): Fault => new Fault("unauthorized", message);

/** `vault` signs and checks one-hour tokens; `onError` hears of failed writes of a key's last use. */
export function createAuthenticator(deps: {
  store: Pick<Store, "run">;
  clock: Clock;
  vault: Pick<Vault, "verify">;
  onError: (error: unknown) => void;
  /** A key that the operator chose (`millrace dev --api-key`): looked up although it may not be of our form. */
  given?: string | undefined;
}): Authenticator {
  const { store, clock, vault, onError, given } = deps;
  const known = new LRUCache<string, Known>({ max: 10_000 });
  /** Counts deletions: a look-up that was under way during one is not remembered. */
  let epoch = 0;

  const use = (key: Known, now: number): Caller => {
    if (key.expiresAt <= now) throw refused("the API key has expired");
    if (now - key.touchedAt >= LAST_USED_STEP_MS) {
      key.touchedAt = now;
      store.run("touchKey", key.no).catch(onError);
    }
    return key.caller;
  };

  const lookUp = async (by: { hash: string } | { id: string }): Promise<Known | null> => {
    const found = await store.run("findKey", by);
    if (found === null) return null;
    const now = clock.now();
    return {
      no: found.no,
      caller: {
        keyId: found.id,
        keyName: found.name,
        projectNo: found.projectNo,
        within: found.within,
        environment: found.environment,
        statements: found.statements,
      },
      until: now + KEY_MEMORY_MS,
      expiresAt: found.expiresInMs === null ? Number.POSITIVE_INFINITY : now + found.expiresInMs,
      touchedAt: Number.NEGATIVE_INFINITY,
    };
  };

  const learn = async (handle: string, by: { hash: string } | { id: string }, previous: Known | undefined): Promise<Caller> => {
    const before = epoch;
    const key = await lookUp(by);
    if (key === null) {
      known.delete(handle);
      throw refused("the API key is unknown or was deleted");
    }
    if (previous !== undefined) key.touchedAt = previous.touchedAt;
    if (before === epoch) known.set(handle, key);
    return use(key, clock.now());
  };

  return {
    authenticate(header) {
      if (header === undefined) throw refused("no API key was given: send Authorization: Bearer mlr_…");
      if (header.slice(0, 7).toLowerCase() !== "bearer ") throw refused("the Authorization header must be Bearer and an API key");
      const text = header.slice(7).trim();
      if (text.length > 500) throw refused("the API key is not well-formed");
      const now = clock.now();
      if (isToken(text)) {
        const keyId = readToken(vault, text, now);
        if (keyId === null) throw refused("the access token is invalid or has expired");
        const handle = `id:${keyId}`;
        const key = known.get(handle);
        return key !== undefined && key.until > now ? use(key, now) : learn(handle, { id: keyId }, key);
      }
      const hash = hashKey(text);
      const key = known.get(hash);
      if (key !== undefined && key.until > now) return use(key, now);
      if (!isKey(text) && text !== given) throw refused("the API key is not well-formed: was it copied in full?");
      return learn(hash, { hash }, key);
    },

    async exchange(keyId, text) {
      if (!isKey(text)) return null;
      const key = await lookUp({ hash: hashKey(text) });
      const now = clock.now();
      if (key === null || key.caller.keyId !== keyId || key.expiresAt <= now) return null;
      use(key, now);
      const seconds = Math.floor((key.expiresAt - now) / 1000);
      return { caller: key.caller, expiresInSeconds: Number.isFinite(seconds) ? seconds : null };
    },

    forget(keyId) {
      epoch += 1;
      for (const [handle, key] of known.entries()) if (key.caller.keyId === keyId) known.delete(handle);
    },
  };
}
