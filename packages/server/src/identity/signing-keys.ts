/** The keys that sign what one owner is sent (P4): opened when they are first needed, two of them for a day after a rotation. */
import { parseSecret, type SigningKey } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
import type { Vault } from "./vault.ts";

/** Sealed secrets as they were just loaded: `previous` signs too, for `forMs` from now. `owner` is the id they are sealed for. */
export interface SealedSecrets {
  owner: string;
  secret: string;
  previous: { secret: string; forMs: number } | null;
}

/** Answers the keys that sign now, newest first. Throws when a stored text does not open. */
export function signingKeys(
  { vault, clock }: { vault: Pick<Vault, "open">; clock: Clock },
  { owner, secret, previous }: SealedSecrets,
): () => SigningKey[] {
  const loadedAt = clock.now();
  let keys: { newest: SigningKey; older: { key: SigningKey; until: number } | undefined } | undefined;
  const open = (sealed: string): SigningKey => {
    const key = parseSecret(vault.open(sealed, owner));
    if (key === undefined) throw new Error(`the stored secret of ${owner} is not a signing secret`);
    return key;
  };
  return () => {
    keys ??= {
      newest: open(secret),
      older: previous === null ? undefined : { key: open(previous.secret), until: loadedAt + previous.forMs },
    };
    const { newest, older } = keys;
    return older !== undefined && clock.now() < older.until ? [newest, older.key] : [newest];
  };
}
