/** Publishing to webhooks and what becomes of it, on one engine: envelopes, signatures, retries, records, dead letters, ends. */
import { createHash, createHmac } from "node:crypto";
import type { ReceivedRequest } from "@millrace/testkit";
import { Webhook } from "standardwebhooks";
import { Webhook as Svix } from "svix";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, faultOf } from "../queue/world.suite.ts";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

/** The suite of one engine. */
export function deliveriesSuite(engine: Engine): void {
  describe(`deliveries of topics on ${engine}`, () => {
    let t: TopicWorld;
    beforeAll(async () => {
      t = await openTopicWorld(engine);
    });
    afterAll(() => t.close());

    const notifications = (path: string): ReceivedRequest[] =>
      t.endpoint.requests.filter(
        (request) => request.path === `/${path}` && request.headers["x-basaltic-notification-type"] === "notification",
      );
    const handshakes = (path: string): ReceivedRequest[] =>
      t.endpoint.requests.filter(
        (request) => request.path === `/${path}` && request.headers["x-basaltic-notification-type"] === "subscription_confirmation",
      );
    const secretOf = async (subscriptionId: string): Promise<string> =>
      (await t.call("GetTopicSubscriptionSecret", { subscriptionId })).signing_secret.secret;
    const signedWith = (request: ReceivedRequest, secret: string): boolean => {
      const { "x-basaltic-timestamp": at, "x-basaltic-signature": signature } = request.headers;
      return signature === `v1=${createHmac("sha256", secret).update(`${at}.`).update(request.body).digest("hex")}`;
    };
    const received = async (queueId: string) => (await t.world.call("ReceiveMessages", { queueId }, { maxMessages: 10 })).messages;

    it("T7, TOPIC-01: the same publication, enveloped and raw", async () => {
      const topic = await t.topic();
      const plain = await t.webhook(topic, "plain");
      const raw = await t.webhook(topic, "raw", { raw_message_delivery: true });
      const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`a${i}`, { type: "Number", value: i }]));
      const id = await t.publish(topic, { message: '{"n": 1}', subject: "", attributes });
      await t.rest();
      const [enveloped] = notifications("plain");
      const [bare] = notifications("raw");
      expect(enveloped?.json()).toMatchObject({
        type: "notification",
        message_id: id,
        topic_name: topic,
        subscription_id: plain.id,
        message: '{"n": 1}',
        subject: "",
        attributes,
        unsubscribe_url: expect.stringMatching(/^https:\/\/millrace\.example\.com\/v1\/unsubscribe\?token=/),
      });
      expect(bare?.text).toBe('{"n": 1}');
      for (const [request, subscription] of [
        [enveloped, plain],
        [bare, raw],
      ] as const)
        expect(request?.headers).toMatchObject({
          "content-type": "application/json",
          "x-basaltic-message-id": id,
          "x-basaltic-subscription-id": subscription.id,
          "x-basaltic-topic-crn": subscription.topic_crn,
          "x-basaltic-delivery-attempt": "1",
        });
    });

    it("T3: a structured message gives each protocol its own payload, and the default to the others", async () => {
      const topic = await t.topic();
      await t.webhook(topic, "structured", { raw_message_delivery: true });
      const { queueId } = await t.queue(topic, { name: "structured" });
      const message = { default: "for all", queue: "for queues" };
      await t.publish(topic, { message_structure: "json", message });
      await t.rest();
      expect(notifications("structured")[0]?.text).toBe("for all");
      expect(JSON.parse((await received(queueId))[0]?.body as string)).toMatchObject({ message: "for queues" });
      for (const body of [{ message }, { message: "text", message_structure: "json" }])
        expect(await faultOf(t.publish(topic, body))).toMatchObject({ code: "invalid_request", details: { path: "message" } });
    });

    it("T3: 262,144 bytes are taken, one more is refused; a batch has results of its own", async () => {
      const topic = await t.topic();
      expect(await t.publish(topic, "x".repeat(262_144))).toMatch(/^[0-9a-f-]{36}$/);
      expect(await faultOf(t.publish(topic, "x".repeat(262_145)))).toMatchObject({ details: { path: "message" } });
      expect(await faultOf(t.publish(topic, { message: "x".repeat(262_144), subject: "s" }))).toMatchObject({ code: "invalid_request" });
      const entries = [
        { id: "a", message: "one" },
        { id: "b", message: 7 },
        { id: "c", message: "three", message_group_id: "g" },
        { id: "d", message: "four" },
      ];
      const { results } = await t.call("PublishBatch", { topic }, { entries });
      expect(results.map(({ id, notification, error }) => [id, notification === undefined, error?.code])).toEqual([
        ["a", false, undefined],
        ["b", true, "invalid_request"],
        ["c", true, "invalid_request"],
        ["d", false, undefined],
      ]);
      expect(await faultOf(t.call("PublishBatch", { topic }, { entries: [entries[0], entries[0]] }))).toMatchObject({
        details: { path: "entries.1.id" },
      });
    });

    it("T3: a publication that is repeated with its key is the same notification and is fanned out once", async () => {
      const topic = await t.topic();
      await t.webhook(topic, "keyed");
      const key = { scope: "k", key: "publish-once", hash: "h" };
      const ids = [];
      for (let i = 0; i < 3; i++) ids.push((await t.call("Publish", { topic }, { message: "m" }, { key })).notification.message_id);
      await t.rest();
      expect(new Set(ids).size).toBe(1);
      expect(notifications("keyed")).toHaveLength(1);
    });

    it("T6: the handshake is signed, retried, and confirms nothing by itself; nothing is delivered before the link was opened", async () => {
      const topic = await t.topic();
      t.endpoint.answer((request) => (request.path === "/shy" && handshakes("shy").length === 1 ? { status: 500 } : {}));
      const body = { protocol: "webhook", endpoint: t.url("shy") };
      const { subscription } = await t.call("CreateTopicSubscription", { topic }, body);
      await t.rest();
      await t.publish(topic, "too early");
      await t.pass(1_000);
      expect(handshakes("shy").map(({ headers }) => headers["x-basaltic-delivery-attempt"])).toEqual(["1", "2"]);
      const [first, second] = handshakes("shy").map((request) => request.json<{ token: string; confirm_url: string }>());
      expect(first).toEqual(second);
      expect(first).toMatchObject({ type: "subscription_confirmation", topic_name: topic, subscription_id: subscription.id });
      expect(first?.confirm_url).toBe(`https://millrace.example.com/v1/confirm?token=${first?.token}`);
      const secret = await secretOf(subscription.id);
      expect(handshakes("shy").map((request) => signedWith(request, secret))).toEqual([true, true]);
      expect((await t.call("GetTopicSubscription", { subscriptionId: subscription.id })).subscription.state).toBe("pending");
      expect(notifications("shy")).toEqual([]);
      await t.rooms.topics.topicSubscriptions.confirm(first?.token as string);
      await t.publish(topic, "now");
      await t.rest();
      expect(notifications("shy").map((request) => request.json<{ message: string }>().message)).toEqual(["now"]);
      t.endpoint.answer({});
    });

    it("T8, P4: real deliveries verify by hand, with standardwebhooks and with svix; a rotated secret signs alone and at once", async () => {
      const topic = await t.topic();
      const { id } = await t.webhook(topic, "signed");
      const before = await secretOf(id);
      await t.publish(topic, "é🎉\u2028");
      await t.rest();
      const [request] = notifications("signed") as [ReceivedRequest];
      expect(signedWith(request, before)).toBe(true);
      const headers = request.headers as Record<string, string>;
      const raw = Buffer.from(request.body);
      expect(new Webhook(`${before}=`).verify(raw, headers)).toMatchObject({ message: "é🎉\u2028" });
      new Svix(`${before}=`).verify(raw, headers);
      expect(() => new Svix(`${before}=`).verify(Buffer.from("{}"), headers)).toThrow();
      expect(headers["webhook-id"]).toBe((await t.records(id))[0]?.id);
      await t.call("RotateTopicSubscriptionSecret", { subscriptionId: id }, {});
      await t.publish(topic, "again");
      await t.rest();
      const last = notifications("signed")[1] as ReceivedRequest;
      expect([signedWith(last, await secretOf(id)), signedWith(last, before)]).toEqual([true, false]);
      expect((last.headers["webhook-signature"] as string).split(" ")).toHaveLength(1);
    });

    it("T11, T12, TOPIC-04: what is tried again keeps its record and its id; what is terminal is tried once", async () => {
      const topic = await t.topic();
      const statuses = [200, 204, 301, 400, 404, 408, 410, 429, 500, 503];
      const answers = new Map(statuses.map((status) => [`/s${status}`, status]));
      t.endpoint.answer(({ path }) => ({ status: answers.get(path) ?? 200, headers: { location: "https://hooks.example.com/elsewhere" } }));
      const paths = statuses.map((status) => `s${status}`);
      const subscriptions: { id: string }[] = [];
      for (const path of paths) subscriptions.push(await t.webhook(topic, path, { retry_policy: { max_attempts: 3 } }));
      t.endpoint.answer(({ path, headers }) => {
        const handshake = headers["x-basaltic-notification-type"] !== "notification";
        return { status: handshake ? 200 : (answers.get(path) ?? 200), headers: { location: "https://hooks.example.com/elsewhere" } };
      });
      await t.publish(topic, "m");
      await t.rest();
      const states = async () =>
        Promise.all(subscriptions.map(async ({ id }) => (await t.records(id)).map(({ state, attempts }) => `${state} ${attempts}`)));
      const expected = (retried: string) =>
        statuses.map((status) => [status < 300 ? "delivered 1" : [408, 429].includes(status) || status >= 500 ? retried : "failed 1"]);
      expect(await states()).toEqual(expected("pending 1"));
      await t.pass(1_000);
      await t.pass(2_000);
      expect(await states()).toEqual(expected("failed 3"));
      await t.pass(3_600_000);
      expect(notifications("s500").map(({ headers }) => headers["x-basaltic-delivery-attempt"])).toEqual(["1", "2", "3"]);
      expect(new Set(notifications("s500").map(({ headers }) => headers["webhook-id"])).size).toBe(1);
      expect([notifications("s301"), notifications("s404"), notifications("elsewhere")].map(({ length }) => length)).toEqual([1, 1, 0]);
      const [failed] = await t.records(subscriptions.at(-1)?.id as string);
      expect(failed).toMatchObject({
        last_status: 503,
        last_error: { class: "http", status: 503, message: "HTTP 503" },
        next_attempt_at: null,
      });
      t.endpoint.answer({});
    });

    it("T11, TOPIC-04: an address that became private ends the delivery, a cut connection does not", async () => {
      const topic = await t.topic();
      const [cut] = t.others;
      const { id } = await t.webhook(topic, "cut", {}, cut);
      const inside = await t.webhook(topic, "inside", { endpoint: "https://inside.example.com/hook" });
      cut.answer({ drop: "request" });
      await t.publish(topic, "m");
      await t.rest();
      expect((await t.records(id))[0]).toMatchObject({ state: "pending", last_error: { class: "connection" }, last_status: null });
      expect((await t.records(inside.id))[0]).toMatchObject({ state: "failed", attempts: 1, last_error: { class: "refused" } });
      cut.answer({});
      await t.pass(1_000);
      expect((await t.records(id))[0]).toMatchObject({ state: "delivered", attempts: 2, last_status: 200 });
    });

    it("T11: Retry-After is waited for, and max_age ends the trying", async () => {
      const topic = await t.topic({ retry_policy: { max_age_seconds: 75 } });
      const { id } = await t.webhook(topic, "slow");
      t.endpoint.answer(({ path }) => (path === "/slow" ? { status: 503, headers: { "retry-after": "30" } } : {}));
      await t.publish(topic, "m");
      await t.pass(29_000);
      expect(notifications("slow")).toHaveLength(1);
      await t.pass(1_000);
      expect(notifications("slow")).toHaveLength(2);
      expect((await t.records(id))[0]?.state).toBe("pending");
      await t.pass(30_000);
      expect((await t.records(id))[0]).toMatchObject({ state: "failed" });
      t.endpoint.answer({});
    });

    it("T13, TOPIC-06: dead letters of a FIFO queue carry the topic's group and the delivery's id: two failures are two envelopes", async () => {
      const topic = await t.topic();
      const { id: queueId } = await t.world.call("CreateQueue", {}, { name: "failures", type: "fifo" });
      const given = { redrive_policy: { dead_letter_queue: queueId } };
      const subscriptions = [await t.webhook(topic, "dead-1", given), await t.webhook(topic, "dead-2", given)];
      t.endpoint.answer(({ path }) => (path.startsWith("/dead-") ? { status: 404, body: "no such hook" } : {}));
      const messageId = await t.publish(topic, { message: "m", subject: "s" });
      await t.rest();
      const letters = [...(await received(queueId)), ...(await received(queueId))];
      const group = createHash("sha256")
        .update(subscriptions[0]?.topic_crn as string)
        .digest("hex");
      const records = await Promise.all(subscriptions.map(async ({ id }) => (await t.records(id))[0]));
      expect(records.map((record) => [record?.state, record?.dead_letter])).toEqual([
        ["failed", "stored"],
        ["failed", "stored"],
      ]);
      expect(letters.map(({ groupId }) => groupId)).toEqual([group, group]);
      expect(letters.map(({ body }) => JSON.parse(body as string)).sort((a, b) => (a.delivery_id < b.delivery_id ? -1 : 1))).toMatchObject(
        records
          .map((record) => ({
            type: "notification_failure",
            notification: {
              type: "notification",
              message_id: messageId,
              message: "m",
              subject: "s",
              subscription_id: record?.subscription_id,
            },
            subscription_id: record?.subscription_id,
            delivery_id: record?.id,
            attempts: 1,
            last_error: { class: "http", status: 404, message: "HTTP 404: no such hook" },
          }))
          .sort((a, b) => ((a.delivery_id as string) < (b.delivery_id as string) ? -1 : 1)),
      );
      t.endpoint.answer({});
    });

    it("T13, T17, TOPIC-06: a dead-letter queue that is full or gone loses the envelope; record and figures say so", async () => {
      const topic = await t.topic();
      const { id: full } = await t.world.call("CreateQueue", {}, { name: "full", maxBytes: 1_024 });
      const { id: deleted } = await t.world.call("CreateQueue", {}, { name: "deleted" });
      const a = await t.webhook(topic, "lost-1", { redrive_policy: { dead_letter_queue: full } });
      const b = await t.webhook(topic, "lost-2", { redrive_policy: { dead_letter_queue: deleted } });
      await t.world.call("DeleteQueue", { queueId: deleted });
      t.endpoint.answer(({ path }) => (path.startsWith("/lost-") ? { status: 410 } : {}));
      await t.publish(topic, "x".repeat(2_000));
      await t.rest();
      expect((await t.records(a.id))[0]).toMatchObject({ state: "failed", dead_letter: "full" });
      expect((await t.records(b.id))[0]).toMatchObject({ state: "failed", dead_letter: "missing" });
      const figures = await t.metrics();
      for (const [name, labels] of [
        ["dead_letters", ',result="full"'],
        ["dead_letters", ',result="missing"'],
      ])
        expect(figures).toContain(`millrace_topic_${name}_total{topic="${a.topic_crn}"${labels}} 1`);
      t.endpoint.answer({});
    });

    it("T14: ending a subscription or its topic cancels what is pending, and nothing more is delivered", async () => {
      const topic = await t.topic();
      const gone = await t.webhook(topic, "gone");
      await t.webhook(topic, "with-topic");
      t.endpoint.answer(({ path }) => (["/gone", "/with-topic"].includes(path) ? { status: 500 } : {}));
      const messageId = await t.publish(topic, "m");
      await t.rest();
      await t.call("DeleteTopicSubscription", { subscriptionId: gone.id });
      const counts = async () => (await t.call("GetNotification", { messageId })).notification;
      expect(await counts()).toMatchObject({ cancelled: 1, pending: 1 });
      await t.call("DeleteTopic", { topic });
      // Housekeeping takes its time with many subscriptions; deliveries stop at once.
      await t.pass(3_600_000);
      expect(notifications("with-topic")).toHaveLength(1);
      await t.chore("ended topics");
      await t.chore("cancelled deliveries");
      expect(await counts()).toMatchObject({ state: "complete", matched: 2, cancelled: 2, pending: 0, delivered: 0, failed: 0 });
      t.endpoint.answer({});
      await t.pass(3_600_000);
      expect([notifications("gone"), notifications("with-topic")].map(({ length }) => length)).toEqual([1, 1]);
    });

    it("T12: a delivery that has ended is tried once more, with fresh attempts and under its id", async () => {
      const topic = await t.topic();
      const { id } = await t.webhook(topic, "again");
      t.endpoint.answer(({ path }) => (path === "/again" ? { status: 400 } : {}));
      await t.publish(topic, "m");
      await t.rest();
      const [failed] = await t.records(id);
      expect(failed).toMatchObject({ state: "failed", attempts: 1 });
      t.endpoint.answer({ status: 500 });
      const deliveryId = failed?.id as string;
      expect((await t.call("Redeliver", { deliveryId }, {})).delivery).toMatchObject({ state: "pending", attempts: 0 });
      await t.rest();
      expect(await faultOf(t.call("Redeliver", { deliveryId }, {}))).toMatchObject({ code: "delivery_pending" });
      t.endpoint.answer({});
      await t.pass(1_000);
      expect((await t.call("GetDelivery", { deliveryId })).delivery).toMatchObject({ state: "delivered", attempts: 2, id: deliveryId });
      expect(notifications("again").map(({ headers }) => headers["webhook-id"])).toEqual([deliveryId, deliveryId, deliveryId]);
      expect(await t.records(id)).toHaveLength(1);
    });

    it("T12: a record says delivering while its request is open, and records go 14 days after their end", async () => {
      const topic = await t.topic();
      const { id } = await t.webhook(topic, "open");
      let open = () => {};
      const after = new Promise<void>((resolve) => {
        open = resolve;
      });
      t.endpoint.answer(({ path }) => (path === "/open" ? { after } : {}));
      const messageId = await t.publish(topic, "m");
      await t.endpoint.opened(1);
      expect((await t.records(id))[0]).toMatchObject({ state: "delivering", attempts: 1, next_attempt_at: null });
      open();
      await t.rest();
      t.endpoint.answer({});
      expect((await t.records(id))[0]?.state).toBe("delivered");
      const sweep = async () => {
        for (const chore of ["old deliveries", "old notifications"]) while ((await t.chore(chore)) !== null);
      };
      await t.pass(13 * 86_400_000);
      await sweep();
      expect(await t.records(id)).toHaveLength(1);
      await t.pass(86_400_001);
      await sweep();
      expect(await t.records(id)).toEqual([]);
      expect(await faultOf(t.call("GetNotification", { messageId }))).toMatchObject({ code: "notification_not_found" });
    });
  });
}
