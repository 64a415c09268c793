/** Handlers of queues through the Gigadrive door: look up and authorize, then the queue's verbs. */
import { Fault, invalid, shapes } from "@millrace/contract";
import type { Consumers } from "../../consumer/consumer.ts";
import { type Access, queueResource } from "../../identity/access.ts";
import type { Caller } from "../../identity/caller.ts";
import { type GigadriveQueue, gigadriveChange, gigadriveDefaults } from "../../queue/gigadrive-settings.ts";
import type { Messages } from "../../queue/messages.ts";
import type { Queues } from "../../queue/queue.ts";
import type { Redrives } from "../../queue/redrives.ts";
import type { IdempotencyKey, QueueRow } from "../../store/types.ts";
import type { Handlers } from "../handler.ts";
import type { Place, Places } from "./place.ts";

type Names =
  | "GigadriveListQueues"
  | "GigadriveCreateQueue"
  | "GigadrivePutQueue"
  | "GigadriveGetQueue"
  | "GigadriveUpdateQueue"
  | "GigadriveDeleteQueue"
  | "GigadrivePauseQueue"
  | "GigadriveResumeQueue"
  | "GigadrivePurgeQueue"
  | "GigadriveRedrive";

/** What the handlers of queues need. */
export interface GigadriveQueueDeps {
  access: Access;
  places: Places;
  queues: Queues;
  messages: Messages;
  redrives: Redrives;
  consumers: Pick<Consumers, "refresh">;
}

type Settings = Parameters<typeof gigadriveChange>[0];

/** How many entries a list shows unless asked. */
export const PAGE = 50;
const CREATE = "queues.queues.create";

/** Makes a queue in a place for a caller who may. */
export async function makeQueue(
  { access, queues, consumers }: Pick<GigadriveQueueDeps, "access" | "queues" | "consumers">,
  caller: Caller,
  { project, environment }: Place,
  given: Settings & { name: string; type?: "standard" | "fifo" | undefined; database?: string | undefined; source: QueueRow["source"] },
  key: IdempotencyKey | null,
): Promise<QueueRow> {
  const { name, type = "standard", database, source } = given;
  const resource = queueResource(project, environment, name);
  access.demand(caller, CREATE, resource, () => new Fault("queue_not_found", "there is no such queue, or the key does not reach it"));
  const settings = { ...gigadriveDefaults, ...gigadriveChange(given, "list") };
  const queue = await queues.make({ projectNo: project.no, environment, name, type, database, settings, source }, key);
  if (settings.consumerPath !== null) await consumers.refresh(queue.no);
  return queue;
}

/** The handlers of queues. */
export function gigadriveQueueHandlers(deps: GigadriveQueueDeps): Pick<Handlers, Names> {
  const { access, places, queues, messages, redrives, consumers } = deps;
  const show = async (queue: QueueRow): Promise<GigadriveQueue> => queues.showGigadrive(queue);
  const change = async (queue: QueueRow, given: Settings): Promise<QueueRow> => {
    const changed = await queues.change(queue, gigadriveChange(given, queue.settings.deadLetter));
    if (queue.settings.consumerPath !== null || changed.settings.consumerPath !== null) await consumers.refresh(queue.no);
    return changed;
  };

  return {
    async GigadriveListQueues({ caller }, { params, query }) {
      const place = await places.of(caller, params, query.environment);
      await places.check(place);
      const found = await queues.all(place.project.no, place.environment, (queue) =>
        access.allows(caller, "queues.queues.list", queueResource(place.project, place.environment, queue.name)),
      );
      const { offset = 0, limit = PAGE } = query;
      return { items: await Promise.all(found.slice(offset, offset + limit).map(show)), total: found.length };
    },
    async GigadriveCreateQueue({ caller, idempotency }, { params, query, body }) {
      const place = await places.of(caller, params, body.environment ?? query.environment);
      await places.check(place);
      return show(await makeQueue(deps, caller, place, { ...body, source: "api" }, idempotency));
    },
    async GigadrivePutQueue({ caller }, { params, query, body = {} }) {
      const place = await places.of(caller, params, body.environment ?? query.environment);
      const find = () => access.queueIn(caller, place.project, place.environment, params.queueName, "queues.queues.update");
      let queue = await find();
      if (queue === null) {
        await places.check(place);
        const name = shapes.queueName.safeParse(params.queueName);
        if (!name.success) throw invalid("queueName", name.error.issues[0]?.message ?? "a queue's name", params.queueName);
        try {
          const made = await makeQueue(deps, caller, place, { ...body, name: name.data, source: "api" }, null);
          return { ...(await show(made)), created: true };
        } catch (error) {
          // Somebody else made it meanwhile.
          if (!(error instanceof Fault) || error.code !== "queue_exists") throw error;
          queue = await find();
          if (queue === null) throw error;
        }
      }
      return { ...(await show(await change(queue, body))), created: false };
    },
    async GigadriveGetQueue({ caller }, { params, query }) {
      return show((await places.queue(caller, params, query.environment, "queues.queues.get")).queue);
    },
    async GigadriveUpdateQueue({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.queues.update");
      return show(await change(queue, body));
    },
    async GigadriveDeleteQueue({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.queues.delete");
      const { ready, scheduled, waiting, inflight, dead } = await queues.stats(queue);
      await queues.delete(queue);
      if (queue.settings.consumerPath !== null) await consumers.refresh(queue.no);
      return { purgedMessages: ready + scheduled + waiting + inflight + dead };
    },
    async GigadrivePauseQueue({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body?.environment ?? query.environment, "queues.queues.update");
      return show(await change(queue, { paused: true }));
    },
    async GigadriveResumeQueue({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body?.environment ?? query.environment, "queues.queues.update");
      return show(await change(queue, { paused: false }));
    },
    async GigadrivePurgeQueue({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body?.environment ?? query.environment, "queues.queues.purge");
      return { purgedMessages: await messages.purge(queue, body?.scope ?? "all") };
    },
    async GigadriveRedrive({ caller, idempotency }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body?.environment ?? query.environment, "queues.messages.redrive");
      const { selected } = await redrives.start(queue, { messageIds: body?.messageIds ?? undefined }, idempotency);
      return { redrivenMessages: selected };
    },
  };
}
