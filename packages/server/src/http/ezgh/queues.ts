/** Handlers of queues: look up and authorize, then the queue's verbs. */
import { Fault } from "@millrace/contract";
import type { Access } from "../../identity/access.ts";
import type { Caller, ProjectRow } from "../../identity/caller.ts";
import type { Messages } from "../../queue/messages.ts";
import type { Queues } from "../../queue/queue.ts";
import type { Redrives } from "../../queue/redrives.ts";
import type { QueueRow } from "../../store/types.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import type { Handlers } from "../handler.ts";

type Names =
  | "CreateQueue"
  | "ListQueues"
  | "GetQueue"
  | "UpdateQueue"
  | "DeleteQueue"
  | "GetQueueStats"
  | "PurgeQueue"
  | "RedriveMessages"
  | "GetRedrive"
  | "CancelRedrive";

/** What the handlers of queues and messages need. */
export interface QueueDeps {
  access: Access;
  queues: Queues;
  messages: Messages;
  redrives: Redrives;
}

/** How many entries a list shows unless asked (A3). */
export const PAGE = 50;

const within = (project: ProjectRow): string => `${project.organization.name}/${project.name}`;

/** The queue that a redrive policy names: one of the same project and within the key's reach. */
async function deadLetterOf(
  access: Access,
  caller: Caller,
  params: { organizationId: string; projectId: string },
  policy: { deadLetterQueueId: string } | null | undefined,
): Promise<QueueRow | null> {
  if (policy == null) return null;
  const path = "redrivePolicy.deadLetterQueueId";
  try {
    return (await access.queue(caller, { ...params, queueId: policy.deadLetterQueueId }, "queues.queues.get")).queue;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Fault(error.code, `${path}: ${error.message}`, { ...error.details, path });
  }
}

/** The handlers of queues, their purge and their redrives. */
export function queueHandlers({ access, queues, messages, redrives }: QueueDeps): Pick<Handlers, Names> {
  return {
    async CreateQueue({ caller, idempotency }, { params, body }) {
      const project = await access.project(caller, params, null);
      const permission = "queues.queues.create";
      if (!access.allows(caller, permission, `${within(project)}/queues/${body.name}`))
        throw new Fault("permission_denied", `The key lacks ${permission} on a queue of this name.`, { permission });
      try {
        const deadLetter = await deadLetterOf(access, caller, params, body.redrivePolicy);
        return await queues.create(project.no, body, deadLetter, idempotency);
      } catch (error) {
        // A repeat gets the first answer, even if the dead-letter queue it names is gone by now.
        const missing = error instanceof Fault && error.code === "queue_not_found" && idempotency !== null;
        const first = missing ? await queues.created(idempotency) : null;
        if (first === null) throw error;
        return first;
      }
    },
    async ListQueues({ caller }, { params, query }) {
      const project = await access.project(caller, params, null);
      const allowed = (resource: string): boolean => access.allows(caller, "queues.queues.list", resource);
      const everything = allowed(within(project));
      const list = `queues of ${project.no}`;
      const place = decodeCursor(list, query.cursor);
      const page = await queues.list(
        project.no,
        place === null ? null : String(place[0]),
        query.limit ?? PAGE,
        (queue) => everything || allowed(`${within(project)}/queues/${queue.name}`),
      );
      return { queues: page.queues, nextCursor: page.next === null ? null : encodeCursor(list, [page.next]) };
    },
    async GetQueue({ caller }, { params }) {
      const { queue } = await access.queue(caller, params, "queues.queues.get");
      return queues.show(queue);
    },
    async UpdateQueue({ caller }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.queues.update");
      return queues.update(queue, body, await deadLetterOf(access, caller, params, body.redrivePolicy));
    },
    async DeleteQueue({ caller }, { params }) {
      const { queue } = await access.queue(caller, params, "queues.queues.delete");
      await queues.delete(queue);
    },
    async GetQueueStats({ caller }, { params }) {
      const { queue } = await access.queue(caller, params, "queues.queues.get");
      return queues.stats(queue);
    },
    async PurgeQueue({ caller }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.queues.purge");
      return { purgedMessages: await messages.purge(queue, body?.scope ?? "all") };
    },
    async RedriveMessages({ caller, idempotency }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.messages.redrive");
      return redrives.start(queue, body ?? {}, idempotency);
    },
    async GetRedrive({ caller }, { params }) {
      const { queue } = await access.queue(caller, params, "queues.messages.redrive");
      return redrives.get(queue, params.redriveId);
    },
    async CancelRedrive({ caller }, { params }) {
      const { queue } = await access.queue(caller, params, "queues.messages.redrive");
      return redrives.cancel(queue, params.redriveId);
    },
  };
}
