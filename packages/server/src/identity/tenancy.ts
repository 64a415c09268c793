/**
 * What can be done with organizations, projects and keys, for callers that were allowed to. A key's text leaves this module once, in
 * the answer of the call that made it, and is never stored.
 */
import { Fault } from "@millrace/contract";
import type { Quota } from "../store/quota.ts";
import type { Store } from "../store/store.ts";
import type { IdempotencyKey } from "../store/types.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Caller, OrganizationRow, ProjectRow, Statement } from "./caller.ts";
import { formatKey, hashKey } from "./key-text.ts";
import { type ForgetfulAccess, lacking } from "./resolve.ts";
import { authorize, exceeds } from "./rules.ts";

export type { Quota };

/** A key as it is shown; times in milliseconds since 1970. */
export interface KeyRow {
  no: number;
  id: string;
  name: string;
  environment: string | null;
  statements: readonly Statement[];
  expiresAt: number | null;
  lastUsedAt: number | null;
  createdAt: number;
}

/** A page of rows and the number to go on after; `null` at the end. */
export interface Page<Row> {
  rows: Row[];
  after: number | null;
}

/** Store pages read at most for one answer: a key that reaches little of much gets short pages, never a long wait. */
const STORE_PAGES = 10;

/** Reads pages of rows, keeping those that `keep` says, until `limit` are found. */
async function collect<Row extends { no: number }>(
  given: { after: number; limit: number },
  read: (page: { after: number; limit: number }) => Promise<Row[]>,
  keep: (row: Row) => boolean,
): Promise<Page<Row>> {
  const rows: Row[] = [];
  let { after } = given;
  for (let i = 0; i < STORE_PAGES; i += 1) {
    const page = await read({ after, limit: given.limit + 1 });
    for (const row of page) {
      if (!keep(row)) after = row.no;
      else if (rows.length === given.limit) return { rows, after };
      else {
        rows.push(row);
        after = row.no;
      }
    }
    if (page.length <= given.limit) return { rows, after: null };
  }
  return { rows, after };
}

export type Tenancy = ReturnType<typeof createTenancy>;

/** `newId` makes UUIDv7s, `random` bytes. */
export function createTenancy(deps: {
  store: Pick<Store, "run" | "once">;
  authenticator: Pick<Authenticator, "forget">;
  access: Pick<ForgetfulAccess, "forget">;
  newId: () => string;
  random: (bytes: number) => Uint8Array;
}) {
  const { store, authenticator, access, newId, random } = deps;

  return {
    /** Throws `permission_denied`, `name_taken`. */
    async createOrganization(caller: Caller, key: IdempotencyKey | null, name: string): Promise<OrganizationRow> {
      if (authorize(caller, "organizations.create", name) !== "allowed") throw lacking("organizations.create", name);
      return (await store.once(key, "createOrganization", { id: newId(), name })).result;
    },

    /** The organizations that the key reaches. */
    listOrganizations: (caller: Caller, page: { after: number; limit: number }): Promise<Page<OrganizationRow>> =>
      collect(
        page,
        (each) => store.run("listOrganizations", each),
        (row) => authorize(caller, null, row.name) === "allowed",
      ),

    /** Throws `not_empty`. */
    deleteOrganization: (organization: OrganizationRow): Promise<void> => store.run("deleteOrganization", organization.no),

    /** Throws `permission_denied`, `name_taken`. */
    async createProject(caller: Caller, key: IdempotencyKey | null, organization: OrganizationRow, name: string): Promise<ProjectRow> {
      const resource = `${organization.name}/${name}`;
      if (authorize(caller, "projects.create", resource) !== "allowed") throw lacking("projects.create", resource);
      const given = { id: newId(), environmentId: newId(), name, organizationNo: organization.no };
      return (await store.once(key, "createProject", given)).result;
    },

    /** The organization's projects that the key reaches. */
    listProjects: (caller: Caller, organization: OrganizationRow, page: { after: number; limit: number }): Promise<Page<ProjectRow>> =>
      collect(
        page,
        (each) => store.run("listProjects", { ...each, organizationNo: organization.no }),
        (row) => authorize(caller, null, `${organization.name}/${row.name}`) === "allowed",
      ),

    /** The quotas of those of the projects that have one, by project. */
    async quotas(projects: readonly ProjectRow[]): Promise<Map<number, Quota>> {
      const nos = projects.map(({ no }) => no);
      return new Map((await store.run("quotasOf", nos)).map(({ projectNo, ...quota }) => [projectNo, quota]));
    },

    /** Gives the project a quota of messages a day, or takes it away. In force for every send that begins after. */
    setQuota: (project: ProjectRow, maxPerDay: number | null): Promise<void> => store.run("setQuota", project.no, maxPerDay),

    /** Deletes the project with its keys, which stop working at once. Throws `not_empty`. */
    async deleteProject(project: ProjectRow): Promise<void> {
      const keys = await store.run("deleteProject", project.no);
      access.forget(project.no);
      for (const id of keys) authenticator.forget(id);
    },

    /** Makes a key; `secret` is its text, `null` on a repeat. Throws `permission_denied` for rights that the caller lacks itself. */
    async createKey(
      caller: Caller,
      key: IdempotencyKey | null,
      project: ProjectRow,
      given: { name: string; environment?: string | undefined; statements: readonly Statement[]; expiresAt: number | null },
    ): Promise<KeyRow & { secret: string | null }> {
      const within = `${project.organization.name}/${project.name}`;
      const missing = exceeds(caller, given.statements, within);
      if (missing !== null) throw lacking(missing, within);
      const secret = formatKey(random(32));
      const row = { id: newId(), projectNo: project.no, hash: hashKey(secret), ...given };
      const { result, replayed } = await store.once(key, "createKey", row);
      return { ...result, secret: replayed ? null : secret };
    },

    listKeys: (project: ProjectRow, page: { after: number; limit: number }): Promise<Page<KeyRow>> =>
      collect(
        page,
        (each) => store.run("listKeys", { ...each, projectNo: project.no }),
        () => true,
      ),

    /** Throws `key_not_found`. */
    async getKey(project: ProjectRow, id: string): Promise<KeyRow> {
      const found = await store.run("findKey", { id });
      if (found === null || found.projectNo !== project.no) throw new Fault("key_not_found", "the project has no such key");
      return found;
    },

    /** Throws `key_not_found`. */
    async deleteKey(project: ProjectRow, id: string): Promise<void> {
      const deleted = await store.run("deleteKey", { projectNo: project.no, id });
      if (!deleted) throw new Fault("key_not_found", "the project has no such key");
      authenticator.forget(id);
    },
  };
}
