/**
 * Resolves what a path names and checks the caller's permission on it, in one step: a handler cannot get at a row without having
 * been allowed to (A6). Outside the key's reach everything is "not found"; within it a missing permission is named.
 */
import type { QueueRow } from "../store/types.ts";
import type { Caller, OrganizationRow, ProjectRow } from "./caller.ts";

export interface Access {
  organization(caller: Caller, params: { organizationId: string }, permission: string | null): Promise<OrganizationRow>;
  project(caller: Caller, params: { organizationId: string; projectId: string }, permission: string | null): Promise<ProjectRow>;
  /** `permission` is checked on `<organization>/<project>/queues/<queue name>`. */
  queue(
    caller: Caller,
    params: { organizationId: string; projectId: string; queueId: string },
    permission: string,
  ): Promise<{ project: ProjectRow; queue: QueueRow }>;
  /** Whether the caller may, without a throw: for lists, which show only what a key reaches. */
  allows(caller: Caller, permission: string, resource: string): boolean;
}
