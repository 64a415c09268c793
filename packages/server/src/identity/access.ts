/**
 * Resolves what a path names and checks the caller's permission on it, in one step: a handler cannot get at a row without having
 * been allowed to (A6). Outside the key's reach everything is "not found"; within it a missing permission is named.
 */
import type { Fault } from "@millrace/contract";
import type { QueueRow } from "../store/types.ts";
import type { Caller, OrganizationRow, ProjectRow } from "./caller.ts";

export interface Access {
  organization(caller: Caller, params: { organizationId: string }, permission: string | null): Promise<OrganizationRow>;
  project(caller: Caller, params: { organizationId: string; projectId: string }, permission: string | null): Promise<ProjectRow>;
  /**
   * A project by the id or name that the Gigadrive door calls an application's and the Basaltic door an account's; `null` means the
   * key's own, or the only one there is. Throws `project_not_found`, `invalid_request` where several are meant.
   */
  application(caller: Caller, applicationId: string | null, permission: string | null): Promise<ProjectRow>;
  /** A queue of one environment (by slug) of a project that the caller reached; `null` when there is none that it may know of. */
  queueIn(caller: Caller, project: ProjectRow, environment: string, reference: string, permission: string): Promise<QueueRow | null>;
  /** `permission` is checked on `<organization>/<project>/queues/<queue name>`. */
  queue(
    caller: Caller,
    params: { organizationId: string; projectId: string; queueId: string },
    permission: string,
  ): Promise<{ project: ProjectRow; queue: QueueRow }>;
  /** Whether the caller may, without a throw: for lists, which show only what a key reaches. */
  allows(caller: Caller, permission: string, resource: string): boolean;
  /** Throws unless the caller may: `missing` when it must not even know of the resource. `null` asks only whether it does. */
  demand(caller: Caller, permission: string | null, resource: string, missing: () => Fault): void;
}

/** The resource that an environment is, by its slug. */
export function environmentResource(project: ProjectRow, environment: string): string {
  return `${project.organization.name}/${project.name}/environments/${environment}`;
}

/** The resource that a queue is: those of `production` stand right below their project, as the EZGH door has them. */
export function queueResource(project: ProjectRow, environment: string, name: string): string {
  const within = environment === "production" ? `${project.organization.name}/${project.name}` : environmentResource(project, environment);
  return `${within}/queues/${name}`;
}
