/** Applies a declared section of queues for a caller: every change needs the right that it would need alone (A6, C10). */
import { Fault } from "@millrace/contract";
import { type Access, queueResource } from "../../identity/access.ts";
import type { Caller } from "../../identity/caller.ts";
import type { Change, Plan, Provision } from "../../provision/provision.ts";
import type { Handlers } from "../handler.ts";
import type { Place, Places } from "./place.ts";

const rights: Record<Change["kind"], Record<Change["action"], string>> = {
  queue: {
    create: "queues.queues.create",
    change: "queues.queues.update",
    unchanged: "queues.queues.get",
    remove: "queues.queues.delete",
  },
  schedule: {
    create: "queues.schedules.create",
    change: "queues.schedules.update",
    unchanged: "queues.schedules.list",
    remove: "queues.schedules.delete",
  },
};

/** Plans a section for a caller; throws before anything is changed when a right is missing. `field` is where the section came. */
export type PlanFor = (caller: Caller, place: Place, section: unknown, prune: boolean, field: string) => Promise<Plan>;

/** Makes the check of rights around the planner. */
export function createPlanFor({ access, provision }: { access: Access; provision: Provision }): PlanFor {
  return async (caller, { project, environment }, section, prune, field) => {
    const plan = await provision.plan({ projectNo: project.no, environment }, section, prune, field);
    for (const { kind, action, queue } of plan.changes)
      access.demand(
        caller,
        rights[kind][action],
        queueResource(project, environment, queue),
        () => new Fault("queue_not_found", `there is no queue ${queue}, or the key does not reach it`),
      );
    return plan;
  };
}

/** The handler of declared queues. */
export function configHandlers({ places, planFor }: { places: Places; planFor: PlanFor }): Pick<Handlers, "ApplyConfig"> {
  return {
    async ApplyConfig({ caller }, { params, query, body }) {
      const place = await places.of(caller, params, body.environment ?? query.environment);
      await places.check(place);
      const plan = await planFor(caller, place, body.queues, body.prune ?? false, "queues");
      if (body.check !== true) await plan.apply();
      return { applied: body.check !== true, changes: plan.changes };
    },
  };
}
