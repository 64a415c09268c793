/**
 * What can be done with environments and their signing secrets (C8). A secret leaves this module for who may read it and for nobody
 * else; at rest it is sealed under its environment's id.
 */
import { randomBytes } from "node:crypto";
import { Fault } from "@millrace/contract";
import { generateSecret } from "@millrace/contract/wire";
import { uuidv7 } from "uuidv7";
import type { Vault } from "../identity/vault.ts";
import type { EnvironmentRow, SecretsRow } from "../store/environment.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey } from "../store/types.ts";

export type { EnvironmentRow } from "../store/environment.ts";

/** The secret that signs, and the prepared one with the instant from which it does, in milliseconds since 1970. */
export interface SigningSecrets {
  secret: string;
  next: { secret: string; activatesAt: number } | null;
}

export interface Environments {
  create(projectNo: number, slug: string, key: IdempotencyKey | null): Promise<EnvironmentRow>;
  /** By UUID or slug; throws `environment_not_found`. */
  find(projectNo: number, reference: string): Promise<EnvironmentRow>;
  list(projectNo: number, page: { offset: number; limit: number }): Promise<{ items: EnvironmentRow[]; total: number }>;
  /** Gives an environment a secret unless it has one. */
  ensureSecret(environment: { no: number; id: string }): Promise<void>;
  secrets(environment: EnvironmentRow): Promise<SigningSecrets>;
  /** Prepares the next secret: readable at once, in force in 24 hours or when it is activated. */
  rotate(environment: EnvironmentRow): Promise<SigningSecrets>;
  /** Switches to the prepared secret. Throws `invalid_request` when there is none. */
  activate(environment: EnvironmentRow): Promise<SigningSecrets>;
}

/** Makes the verbs. `served` puts a changed secret in force. */
export function createEnvironments(deps: { store: Store; vault: Vault; served: (environmentNo: number) => Promise<void> }): Environments {
  const { store, vault } = deps;
  const sealed = (id: string): string =>
    vault.seal(
      generateSecret((bytes) => new Uint8Array(randomBytes(bytes))),
      id,
    );
  const opened = ({ environmentId, secret, next }: SecretsRow): SigningSecrets => ({
    secret: vault.open(secret, environmentId),
    next: next === null ? null : { secret: vault.open(next.secret, environmentId), activatesAt: next.at },
  });
  const read = ({ no, id }: { no: number; id: string }): Promise<SecretsRow> => store.run("environmentSecrets", no, sealed(id));
  const changed = async (environment: EnvironmentRow, secrets: Promise<SecretsRow>): Promise<SigningSecrets> => {
    const answer = opened(await secrets);
    await deps.served(environment.no);
    return answer;
  };

  return {
    async create(projectNo, slug, key) {
      const id = uuidv7();
      return (await store.once(key, "createEnvironment", { id, projectNo, slug, secret: sealed(id) })).result;
    },
    async find(projectNo, reference) {
      const row = await store.run("findEnvironment", projectNo, reference);
      if (row === null) throw new Fault("environment_not_found", `there is no environment ${reference.slice(0, 100)} in this application`);
      return row;
    },
    list: (projectNo, page) => store.run("listEnvironments", projectNo, page),
    async ensureSecret(environment) {
      await read(environment);
    },
    secrets: async (environment) => opened(await read(environment)),
    async rotate(environment) {
      await read(environment);
      return changed(environment, store.run("prepareSecret", environment.no, sealed(environment.id)));
    },
    async activate(environment) {
      await read(environment);
      return changed(environment, store.run("activateSecret", environment.no));
    },
  };
}
