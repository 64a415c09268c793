/**
 * What an environment serves, as its lanes see it: one value per environment, shared by all of them and changed in place, so that a
 * promotion or an activated secret is in force for the very next delivery. Nothing here is lost by a crash: the store has all of it.
 */
import { parseSecret, type SigningKey } from "@millrace/contract/wire";
import type { Clock } from "../clock.ts";
import type { Vault } from "../identity/vault.ts";
import type { ServingRow } from "../store/deployment.ts";

/** A deployment as it is called. */
export interface Served {
  id: string;
  url: string;
}

export interface Serving {
  /** The current deployment; `null` while nothing is deployed: then messages wait. */
  readonly current: Served | null;
  /** Where a message goes: to the deployment it is pinned to while that serves, else to the current one, and then says so. */
  route(pinned: string | undefined): { to: Served; fallbackFrom: string | null } | null;
  /** The key that signs now (C8). */
  key(): SigningKey;
  /** Puts what the store says in force. */
  set(row: ServingRow): void;
}

/** Makes an environment's value. The secrets are opened when they are first needed. */
export function createServing(deps: { clock: Clock; vault: Vault }, first: ServingRow): Serving {
  const { clock, vault } = deps;
  let row = first;
  let urls = new Map<string, string>();
  let keys: { now: SigningKey; next: { key: SigningKey; at: number } | undefined } | undefined;
  let loadedAt = clock.now();

  const open = (sealed: string): SigningKey => {
    const key = parseSecret(vault.open(sealed, row.secrets.environmentId));
    if (key === undefined) throw new Error(`the stored secret of environment ${row.secrets.environmentId} is not a signing secret`);
    return key;
  };
  const current = (): Served | null => {
    const url = row.current === null ? undefined : urls.get(row.current);
    return url === undefined ? null : { id: row.current as string, url };
  };
  const serving: Serving = {
    get current() {
      return current();
    },
    route(pinned) {
      const to = current();
      if (pinned === undefined) return to === null ? null : { to, fallbackFrom: null };
      const url = urls.get(pinned);
      if (url !== undefined) return { to: { id: pinned, url }, fallbackFrom: null };
      return to === null ? null : { to, fallbackFrom: pinned };
    },
    key() {
      if (keys === undefined) {
        const { secret, next } = row.secrets;
        keys = { now: open(secret), next: next === null ? undefined : { key: open(next.secret), at: loadedAt + next.inMs } };
      }
      return keys.next !== undefined && clock.now() >= keys.next.at ? keys.next.key : keys.now;
    },
    set(next) {
      row = next;
      loadedAt = clock.now();
      keys = undefined;
      urls = new Map(next.deployments.map(({ id, url }) => [id, url]));
    },
  };
  serving.set(first);
  return serving;
}
