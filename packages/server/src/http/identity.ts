/** Handlers of organizations, projects and keys: rows of the tenancy in, wire shapes out. */
import type { Answer, Operations } from "@millrace/contract";
import type { Access } from "../identity/access.ts";
import type { OrganizationRow, ProjectRow } from "../identity/caller.ts";
import type { KeyRow, Page, Quota, Tenancy } from "../identity/tenancy.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import type { Handlers } from "./handler.ts";

const LIMIT = 50;
const time = (at: number): string => new Date(at).toISOString();
const timeOrNull = (at: number | null): string | null => (at === null ? null : time(at));

type Organization = Answer<Operations["GetOrganization"]>;
type Project = Answer<Operations["GetProject"]>;
type Key = Answer<Operations["GetKey"]>;

const showOrganization = ({ id, name, createdAt }: OrganizationRow): Organization => ({ id, name, createdAt: time(createdAt) });
const showProject = ({ id, name, createdAt, organization }: ProjectRow, quota: Quota | undefined): Project => ({
  id,
  organizationId: organization.id,
  name,
  maxMessagesPerDay: quota?.maxPerDay ?? null,
  messagesToday: quota?.sentToday ?? null,
  createdAt: time(createdAt),
});
const showKey = ({ id, name, environment, statements, expiresAt, lastUsedAt, createdAt }: KeyRow, secret: string | null = null): Key => ({
  id,
  name,
  environment,
  statements: statements.map(({ allow, on }) => ({ allow: [...allow], on: [...on] })),
  expiresAt: timeOrNull(expiresAt),
  lastUsedAt: timeOrNull(lastUsedAt),
  createdAt: time(createdAt),
  secret,
});

/** Reads one page of `list` after the cursor's place. */
async function page<Row>(
  list: string,
  query: { limit?: number | undefined; cursor?: string | undefined },
  read: (page: { after: number; limit: number }) => Promise<Page<Row>>,
): Promise<{ rows: Row[]; nextCursor: string | null }> {
  const after = Number(decodeCursor(list, query.cursor)?.[0] ?? 0);
  const { rows, after: next } = await read({ after, limit: query.limit ?? LIMIT });
  return { rows, nextCursor: next === null ? null : encodeCursor(list, [next]) };
}

type IdentityOperation =
  | "CreateOrganization"
  | "ListOrganizations"
  | "GetOrganization"
  | "DeleteOrganization"
  | "CreateProject"
  | "ListProjects"
  | "GetProject"
  | "UpdateProject"
  | "DeleteProject"
  | "CreateKey"
  | "ListKeys"
  | "GetKey"
  | "DeleteKey";

/** The handlers of identity. */
export function identityHandlers({ access, tenancy }: { access: Access; tenancy: Tenancy }): Pick<Handlers, IdentityOperation> {
  const shown = async (project: ProjectRow): Promise<Project> => showProject(project, (await tenancy.quotas([project])).get(project.no));

  return {
    async CreateOrganization(call, { body }) {
      return showOrganization(await tenancy.createOrganization(call.caller, call.idempotency, body.name));
    },
    async ListOrganizations(call, { query }) {
      const { rows, nextCursor } = await page("organizations", query, (each) => tenancy.listOrganizations(call.caller, each));
      return { organizations: rows.map(showOrganization), nextCursor };
    },
    async GetOrganization(call, { params }) {
      return showOrganization(await access.organization(call.caller, params, "organizations.get"));
    },
    async DeleteOrganization(call, { params }) {
      await tenancy.deleteOrganization(await access.organization(call.caller, params, "organizations.delete"));
      return undefined;
    },
    async CreateProject(call, { params, body }) {
      const organization = await access.organization(call.caller, params, null);
      return shown(await tenancy.createProject(call.caller, call.idempotency, organization, body.name));
    },
    async ListProjects(call, { params, query }) {
      const organization = await access.organization(call.caller, params, null);
      const { rows, nextCursor } = await page(`projects of ${organization.no}`, query, (each) =>
        tenancy.listProjects(call.caller, organization, each),
      );
      const quotas = await tenancy.quotas(rows);
      return { projects: rows.map((row) => showProject(row, quotas.get(row.no))), nextCursor };
    },
    async GetProject(call, { params }) {
      return shown(await access.project(call.caller, params, "projects.get"));
    },
    async UpdateProject(call, { params, body }) {
      const project = await access.project(call.caller, params, "projects.update");
      await tenancy.setQuota(project, body.maxMessagesPerDay);
      return shown(project);
    },
    async DeleteProject(call, { params }) {
      await tenancy.deleteProject(await access.project(call.caller, params, "projects.delete"));
      return undefined;
    },
    async CreateKey(call, { params, body }) {
      const project = await access.project(call.caller, params, "keys.create");
      const expiresAt = body.expiresAt == null ? null : Date.parse(body.expiresAt);
      const { secret, ...row } = await tenancy.createKey(call.caller, call.idempotency, project, { ...body, expiresAt });
      return showKey(row, secret);
    },
    async ListKeys(call, { params, query }) {
      const project = await access.project(call.caller, params, "keys.list");
      const { rows, nextCursor } = await page(`keys of ${project.no}`, query, (each) => tenancy.listKeys(project, each));
      return { keys: rows.map((row) => showKey(row)), nextCursor };
    },
    async GetKey(call, { params }) {
      const project = await access.project(call.caller, params, "keys.get");
      return showKey(await tenancy.getKey(project, params.keyId));
    },
    async DeleteKey(call, { params }) {
      const project = await access.project(call.caller, params, "keys.delete");
      await tenancy.deleteKey(project, params.keyId);
      return undefined;
    },
  };
}
