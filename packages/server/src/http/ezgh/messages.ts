/** Handlers of messages: look up and authorize, then the message verbs. A receive whose answer is lost gives its leases back (Q17). */
import { wireReceived } from "../../queue/messages.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import type { Handlers } from "../handler.ts";
import { PAGE, type QueueDeps } from "./queues.ts";

type Names = "SendMessages" | "ReceiveMessages" | "AckMessages" | "ChangeVisibility" | "PeekMessages";

/** The handlers of messages. */
export function messageHandlers({ access, messages }: Pick<QueueDeps, "access" | "messages">): Pick<Handlers, Names> {
  return {
    async SendMessages({ caller, traceparent, idempotency }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.messages.send");
      return messages.send(queue, body.messages, traceparent, idempotency);
    },
    async ReceiveMessages(call, { params, body }) {
      const { queue } = await access.queue(call.caller, params, "queues.messages.receive");
      const claimed = await messages.receive(queue, body ?? {}, () => call.gone);
      if (claimed.length > 0) call.undelivered(() => messages.release(queue.no, claimed));
      return wireReceived(queue, claimed);
    },
    async AckMessages({ caller }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.messages.ack");
      return messages.ack(queue, body.receipts);
    },
    async ChangeVisibility({ caller }, { params, body }) {
      const { queue } = await access.queue(caller, params, "queues.messages.ack");
      return messages.changeVisibility(queue, body.receipts);
    },
    async PeekMessages({ caller }, { params, query }) {
      const { queue } = await access.queue(caller, params, "queues.messages.peek");
      const state = query.state ?? null;
      const list = `messages of ${queue.no} ${state}`;
      const place = decodeCursor(list, query.cursor);
      const page = await messages.peek(queue, state, place === null ? null : Number(place[0]), query.limit ?? PAGE);
      return { messages: page.messages, nextCursor: page.next === null ? null : encodeCursor(list, [page.next]) };
    },
  };
}
