/** The six ways in which a notification does not arrive, and what the explanation says of each, on one engine (T16). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, faultOf } from "../queue/world.suite.ts";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

/** The suite of one engine. */
export function explainSuite(engine: Engine): void {
  describe(`explanations on ${engine}`, () => {
    let t: TopicWorld;
    beforeAll(async () => {
      t = await openTopicWorld(engine);
    });
    afterAll(() => t.close());

    const explain = (messageId: string, query: Record<string, unknown> = {}) =>
      t.call("ExplainNotification", { messageId }, undefined, { query });
    /** The verdict on one subscription. */
    const verdict = async (messageId: string, subscriptionId: string) => {
      const { verdicts } = await explain(messageId, { subscription_id: subscriptionId });
      return verdicts[0];
    };

    it("T16: accepted: an unknown or made-up id is told as such, an accepted one with its fan-out", async () => {
      const topic = await t.topic();
      const messageId = await t.publish(topic, "hello");
      expect(await faultOf(explain("01999f51-2b3c-7d4e-9f50-6b7c8d9e0f1a"))).toMatchObject({ code: "notification_not_found" });
      expect(await faultOf(explain("nothing"))).toMatchObject({ code: "notification_not_found" });
      const { notification, verdicts } = await explain(messageId);
      expect(notification).toMatchObject({ message_id: messageId, topic_name: topic, state: "complete", matched: 0, filtered_out: 0 });
      expect(verdicts).toEqual([]);
    });

    it("T1, T16: one subscription is asked for by its id, in any case, or its CRN; a CRN that leads elsewhere names none", async () => {
      const topic = await t.topic();
      const { subscription } = await t.queue(topic, { name: "asked-for" });
      await t.queue(topic, { name: "beside" });
      const messageId = await t.publish(topic, "hello");
      for (const reference of [subscription.id, subscription.id.toUpperCase(), subscription.crn]) {
        const { verdicts, meta } = await explain(messageId, { subscription_id: reference });
        expect([verdicts.map((each) => each.subscription_id), meta.total]).toEqual([[subscription.id], 1]);
      }
      for (const reference of [subscription.crn.replace(":local:", ":elsewhere:"), "crn:nonsense", "nonsense"])
        expect(await faultOf(explain(messageId, { subscription_id: reference }))).toMatchObject({ code: "subscription_not_found" });
    });

    it("T16: confirmed: a webhook that never followed its link, or did later, got nothing", async () => {
      const topic = await t.topic();
      const body = { protocol: "webhook", endpoint: t.url("never") };
      const { subscription: never } = await t.call("CreateTopicSubscription", { topic }, body);
      const messageId = await t.publish(topic, "hello");
      await t.rest();
      await t.world.pass(1_000);
      const later = await t.webhook(topic, "later");
      expect(await verdict(messageId, never.id)).toMatchObject({
        outcome: "not_confirmed",
        subscription: { state: "pending", confirmed_at: null, confirmable_until: expect.any(String) },
        explanation: expect.stringContaining("has to follow the link"),
        delivery: null,
      });
      expect(await verdict(messageId, later.id)).toMatchObject({ outcome: "subscribed_later", delivery: null });
    });

    it("T16: filtered: the failing key is named with what was expected beside what came, of the filter of the publication", async () => {
      const topic = await t.topic();
      const filter = { store: ["berlin"], price: [{ numeric: ["<", 100] }] };
      const { subscription } = await t.queue(topic, { name: "filtered" }, { filter_policy: filter });
      const messageId = await t.publish(topic, { message: "m", attributes: { store: "paris", price: { type: "Number", value: 5 } } });
      await t.rest();
      const expected = {
        outcome: "filtered_out",
        explanation: 'Filtered out: store is "paris" where the filter wants "berlin".',
        filter: {
          matched: false,
          failures: [{ key: "store", reason: "different", expected: ["berlin"], got: "paris" }],
          policy: filter,
          scope: "attributes",
          as_of: "publication",
          changed_since: false,
        },
        delivery: null,
      };
      expect(await verdict(messageId, subscription.id)).toMatchObject(expected);
      expect((await explain(messageId)).notification).toMatchObject({ matched: 0, filtered_out: 1 });

      await t.call("UpdateTopicSubscription", { subscriptionId: subscription.id }, { filter_policy: { store: ["paris"] } });
      expect(await verdict(messageId, subscription.id)).toMatchObject({
        ...expected,
        explanation: `${expected.explanation} The filter was changed since.`,
        filter: { ...expected.filter, changed_since: true },
      });
      await t.chore("old memberships");
      expect(await verdict(messageId, subscription.id)).toMatchObject({
        outcome: "filtered_out",
        explanation: "Filtered out by a filter that was changed since; it would pass as it is now.",
        filter: { matched: true, as_of: "now", changed_since: true },
      });
    });

    it("T16: recorded: attempts, the last error and the next attempt, then the failure and where its envelope went", async () => {
      const topic = await t.topic();
      const { id: deadLetters } = await t.world.call("CreateQueue", {}, { name: "failures" });
      const given = { retry_policy: { max_attempts: 2 }, redrive_policy: { dead_letter_queue: deadLetters } };
      const subscription = await t.webhook(topic, "failing", given);
      t.endpoint.answer({ status: 503 });
      const messageId = await t.publish(topic, "hello");
      await t.rest();
      expect(await verdict(messageId, subscription.id)).toMatchObject({
        outcome: "pending",
        explanation: expect.stringMatching(/^Not delivered after 1 attempt: HTTP 503; the next one is at 20/),
        delivery: { state: "pending", attempts: 1, last_status: 503, last_error: { class: "http", status: 503 } },
      });
      await t.pass(2_000);
      expect(await verdict(messageId, subscription.id)).toMatchObject({
        outcome: "failed",
        explanation: "Failed for good after 2 attempts: HTTP 503. The dead-letter queue has it.",
        delivery: { state: "failed", attempts: 2, dead_letter: "stored" },
      });
      t.endpoint.answer({ status: 204 });
    });

    it("T16: the webhook's status: its latest error and success, and whether its signing key can be read", async () => {
      const topic = await t.topic();
      const subscription = await t.webhook(topic, "wrong-path");
      t.endpoint.answer({ status: 404 });
      const messageId = await t.publish(topic, "hello");
      await t.rest();
      expect(await verdict(messageId, subscription.id)).toMatchObject({
        outcome: "failed",
        webhook: {
          url: t.url("wrong-path"),
          failing: true,
          last_error: { class: "http", status: 404 },
          signing_key: "readable",
        },
        queue: null,
      });
      t.endpoint.answer({ status: 204 });
      const second = await t.publish(topic, "again");
      await t.rest();
      expect(await verdict(second, subscription.id)).toMatchObject({
        outcome: "delivered",
        webhook: { failing: false, last_success_at: expect.any(String) },
      });
    });

    it("T16: the queue's availability: paused, leased away, full, deleted", async () => {
      const topic = await t.topic();
      const { subscription, queueId } = await t.queue(topic, { name: "standing", maxBytes: 2_500 });
      const messageId = await t.publish(topic, "x".repeat(300));
      await t.rest();
      const standing = async (id = messageId) => verdict(id, subscription.id);
      expect(await standing()).toMatchObject({
        outcome: "delivered",
        webhook: null,
        queue: { id: queueId, name: "standing", state: "available", ready: 1, leased: 0, encryption_key: "readable" },
      });
      await t.world.call("ReceiveMessages", { queueId }, {});
      expect(await standing()).toMatchObject({
        explanation: expect.stringContaining("1 of its messages is leased by consumers."),
        queue: { ready: 0, leased: 1 },
      });
      await t.world.call("UpdateQueue", { queueId }, { paused: true });
      expect(await standing()).toMatchObject({ explanation: expect.stringContaining("The queue is paused"), queue: { state: "paused" } });
      await t.world.call("UpdateQueue", { queueId }, { paused: false });

      const refused = await t.publish(topic, "y".repeat(1_500));
      await t.rest();
      expect(await standing(refused)).toMatchObject({
        outcome: "pending",
        explanation: expect.stringContaining("The queue is full"),
        delivery: { last_error: { class: "full" } },
        queue: { state: "full" },
      });
      await t.world.call("DeleteQueue", { queueId });
      expect(await standing()).toMatchObject({
        outcome: "delivered",
        explanation: expect.stringContaining("The queue was deleted."),
        queue: { id: queueId, name: null, state: "deleted" },
      });
    });

    it("T14, T16: an ended subscription is told as ended, with what it cancelled, and leaves out what came after its end", async () => {
      const topic = await t.topic();
      const subscription = await t.webhook(topic, "ending");
      t.endpoint.answer({ status: 500 });
      const before = await t.publish(topic, "before");
      await t.rest();
      await t.world.pass(10);
      await t.call("DeleteTopicSubscription", { subscriptionId: subscription.id });
      await t.world.pass(10);
      const after = await t.publish(topic, "after");
      await t.rest();
      expect(await verdict(before, subscription.id)).toMatchObject({
        outcome: "cancelled",
        explanation: expect.stringMatching(/^Cancelled: the subscription ended at 20/),
        subscription: { state: "ended" },
      });
      expect(await faultOf(verdict(after, subscription.id))).toMatchObject({ code: "subscription_not_found" });
      t.endpoint.answer({ status: 204 });
    });

    it("T16, A3: verdicts come by pages, each subscription once", async () => {
      const topic = await t.topic();
      for (let i = 0; i < 5; i += 1) await t.queue(topic, { name: `page-${i}` });
      const messageId = await t.publish(topic, "hello");
      await t.rest();
      const seen: string[] = [];
      let marker: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof explain>> = await explain(messageId, { limit: 2, ...(marker === null ? {} : { marker }) });
        expect(page.verdicts.length).toBeLessThanOrEqual(2);
        expect(page.meta.total).toBe(5);
        seen.push(...page.verdicts.map(({ subscription_id: id }) => id));
        marker = page.meta.marker;
      } while (marker !== null);
      expect([seen.length, new Set(seen).size]).toEqual([5, 5]);
    });

    it("T10, T16: the tester says which key fails without storing anything, and names what is wrong with a policy", async () => {
      const test = (body: Record<string, unknown>) => t.call("TestFilterPolicy", {}, body);
      expect(await test({ filter_policy: { store: ["berlin"] }, attributes: { store: "paris" } })).toEqual({
        result: { matched: false, failures: [{ key: "store", reason: "different", expected: ["berlin"], got: "paris" }] },
      });
      const scope = { filter_policy: { order: { price: [{ numeric: [">", 5] }] } }, filter_policy_scope: "message" };
      expect(await test({ ...scope, message: '{"order":{"price":6}}' })).toEqual({ result: { matched: true, failures: [] } });
      expect((await test({ ...scope, message: "text" })).result.failures).toMatchObject([{ key: "", reason: "not_an_object" }]);
      expect(await faultOf(test({ filter_policy: { a: [{ prefix: 1 }] } }))).toMatchObject({ code: "invalid_request" });
    });
  });
}
