import { createHash } from "node:crypto";
import { expect, it } from "vitest";
import type { Notification } from "../store/notification.ts";
import { failedContent, partsFor, subscribedContent } from "./content.ts";

const topic = { name: "orders", crn: "crn:millrace:notifications:local:acme:topic/orders", fifo: false };
const group = createHash("sha256").update(topic.crn).digest("hex");
const notification = (given: Partial<Notification> = {}): Notification => ({
  ...{ no: 1, messageId: "m", topicNo: 2, version: 3, members: 4, walked: 0, acceptedAt: 0, groupId: null, subject: null },
  ...{ attributes: null, structure: null, traceparent: null, message: new TextEncoder().encode("text") },
  ...given,
});
const to = { subscriptionId: "s", protocol: "queue", unsubscribeUrl: "https://millrace.example.com/u" } as const;
const text = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes));

it("T9: a FIFO queue gets group and deduplication id, a standard one neither; a FIFO topic's own group comes first", () => {
  const content = (given: Partial<Notification>, fifo: boolean) =>
    subscribedContent(notification(given), partsFor(notification(given), topic, to), { queueNo: 9, fifo });
  expect(content({}, true)).toMatchObject({ queueNo: 9, groupKey: group, dedupId: "m" });
  expect(content({ groupId: "g" }, true)).toMatchObject({ groupKey: "g", dedupId: "m" });
  expect(content({ groupId: "g" }, false)).toMatchObject({ groupKey: null, dedupId: null });
  expect(text(content({}, false).body)).toMatchObject({ type: "notification", message: "text" });
});

it("T9: of the notification's attributes go along those that a queue takes, ten with the ids, none in an id's place", () => {
  const own = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`a${i}`, { type: "Number", value: i } as const]));
  const given = notification({ attributes: { message_id: "forged", "not a name": "x", long: "x".repeat(1_025), ...own } });
  const { attributes } = subscribedContent(given, partsFor(given, topic, to), { queueNo: 9, fifo: false });
  expect(JSON.parse(attributes ?? "{}")).toEqual({
    ...{ message_id: "m", topic_crn: topic.crn, subscription_id: "s" },
    ...{ a0: "0", a1: "1", a2: "2", a3: "3", a4: "4", a5: "5", a6: "6" },
  });
});

it("P6: the sender's trace goes on in the queue", () => {
  const given = notification({ traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
  const { meta } = subscribedContent(given, partsFor(given, topic, to), { queueNo: 9, fifo: false });
  expect(JSON.parse(meta ?? "{}")).toMatchObject({ contentType: "application/json", traceparent: given.traceparent });
});

it("T13, TOPIC-06: a dead letter's deduplication id is the delivery's, its group the topic's, whatever the publication's", () => {
  const given = notification({ groupId: "g" });
  const failure = { deliveryId: "d", attempts: 2, failedAt: 5, lastError: { class: "timeout", message: "late" } };
  const content = failedContent(given, partsFor(given, topic, to), { queueNo: 9, fifo: true }, failure);
  expect(content).toMatchObject({ groupKey: group, dedupId: "d" });
  expect(text(content.body)).toMatchObject({ type: "notification_failure", delivery_id: "d", attempts: 2, last_error: failure.lastError });
});
