/**
 * Publishing (T3): reads what is given, stores it, and hands it to the fan-out. Answered once it is durable; publications that come at the
 * same time share a transaction.
 */
import { Fault } from "@millrace/contract";
import type { Clock } from "../clock.ts";
import type { Accepted, Notification, Publication } from "../store/notification.ts";
import { quotaExceeded } from "../store/quota-rules.ts";
import type { Store } from "../store/store.ts";
import type { TopicRow } from "../store/topic-rows.ts";
import type { IdempotencyKey } from "../store/types.ts";
import { type CrnPlace, topicCrn } from "./crn.ts";
import type { FanOut } from "./fan-out.ts";
import { createGather } from "./gather.ts";
import type { TopicMeter } from "./meter.ts";
import type { NotificationMemory } from "./notification-memory.ts";
import { type GivenPublication, readPublication, type WireAccepted } from "./payload.ts";

/** The topic that is published on, where it is, and the sender's W3C `traceparent`. */
export interface Into {
  topic: TopicRow;
  place: CrnPlace;
  traceparent: string | undefined;
}

export interface Publications {
  /** Throws `invalid_request`, `topic_not_found`, `quota_exceeded`, `overloaded`. */
  publish(into: Into, given: GivenPublication, key: IdempotencyKey | null): Promise<WireAccepted>;
  /** As `publish`, each with a result of its own in its place. What could not even be read comes as the fault it is. */
  publishEach(into: Into, given: readonly (GivenPublication | Fault)[], key: IdempotencyKey | null): Promise<(WireAccepted | Fault)[]>;
}

const BATCH_ROWS = 200;
const BATCH_BYTES = 4 * 1024 * 1024;
/** Publications that may wait to be stored, in bytes (A4). */
const WAITING_BYTES = 64 * 1024 * 1024;

const missing = (): Fault => new Fault("topic_not_found", "there is no such topic");

/** Makes the verbs of one server. */
export function createPublications(deps: {
  store: Store;
  clock: Clock;
  fanOut: FanOut;
  notifications: NotificationMemory;
  meter: TopicMeter;
}): Publications {
  const { store, clock, fanOut, notifications, meter } = deps;
  const write = createGather<Publication, Accepted>({
    run: (rows) => store.run("publishNotifications", rows),
    rows: BATCH_ROWS,
    bytes: BATCH_BYTES,
    width: store.engine === "sqlite" ? 1 : 2,
    sizeOf: ({ message }) => message.length + 1_000,
    waitingBytes: WAITING_BYTES,
  });

  /** Goes on with what was stored just now. */
  const follow = (row: Publication, accepted: Accepted, into: Into): void => {
    if ("refused" in accepted || accepted.deduplicated) return;
    meter.published({ crn: topicCrn(into.place, into.topic.name) });
    const { no, messageId, acceptedAt, version, members } = accepted;
    if (members === 0) return;
    const { topicNo, groupId, subject, attributes, structure, traceparent, message } = row;
    const notification: Notification = {
      ...{ no, messageId, topicNo, version, members, walked: 0, acceptedAt },
      ...{ groupId, subject, attributes, structure, traceparent, message },
    };
    notifications.keep(notification);
    fanOut.add(notification);
  };
  const wire = (accepted: Accepted): WireAccepted | Fault => {
    if ("refused" in accepted) return accepted.refused === "quota_exceeded" ? quotaExceeded(clock.now()) : missing();
    return { message_id: accepted.messageId, accepted_at: new Date(accepted.acceptedAt).toISOString() };
  };
  /** Stores rows: with a key, or where they have an order, all of them in one transaction. */
  const accept = async (into: Into, rows: readonly Publication[], key: IdempotencyKey | null): Promise<Accepted[]> => {
    if (key === null && (rows.length === 1 || !into.topic.fifo)) {
      const accepted = await Promise.all(rows.map(write));
      accepted.forEach((each, i) => {
        follow(rows[i] as Publication, each, into);
      });
      return accepted;
    }
    try {
      const { result, replayed } = await store.once(key, "publishTogether", rows);
      if (!replayed)
        result.forEach((each, i) => {
          follow(rows[i] as Publication, each, into);
        });
      return result;
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "quota_exceeded") throw error;
      return rows.map(() => ({ refused: "quota_exceeded" }));
    }
  };

  return {
    async publish(into, given, key) {
      const accepted = await accept(into, [readPublication(into.topic, given, into.traceparent)], key);
      const result = wire(accepted[0] as Accepted);
      if (result instanceof Fault) throw result;
      return result;
    },
    async publishEach(into, given, key) {
      const rows: Publication[] = [];
      const places = given.map((each): number | Fault => {
        if (each instanceof Fault) return each;
        try {
          return rows.push(readPublication(into.topic, each, into.traceparent)) - 1;
        } catch (error) {
          if (error instanceof Fault) return error;
          throw error;
        }
      });
      const accepted = rows.length === 0 ? [] : await accept(into, rows, key);
      return places.map((place) => (place instanceof Fault ? place : wire(accepted[place] as Accepted)));
    },
  };
}
