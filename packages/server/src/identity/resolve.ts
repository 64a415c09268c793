/**
 * Implements `Access`: from the references of a path to rows, with the permission checked in the same step (A6). What a key does not
 * reach costs exactly the look-ups of what does not exist: only what a key does reach is remembered, and for that key alone.
 */
import { Fault, invalid } from "@millrace/contract";
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";
import type { QueueRow } from "../store/types.ts";
import { type Access, queueResource } from "./access.ts";
import type { Caller, OrganizationRow, ProjectRow } from "./caller.ts";
import { authorize } from "./rules.ts";

/** How long a project that a key reached is remembered, in milliseconds. */
const PROJECT_MEMORY_MS = 5_000;
/** References that are not names: a UUID or a resource name. Nobody can guess them. */
const NOT_A_NAME = /^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|que_[a-z0-9]{12})$/i;

/** Finds a queue of a project's environment (`production` unless named) by id, resource name or name. */
export type FindQueue = (projectNo: number, reference: string, environment?: string) => QueueRow | null | Promise<QueueRow | null>;

export interface ForgetfulAccess extends Access {
  /** Forgets a project that was deleted. */
  forget(projectNo: number): void;
}

const organizationMissing = (): Fault => new Fault("organization_not_found", "there is no such organization, or the key does not reach it");
const projectMissing = (): Fault => new Fault("project_not_found", "there is no such project, or the key does not reach it");
const queueMissing = (): Fault => new Fault("queue_not_found", "there is no such queue, or the key does not reach it");

/** A 403 that names what is missing. */
export function lacking(permission: string, resource: string): Fault {
  return new Fault("permission_denied", `the key lacks the permission ${permission} on ${resource}`, { permission });
}

/** Throws unless the caller may: `missing` when it must not even know of the resource. */
function demand(caller: Caller, permission: string | null, resource: string, missing: () => Fault): void {
  const verdict = authorize(caller, permission, resource);
  if (verdict === "hidden") throw missing();
  if (verdict === "denied" && permission !== null) throw lacking(permission, resource);
}

/** `findQueue` keeps its own memory, if any. */
export function createAccess(deps: { store: Pick<Store, "run">; clock: Clock; findQueue: FindQueue }): ForgetfulAccess {
  const { store, clock, findQueue } = deps;
  const reached = new LRUCache<string, { project: ProjectRow; until: number }>({ max: 10_000 });
  /** Counts deletions: a look-up that was under way during one is not remembered. */
  let epoch = 0;

  const seenProject = async (caller: Caller, organizationId: string, projectId: string): Promise<ProjectRow> => {
    const handle = `${caller.keyId}\n${organizationId}\n${projectId}`;
    const remembered = reached.get(handle);
    if (remembered !== undefined && remembered.until > clock.now()) return remembered.project;
    const before = epoch;
    const { organization, project } = await store.run("findProject", organizationId, projectId);
    if (organization === null) throw organizationMissing();
    demand(caller, null, organization.name, organizationMissing);
    if (project === null) throw projectMissing();
    demand(caller, null, `${organization.name}/${project.name}`, projectMissing);
    if (before === epoch) reached.set(handle, { project, until: clock.now() + PROJECT_MEMORY_MS });
    return project;
  };

  return {
    async organization(caller, params, permission): Promise<OrganizationRow> {
      const organization = await store.run("findOrganization", params.organizationId);
      if (organization === null) throw organizationMissing();
      demand(caller, permission, organization.name, organizationMissing);
      return organization;
    },

    async project(caller, params, permission) {
      const project = await seenProject(caller, params.organizationId, params.projectId);
      demand(caller, permission, `${project.organization.name}/${project.name}`, projectMissing);
      return project;
    },

    async queue(caller, params, permission) {
      const project = await seenProject(caller, params.organizationId, params.projectId);
      const queues = `${project.organization.name}/${project.name}/queues/`;
      // A name can be judged without knowing whether there is such a queue, so that neither answer takes a look-up.
      if (!NOT_A_NAME.test(params.queueId)) demand(caller, null, queues + params.queueId, queueMissing);
      const queue = await findQueue(project.no, params.queueId);
      if (queue === null) throw queueMissing();
      demand(caller, permission, queues + queue.name, queueMissing);
      return { project, queue };
    },

    async application(caller, applicationId, permission) {
      const handle = `${caller.keyId}\n${applicationId ?? ""}`;
      const remembered = reached.get(handle);
      let project = remembered !== undefined && remembered.until > clock.now() ? remembered.project : undefined;
      if (project === undefined) {
        const before = epoch;
        const found = await store.run("findApplications", applicationId, caller.projectNo);
        const seen = found.filter(({ name, organization }) => authorize(caller, null, `${organization.name}/${name}`) === "allowed");
        if (applicationId === null && found.length > 1) throw invalid("applicationId", "is required where there are several projects");
        if (seen.length > 1) throw invalid("applicationId", "the id where several applications have this name", applicationId);
        project = seen[0];
        if (project === undefined) throw projectMissing();
        if (before === epoch) reached.set(handle, { project, until: clock.now() + PROJECT_MEMORY_MS });
      }
      demand(caller, permission, `${project.organization.name}/${project.name}`, projectMissing);
      return project;
    },

    async queueIn(caller, project, environment, reference, permission) {
      if (!NOT_A_NAME.test(reference)) demand(caller, null, queueResource(project, environment, reference), queueMissing);
      const queue = await findQueue(project.no, reference, environment);
      if (queue !== null) demand(caller, permission, queueResource(project, environment, queue.name), queueMissing);
      return queue;
    },

    demand,

    allows: (caller, permission, resource) => authorize(caller, permission, resource) === "allowed",

    forget(projectNo) {
      epoch += 1;
      for (const [handle, { project }] of reached.entries()) if (project.no === projectNo) reached.delete(handle);
    },
  };
}
