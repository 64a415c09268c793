/** From what a path and an `environment` name to rows, for the Gigadrive door: an application is a project, absent is `production`. */
import { Fault } from "@millrace/contract";
import type { Environments } from "../../deployment/environment.ts";
import type { Access } from "../../identity/access.ts";
import type { Caller, ProjectRow } from "../../identity/caller.ts";
import type { QueueRow } from "../../store/types.ts";

/** An environment of an application that the caller reached. */
export interface Place {
  project: ProjectRow;
  /** Its slug. */
  environment: string;
}

/** Where calls of this door go to. */
export interface Places {
  /** Not looked up where it is named by its slug: who finds nothing there calls `missing`. */
  of(caller: Caller, params: { applicationId: string }, environment: string | undefined): Promise<Place>;
  /** Throws `environment_not_found` when there is no such environment. */
  check(place: Place): Promise<void>;
  /** The queue, once the caller was allowed to; throws `queue_not_found`, `environment_not_found`. */
  queue(
    caller: Caller,
    params: { applicationId: string; queueName: string },
    environment: string | undefined,
    permission: string,
  ): Promise<Place & { queue: QueueRow }>;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Makes the look-ups. */
export function createPlaces({ access, environments }: { access: Access; environments: Environments }): Places {
  const of: Places["of"] = async (caller, params, environment = caller.environment ?? "production") => {
    const project = await access.application(caller, params.applicationId, null);
    return { project, environment: UUID.test(environment) ? (await environments.find(project.no, environment)).slug : environment };
  };
  const check: Places["check"] = async ({ project, environment }) => {
    if (environment !== "production") await environments.find(project.no, environment);
  };
  return {
    of,
    check,
    async queue(caller, params, environment, permission) {
      const place = await of(caller, params, environment);
      const queue = await access.queueIn(caller, place.project, place.environment, params.queueName, permission);
      if (queue !== null) return { ...place, queue };
      await check(place);
      throw new Fault("queue_not_found", "there is no such queue, or the key does not reach it");
    },
  };
}
