/**
 * One-hour access tokens (A5): `mlt_`, the key's id and the end, and a signature under the server's key. Nothing is stored; a token
 * carries no rights of its own and dies with its key.
 */
import type { Vault } from "./vault.ts";

const PREFIX = "mlt_";

/** A token for the key that ends at `endsAt`, milliseconds since 1970 by the server's clock. */
export function issueToken(vault: Pick<Vault, "sign">, keyId: string, endsAt: number): string {
  const claim = Buffer.from(`${keyId} ${endsAt}`).toString("base64url");
  return `${PREFIX}${claim}.${vault.sign("token", claim)}`;
}

/** Whether `text` looks like a token rather than a key. */
export const isToken = (text: string): boolean => text.startsWith(PREFIX);

/** The id of the token's key, or `null` when the signature is wrong or the token has ended by `now`. */
export function readToken(vault: Pick<Vault, "verify">, text: string, now: number): string | null {
  const [claim, signature, ...rest] = text.slice(PREFIX.length).split(".");
  if (claim === undefined || signature === undefined || rest.length > 0 || !vault.verify("token", claim, signature)) return null;
  const [keyId, endsAt] = Buffer.from(claim, "base64url").toString("utf8").split(" ");
  return keyId !== undefined && Number(endsAt) > now ? keyId : null;
}
