/** Handlers of messages through the Gigadrive door. A receive whose answer is lost gives its leases back (Q17). */
import { Fault, gigadriveShapes, shapes } from "@millrace/contract";
import { queueResource } from "../../identity/access.ts";
import type { Caller } from "../../identity/caller.ts";
import type { GigadriveMessages } from "../../queue/gigadrive-messages.ts";
import { isoTime } from "../../queue/settings.ts";
import type { QueueRow } from "../../store/types.ts";
import type { Handlers } from "../handler.ts";
import { validate } from "../validate.ts";
import { type GigadriveQueueDeps, makeQueue, PAGE } from "./queues.ts";

type Names =
  | "GigadriveSend"
  | "GigadriveListMessages"
  | "GigadriveReceive"
  | "GigadriveAckMessages"
  | "GigadriveGetMessage"
  | "GigadriveDeleteMessage"
  | "GigadriveAckMessage"
  | "GigadriveNackMessage"
  | "GigadriveExtendMessage";

const SEND = "queues.messages.send";

/** The handlers of messages. */
export function gigadriveMessageHandlers(deps: GigadriveQueueDeps & { gigadrive: GigadriveMessages }): Pick<Handlers, Names> {
  const { access, places, messages, gigadrive } = deps;

  /** The queue of a send, made where there is none and the caller may make it. */
  const queueToSend = async (
    caller: Caller,
    params: { applicationId: string; queueName: string },
    environment: string | undefined,
    autoCreate: boolean,
  ): Promise<QueueRow> => {
    try {
      return (await places.queue(caller, params, environment, SEND)).queue;
    } catch (error) {
      const missing = error instanceof Fault && error.code === "queue_not_found";
      if (!missing || !autoCreate || !shapes.queueName.safeParse(params.queueName).success) throw error;
      const place = await places.of(caller, params, environment);
      access.demand(caller, SEND, queueResource(place.project, place.environment, params.queueName), () => error);
      try {
        return await makeQueue(deps, caller, place, { name: params.queueName, source: "auto" }, null);
      } catch (failure) {
        if (!(failure instanceof Fault) || failure.code !== "queue_exists") throw failure;
        return (await places.queue(caller, params, environment, SEND)).queue;
      }
    }
  };

  return {
    async GigadriveSend({ caller, traceparent, idempotency }, { params, query, body }) {
      const { messages: batch, environment, autoCreate = true, ...single } = body;
      const queue = await queueToSend(caller, params, environment ?? query.environment, autoCreate);
      if (batch === undefined) {
        // Alone, a message at fault is a request at fault.
        gigadrive.check(queue, single);
        const [sent] = await gigadrive.send(queue, [single], traceparent, idempotency);
        if (sent === undefined) throw new Error("a send had no result");
        return sent;
      }
      const given = batch.map((message) => {
        try {
          return validate(gigadriveShapes.message, message, "body");
        } catch (error) {
          if (error instanceof Fault) return error;
          throw error;
        }
      });
      const results = await gigadrive.send(queue, given, traceparent, idempotency);
      return {
        results: results.map((result, i) => (result.error === undefined ? result : { ...result, error: `messages.${i}: ${result.error}` })),
      };
    },
    async GigadriveListMessages({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.messages.peek");
      const { state = null, offset = 0, limit = PAGE } = query;
      return gigadrive.list(queue, { state, offset, limit });
    },
    async GigadriveReceive(call, { params, query, body = {} }) {
      const { queue } = await places.queue(call.caller, params, body.environment ?? query.environment, "queues.messages.receive");
      const claimed = await messages.receive(queue, body, () => call.gone);
      if (claimed.length > 0) call.undelivered(() => messages.release(queue.no, claimed));
      const { visibilityTimeoutSeconds: seconds } = body;
      return { messages: gigadrive.leased(queue, claimed, seconds === undefined ? null : seconds * 1000) };
    },
    async GigadriveAckMessages({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.messages.ack");
      return gigadrive.ack(queue, body.messages);
    },
    async GigadriveGetMessage({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.messages.peek");
      return gigadrive.get(queue, params.messageId);
    },
    async GigadriveDeleteMessage({ caller }, { params, query }) {
      const { queue } = await places.queue(caller, params, query.environment, "queues.messages.delete");
      await gigadrive.delete(queue, params.messageId);
      return { deleted: true };
    },
    async GigadriveAckMessage({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.messages.ack");
      await gigadrive.ackOne(queue, params.messageId, body.receipt);
      return { messageId: params.messageId, acknowledged: true };
    },
    async GigadriveNackMessage({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.messages.ack");
      return gigadrive.nack(queue, params.messageId, body);
    },
    async GigadriveExtendMessage({ caller }, { params, query, body }) {
      const { queue } = await places.queue(caller, params, body.environment ?? query.environment, "queues.messages.ack");
      const until = await gigadrive.extend(queue, params.messageId, body.receipt, body.visibilityTimeoutSeconds);
      return { leaseExpiresAt: isoTime(until) };
    },
  };
}
