/**
 * Handlers of subscriptions. Each permission is checked on the subscription's queue; a subscription whose queue is outside the key's
 * reach does not exist for it (A6).
 */
import { Fault, type Input, type Operations } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { Caller } from "../../identity/caller.ts";
import type { SubscriptionRow, Subscriptions } from "../../subscription/subscription.ts";
import type { Handlers } from "../handler.ts";
import { createAppReach, type FindApp } from "../workflows/reach.ts";

type Names =
  | "CreateSubscription"
  | "ListSubscriptions"
  | "GetSubscription"
  | "UpdateSubscription"
  | "DeleteSubscription"
  | "PauseSubscription"
  | "ResumeSubscription"
  | "RotateSubscriptionSecret"
  | "ListAttempts";

interface Params {
  organizationId: string;
  projectId: string;
  subscriptionId: string;
}

/** A target as a body has it. */
type GivenTarget = Input<Operations["CreateSubscription"]>["body"]["target"];

/** The handlers of subscriptions and their attempts. */
export function subscriptionHandlers(deps: { access: Access; subscriptions: Subscriptions; findApp: FindApp }): Pick<Handlers, Names> {
  const { access, subscriptions } = deps;
  const reach = createAppReach(access, deps.findApp);

  /** The target to store: starting and resuming runs is done in the name of whoever made the subscription (W12, W14). */
  const targetOf = async (caller: Caller, params: Omit<Params, "subscriptionId">, given: GivenTarget) => {
    if (given.kind === "https") return given;
    try {
      const { app } = await reach.workflow(caller, { ...params, appId: given.appId }, given.workflow, `workflows.runs.${given.mode}`);
      if (given.mode === "start") return { ...given, appId: app.id };
      return { ...given, appId: app.id, keepUnmatchedSeconds: given.keepUnmatchedSeconds ?? 0 };
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "app_not_found") throw error;
      throw new Fault(error.code, `target.appId: ${error.message}`, { ...error.details, path: "target.appId" });
    }
  };

  /** The subscription that a path names, once the caller was allowed to. */
  const found = async (caller: Caller, params: Params, permission: string): Promise<SubscriptionRow> => {
    const project = await access.project(caller, params, null);
    const row = await subscriptions.find(project.no, params.subscriptionId);
    try {
      await access.queue(caller, { ...params, queueId: row.queueId }, permission);
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "queue_not_found") throw error;
      throw new Fault("subscription_not_found", `there is no subscription ${params.subscriptionId.slice(0, 100)} in this project`);
    }
    return row;
  };

  return {
    async CreateSubscription({ caller, idempotency }, { params, body }) {
      const { queue } = await access.queue(caller, { ...params, queueId: body.queueId }, "queues.subscriptions.create");
      const target = await targetOf(caller, params, body.target);
      return subscriptions.create(queue, { ...body, target }, idempotency);
    },
    async ListSubscriptions({ caller }, { params, query }) {
      const permission = "queues.subscriptions.list";
      const { queueId, limit, cursor } = query;
      if (queueId !== undefined) {
        const { project, queue } = await access.queue(caller, { ...params, queueId }, permission);
        return subscriptions.list(project.no, { queueNo: queue.no, limit, cursor }, () => true);
      }
      const project = await access.project(caller, params, null);
      const within = `${project.organization.name}/${project.name}`;
      const shows = (name: string): boolean => access.allows(caller, permission, `${within}/queues/${name}`);
      return subscriptions.list(project.no, { queueNo: null, limit, cursor }, shows);
    },
    async GetSubscription({ caller }, { params }) {
      return subscriptions.show(await found(caller, params, "queues.subscriptions.get"));
    },
    async UpdateSubscription({ caller }, { params, body }) {
      const row = await found(caller, params, "queues.subscriptions.update");
      if (body.target === undefined) return subscriptions.update(row, { ...body, target: undefined });
      return subscriptions.update(row, { ...body, target: await targetOf(caller, params, body.target) });
    },
    async DeleteSubscription({ caller }, { params }) {
      await subscriptions.delete(await found(caller, params, "queues.subscriptions.delete"));
    },
    async PauseSubscription({ caller }, { params }) {
      return subscriptions.pause(await found(caller, params, "queues.subscriptions.pause"));
    },
    async ResumeSubscription({ caller }, { params }) {
      return subscriptions.resume(await found(caller, params, "queues.subscriptions.pause"));
    },
    async RotateSubscriptionSecret({ caller, idempotency }, { params }) {
      return subscriptions.rotate(await found(caller, params, "queues.subscriptions.update"), idempotency);
    },
    async ListAttempts({ caller }, { params, query }) {
      return subscriptions.attempts(await found(caller, params, "queues.subscriptions.get"), query);
    },
  };
}
