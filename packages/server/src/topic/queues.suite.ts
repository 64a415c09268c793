/** Topics into queues on one engine: the envelope, order on FIFO topics, filters, and queues that take nothing. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, faultOf } from "../queue/world.suite.ts";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

/** The suite of one engine. */
export function topicQueuesSuite(engine: Engine): void {
  describe(`topics into queues on ${engine}`, () => {
    let t: TopicWorld;
    beforeAll(async () => {
      t = await openTopicWorld(engine);
    });
    afterAll(() => t.close());

    const receive = async (queueId: string) => (await t.world.call("ReceiveMessages", { queueId }, { maxMessages: 10 })).messages;
    const drain = async (queueId: string) => {
      const all = [];
      for (let batch = await receive(queueId); batch.length > 0; batch = await receive(queueId)) {
        all.push(...batch);
        await t.world.call("AckMessages", { queueId }, { receipts: batch.map(({ receipt }) => receipt) });
      }
      return all;
    };
    const texts = (messages: readonly { body?: string | undefined }[]): string[] =>
      messages.map(({ body }) => (JSON.parse(body as string) as { message: string }).message);

    it("T5, T9, TOPIC-01: a queue gets the envelope, raw or not, with the ids and what fits of the attributes", async () => {
      const topic = await t.topic();
      const { subscription, queueId } = await t.queue(topic, { name: "standard" }, { raw_message_delivery: true });
      const attributes = {
        plain: "x",
        n: { type: "Number", value: 7 },
        list: { type: "String.Array", value: ["a", 1] },
        "no name for a queue": "y",
        long: "z".repeat(1_025),
      };
      const messageId = await t.publish(topic, { message: "m", subject: "s", attributes });
      await t.rest();
      const [message] = await receive(queueId);
      expect(JSON.parse(message?.body as string)).toMatchObject({
        type: "notification",
        message_id: messageId,
        message: "m",
        subject: "s",
        attributes,
      });
      const ids = { message_id: messageId, topic_crn: subscription.topic_crn, subscription_id: subscription.id };
      expect(message?.attributes).toEqual({ ...ids, plain: "x", n: "7", list: '["a",1]' });
      expect(message?.groupId).toBeUndefined();
      expect(await t.records(subscription.id)).toMatchObject([
        { state: "delivered", attempts: 1, message_id: messageId, last_error: null },
      ]);
    });

    it("T9: a FIFO queue gets the topic's group and the message id as deduplication id", async () => {
      const topic = await t.topic();
      const { subscription, queueId } = await t.queue(topic, { name: "ordered", type: "fifo" });
      const ids = [await t.publish(topic, "one"), await t.publish(topic, "two")];
      await t.rest();
      const messages = await drain(queueId);
      const group = createHash("sha256").update(subscription.topic_crn).digest("hex");
      expect(messages.map(({ groupId }) => groupId)).toEqual([group, group]);
      const sent = { body: "again", groupId: group, dedupId: ids[0] as string };
      const again = await t.world.call("SendMessages", { queueId }, { messages: [sent] });
      expect(again.messages[0]?.deduplicated).toBe(true);
    });

    it("T3, T18: a FIFO topic keeps the order of each group, and a repeated deduplication id answers the first publication", async () => {
      const topic = await t.topic({ fifo: true });
      const { queueId } = await t.queue(topic, { name: "fifo-topic", type: "fifo" });
      const body = (message: string, group: string) => ({ message, message_group_id: group });
      const wanted = Array.from({ length: 40 }, (_, i) => `${i % 2} ${i}`);
      // Each batch follows on the answer to the one before, while that is still being fanned out.
      for (let from = 0; from < wanted.length; from += 8) {
        const entries = wanted.slice(from, from + 8).map((text) => ({ id: text, ...body(text, text.slice(0, 1)) }));
        await t.call("PublishBatch", { topic }, { entries });
      }
      await t.rest();
      const got = texts(await drain(queueId));
      for (const group of ["0", "1"])
        expect(got.filter((text) => text.startsWith(group))).toEqual(wanted.filter((text) => text.startsWith(group)));
      const twice = { ...body("once", "0"), message_deduplication_id: "d" };
      const [first, second] = [await t.publish(topic, twice), await t.publish(topic, twice)];
      expect(second).toBe(first);
      await t.pass(300_001);
      expect(await t.publish(topic, twice)).not.toBe(first);
      expect(await faultOf(t.publish(topic, "no group"))).toMatchObject({ details: { path: "message_group_id" } });
    });

    it("T9, T12, T18: a full queue is tried again by the retry policy, in order, and gets everything once there is room", async () => {
      const topic = await t.topic({ fifo: true });
      const { subscription, queueId } = await t.queue(topic, { name: "small", type: "fifo", maxBytes: 1_500 });
      for (const message of ["1", "2", "3"]) await t.publish(topic, { message: message.repeat(400), message_group_id: "g" });
      await t.rest();
      expect((await t.records(subscription.id)).map(({ state }) => state)).toEqual(["delivered", "pending", "pending"]);
      expect((await t.records(subscription.id))[1]).toMatchObject({ attempts: 1, last_error: { class: "full" } });
      const got: string[] = [];
      for (let round = 0; round < 8 && got.length < 3; round++) {
        got.push(...texts(await drain(queueId)));
        await t.pass(8_000);
      }
      expect(got.map((text) => text[0])).toEqual(["1", "2", "3"]);
      expect((await t.records(subscription.id)).map(({ state }) => state)).toEqual(["delivered", "delivered", "delivered"]);
    });

    it("T9, T13: a queue that was deleted ends the delivery, with its dead letter", async () => {
      const topic = await t.topic();
      const { id: letters } = await t.world.call("CreateQueue", {}, { name: "letters" });
      const { subscription, queueId } = await t.queue(topic, { name: "doomed" }, { redrive_policy: { dead_letter_queue: letters } });
      await t.world.call("DeleteQueue", { queueId });
      await t.publish(topic, "m");
      await t.rest();
      expect(await t.records(subscription.id)).toMatchObject([
        { state: "failed", last_error: { class: "missing" }, dead_letter: "stored" },
      ]);
      expect(JSON.parse((await receive(letters))[0]?.body as string)).toMatchObject({
        type: "notification_failure",
        notification: { message: "m" },
        last_error: { class: "missing" },
      });
    });

    it("T10, TOPIC-02: only who matches gets a record, and a changed filter counts from the next publication", async () => {
      const topic = await t.topic();
      const { subscription: gold } = await t.queue(topic, { name: "gold" }, { filter_policy: { tier: ["gold"], region: ["eu"] } });
      const { subscription: text } = await t.queue(topic, { name: "text" }, { filter_policy: { n: ["7"] } });
      const { subscription: body } = await t.queue(
        topic,
        { name: "body" },
        { filter_policy: { order: { total: [{ numeric: [">", 10] }] } }, filter_policy_scope: "message" },
      );
      const publish = (tier: string, message = "{}") =>
        t.publish(topic, { message, attributes: { tier, region: "eu", n: { type: "Number", value: 7 } } });
      const first = await publish("silver", '{"order": {"total": 11}}');
      await t.rest();
      expect((await t.call("GetNotification", { messageId: first })).notification).toMatchObject({
        state: "complete",
        matched: 1,
        filtered_out: 2,
        delivered: 1,
      });
      await publish("gold");
      await t.rest();
      await t.call("UpdateTopicSubscription", { subscriptionId: gold.id }, { filter_policy: { tier: ["silver"] } });
      await t.call("UpdateTopicSubscription", { subscriptionId: text.id }, { filter_policy: null });
      const last = await publish("gold");
      await t.rest();
      const of = async (id: string) => (await t.records(id)).map(({ message_id }) => message_id);
      expect([(await of(gold.id)).length, await of(text.id), await of(body.id)]).toEqual([1, [last], [first]]);
    });

    it("T17: figures of a topic: published, matched, filtered, delivered, failed, attempts by class, latency", async () => {
      const topic = await t.topic();
      const { subscription } = await t.queue(topic, { name: "figures" });
      await t.queue(topic, { name: "figures-filtered" }, { filter_policy: { a: ["b"] } });
      await t.webhook(topic, "figures", { retry_policy: { max_attempts: 2 } });
      t.endpoint.answer({ status: 500 });
      await t.publish(topic, "m");
      await t.pass(1_000);
      t.endpoint.answer({});
      const figures = await t.metrics();
      const value = (name: string, labels = "") =>
        Number(
          figures
            .split("\n")
            .find((line) => line.startsWith(`millrace_topic_${name}{topic="${subscription.topic_crn}"${labels}} `))
            ?.split(" ")
            .at(-1),
        );
      expect({
        published: value("published_total"),
        matched: value("matched_total"),
        filtered: value("filtered_total"),
        delivered: value("delivered_total"),
        failed: value("failed_total"),
        http: value("attempts_total", ',result="http"'),
        latency: value("delivery_seconds_count"),
      }).toEqual({ published: 1, matched: 2, filtered: 1, delivered: 1, failed: 1, http: 2, latency: 1 });
    });

    it("T12, A3: records are listed newest first, page by page, and the last page says that nothing follows", async () => {
      const topic = await t.topic();
      const { subscription } = await t.queue(topic, { name: "listed" });
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) {
        ids.unshift(await t.publish(topic, String(i)));
        // Fan-outs of a standard topic may overtake each other.
        await t.rest();
      }
      for (const state of [undefined, "delivered"]) {
        const page = async (marker?: string) => {
          const query = { limit: "2", ...(state === undefined ? {} : { state }), ...(marker === undefined ? {} : { marker }) };
          const answer = await t.call("ListDeliveries", { subscriptionId: subscription.id }, undefined, { query });
          return { ids: answer.deliveries.map((each) => each.message_id), meta: answer.meta };
        };
        const first = await page();
        expect(first).toMatchObject({ ids: ids.slice(0, 2), meta: { total: 4, limit: 2, has_more: true } });
        expect(await page(first.meta.marker as string)).toEqual({
          ids: ids.slice(2),
          meta: { total: 4, limit: 2, marker: null, has_more: false },
        });
      }
    });
  });
}
