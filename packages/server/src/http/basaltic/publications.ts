/** Handlers of publishing and of what became of it: look up and authorize, then the topic's verbs. */
import { basalticShapes, Fault, invalid } from "@millrace/contract";
import { z } from "zod";
import type { Access } from "../../identity/access.ts";
import type { DeliveryRecords } from "../../topic/deliveries.ts";
import type { GivenPublication } from "../../topic/payload.ts";
import type { Publications } from "../../topic/publications.ts";
import { wireDelivery, wireNotification } from "../../topic/record-wire.ts";
import type { Call, Handlers } from "../handler.ts";
import { validate } from "../validate.ts";
import { type Account, type Accounts, keyWithin, topicResource } from "./account.ts";
import { PAGE, pageMeta, readMarker } from "./marker.ts";

type Names = "Publish" | "PublishBatch" | "GetNotification" | "ListDeliveries" | "GetDelivery" | "Redeliver";

const PUBLISH = "notifications.messages.publish";
const entryId = z.object({ id: z.string().min(1).max(128) });
const notificationMissing = (): Fault => new Fault("notification_not_found", "there is no such notification, or the key does not reach it");
const deliveryMissing = (): Fault => new Fault("delivery_not_found", "there is no such delivery, or the key does not reach it");

/** The ids of a batch's entries: without one of its own no entry could be told its result. */
function idsOf(entries: readonly unknown[]): string[] {
  const ids = entries.map((entry, i) => {
    const read = entryId.safeParse(entry);
    if (!read.success) throw invalid(`entries.${i}.id`, "must be text of 1 to 128 characters");
    return read.data.id;
  });
  ids.forEach((id, i) => {
    if (ids.indexOf(id) !== i) throw invalid(`entries.${i}.id`, "must be of no other entry", id);
  });
  return ids;
}

/** The entry as a publication, or what is wrong with it. */
function readEntry(entry: unknown): GivenPublication | Fault {
  try {
    return validate(basalticShapes.publish, entry, "body");
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

/** The handlers of publications and deliveries. */
export function publicationHandlers(deps: {
  access: Access;
  accounts: Accounts;
  publications: Publications;
  deliveries: DeliveryRecords;
}): Pick<Handlers, Names> {
  const { access, accounts, publications, deliveries } = deps;
  const permitted = (call: Call, { project }: Account, topicName: string, permission: string, missing: () => Fault): void =>
    access.demand(call.caller, permission, topicResource(project, topicName), missing);
  const delivery = async (call: Call, id: string, permission: string) => {
    const account = await accounts.of(call);
    const found = await deliveries.find(account.project.no, id);
    if (found === null) throw deliveryMissing();
    permitted(call, account, found.topicName, permission, deliveryMissing);
    return { account, row: found.row };
  };

  return {
    Publish: (call, { params, body }) =>
      accounts.onTopic(call, params.topic, PUBLISH, async (on) => ({
        notification: await publications.publish({ ...on, traceparent: call.traceparent }, body, keyWithin(call, on)),
      })),
    PublishBatch: (call, { params, body: { entries } }) =>
      accounts.onTopic(call, params.topic, PUBLISH, async (on) => {
        const ids = idsOf(entries);
        const into = { ...on, traceparent: call.traceparent };
        const results = await publications.publishEach(into, entries.map(readEntry), keyWithin(call, on));
        const gone = results.find((result) => result instanceof Fault && result.code === "topic_not_found");
        if (gone !== undefined && results.every((result) => result instanceof Fault)) throw gone;
        return {
          results: results.map((result, i) => {
            const id = ids[i] as string;
            return result instanceof Fault ? { id, error: { code: result.code, message: result.message } } : { id, notification: result };
          }),
        };
      }),
    async GetNotification(call, { params }) {
      const account = await accounts.of(call);
      const found = await deliveries.notification(account.project.no, params.messageId);
      if (found === null) throw notificationMissing();
      permitted(call, account, found.topicName, "notifications.messages.get", notificationMissing);
      return { notification: wireNotification(found.state, found.topicName, account.place) };
    },
    async ListDeliveries(call, { params, query: { state = null, limit = PAGE, marker } }) {
      const { subscription } = await accounts.subscription(call, params.subscriptionId, "notifications.deliveries.list");
      const list = `deliveries of ${subscription.no} ${state ?? ""}`;
      const before = readMarker(list, marker);
      const page = { state, limit, before: before === null ? null : Number(before) };
      const { deliveries: rows, next, total } = await deliveries.list(subscription, page);
      return { deliveries: rows.map(wireDelivery), meta: pageMeta(list, { total, limit, last: next }) };
    },
    async GetDelivery(call, { params }) {
      const { row } = await delivery(call, params.deliveryId, "notifications.deliveries.get");
      return { delivery: wireDelivery(row) };
    },
    async Redeliver(call, { params }) {
      const { account, row } = await delivery(call, params.deliveryId, "notifications.deliveries.redeliver");
      return { delivery: wireDelivery(await deliveries.redeliver(account.project.no, row.id, keyWithin(call, account))) };
    },
  };
}
