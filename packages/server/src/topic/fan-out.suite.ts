/** The fan-out on one engine: exactly one record for each match, wherever it was interrupted and whoever goes on. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Engine } from "../queue/world.suite.ts";
import { createFanOut, type FanOut } from "./fan-out.ts";
import { INTERNAL_ENVIRONMENT, internalQueue } from "./internal-queue.ts";
import { subscriptionDefaults } from "./rules.ts";
import type { Subscribed } from "./topic-subscription.ts";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

/** The suite of one engine. */
export function fanOutSuite(engine: Engine): void {
  describe(`the fan-out on ${engine}`, () => {
    let t: TopicWorld;
    let queues = 0;
    beforeAll(async () => {
      t = await openTopicWorld(engine);
    });
    afterAll(() => t.close());

    const members = async (topic: string, count: number, given: Record<string, unknown> = {}): Promise<string[]> => {
      const ids: string[] = [];
      for (let i = 0; i < count; i++) ids.push((await t.queue(topic, { name: `fan-${++queues}` }, given)).subscription.id);
      return ids;
    };
    const topicNo = async (name: string): Promise<number> => (await t.world.store.run("findTopic", t.world.projectNo, name))?.no ?? 0;
    /** Accepts notifications and does nothing more: as a process that dies at once. */
    const accept = async (topic: string, count: number): Promise<number[]> => {
      const row = {
        ...{ topicNo: await topicNo(topic), message: new TextEncoder().encode("m"), structure: null, subject: null, attributes: null },
        ...{ groupId: null, dedupId: null, traceparent: null },
      };
      const accepted = await t.world.store.run(
        "publishNotifications",
        Array.from({ length: count }, () => row),
      );
      return accepted.map((each) => ("no" in each ? each.no : 0));
    };
    const recordsOf = (no: number) => t.world.count(`SELECT count(*) AS n FROM delivery WHERE notification_no = ${no}`);
    const openOnes = () => t.world.count("SELECT count(*) AS n FROM notification WHERE state <> 'complete'");
    const other = (store = t.world.store): FanOut =>
      createFanOut({
        store,
        tokens: t.rooms.topics.tokens,
        region: "local",
        listener: { moved: () => {} },
        clock: t.world.clock,
        report: (error) => t.warned.push({ error }),
      });
    /** A stretch of a notification that goes to nobody, up to a member. */
    const stretch = async (topic: string, no: number, upto: number) => ({
      ...{ no, topicNo: await topicNo(topic), fifo: false, groupId: null },
      ...{ walked: 0, upto, last: false, matches: [] },
    });

    it("T3: what was accepted and not fanned out when the process died is fanned out at the next start", async () => {
      const topic = await t.topic();
      const [id] = await members(topic, 1);
      const nos = await accept(topic, 30);
      expect(await Promise.all(nos.map(recordsOf))).toEqual(nos.map(() => 0));
      await t.restart();
      await t.rest();
      expect(await Promise.all(nos.map(recordsOf))).toEqual(nos.map(() => 1));
      expect((await t.records(id as string)).map(({ state }) => state)).toEqual(nos.map(() => "delivered"));
      expect(await openOnes()).toBe(0);
    });

    it("T3, T4: a fan-out that was interrupted in the middle goes on where it was, and nobody gets two records", async () => {
      const topic = await t.topic();
      const ids = await members(topic, 5);
      const [no = 0] = await accept(topic, 1);
      const third = await t.world.count(`SELECT no AS n FROM topic_subscription WHERE id = '${ids[2]}'`);
      expect(await t.world.store.run("fanOut", [await stretch(topic, no, third)])).toMatchObject([{ result: "moved" }]);
      expect(await t.world.count(`SELECT count(*) AS n FROM notification WHERE no = ${no} AND state = 'fanning_out'`)).toBe(1);
      await other().recover(0);
      await expect.poll(openOnes).toBe(0);
      // The first three were decided on before: here, that they get nothing.
      expect((await Promise.all(ids.map((id) => t.records(id)))).map(({ length }) => length)).toEqual([0, 0, 0, 1, 1]);
    });

    it("T3: nodes that fan out the same notifications at once make one record for each match", async () => {
      const topic = await t.topic();
      await members(topic, 3);
      const nos = await accept(topic, 60);
      const peers = engine === "postgres" ? [await t.world.peer(), await t.world.peer()] : [t.world.store, t.world.store];
      const others = peers.map((store) => other(store));
      await Promise.all(others.map((each) => each.recover(0)));
      await Promise.all(others.map((each) => each.rest()));
      await other().recover(0);
      await expect.poll(openOnes).toBe(0);
      expect(await Promise.all(nos.map(recordsOf))).toEqual(nos.map(() => 3));
      expect(await t.world.count(`SELECT sum(matched) AS n FROM notification WHERE no IN (${nos})`)).toBe(3 * nos.length);
      if (engine === "postgres") await Promise.all(peers.map((store) => store.close()));
    });

    it("T3: a stretch is made once: whoever finds the cursor elsewhere makes nothing", async () => {
      const topic = await t.topic();
      await members(topic, 2);
      const [no = 0] = await accept(topic, 1);
      const own = await stretch(topic, no, 1_000_000);
      expect(await t.world.store.run("fanOut", [own])).toMatchObject([{ result: "moved" }]);
      expect(await t.world.store.run("fanOut", [own])).toMatchObject([{ result: "lost" }]);
    });

    it("T3, T10: who joined after the publication gets nothing, who left after it has a cancelled record, and a new filter is not asked", async () => {
      const topic = await t.topic();
      const [stays, leaves, changes] = (await members(topic, 3)) as [string, string, string];
      const [no = 0] = await accept(topic, 1);
      await t.call("DeleteTopicSubscription", { subscriptionId: leaves });
      await t.call("UpdateTopicSubscription", { subscriptionId: changes }, { filter_policy: { never: ["fits"] } });
      const [joins] = (await members(topic, 1)) as [string];
      await t.restart();
      await t.rest();
      const states = async (id: string) => (await t.records(id)).map(({ state }) => state);
      expect([await states(stays), await states(changes), await states(joins)]).toEqual([["delivered"], ["delivered"], []]);
      expect(await t.world.count(`SELECT count(*) AS n FROM delivery WHERE notification_no = ${no} AND state = 'cancelled'`)).toBe(1);
      // The members of the earlier version are forgotten once nothing needs them, and the memory of them is not mistaken.
      while ((await t.chore("old memberships")) !== null);
      const messageId = await t.publish(topic, "next");
      await t.rest();
      expect((await t.call("GetNotification", { messageId })).notification).toMatchObject({ matched: 2, filtered_out: 1, delivered: 2 });
    });

    it("T10: two changes of a filter at the same time leave one that was checked, and the topic goes on", async () => {
      const topic = await t.topic();
      const [id] = (await members(topic, 1)) as [string];
      const { topicSubscriptions } = t.rooms.topics;
      await t.call("UpdateTopicSubscription", { subscriptionId: id }, { filter_policy: { kind: ["a"] } });
      const project = await t.world.count(`SELECT project_no AS n FROM topic_subscription WHERE id = '${id}'`);
      const { subscription: seen } = (await topicSubscriptions.find(project, id)) as Subscribed;
      // What is nested only goes with the message, and each was checked against what was there before the other.
      await topicSubscriptions.update(seen, { filterPolicy: { kind: ["a"], order: { paid: [true] } }, filterPolicyScope: "message" });
      await topicSubscriptions.update(seen, { filterPolicyScope: "attributes" });
      const messageId = await t.publish(topic, { message: "m", attributes: { kind: "a" } });
      await t.rest();
      expect((await t.call("GetNotification", { messageId })).notification).toMatchObject({ state: "complete", matched: 1 });
      expect((await t.call("ExplainNotification", { messageId })).verdicts).toMatchObject([{ filter: { policy: { kind: ["a"] } } }]);
    });

    it("T3, T15: more matches than one stretch holds are walked in several, and the message is stored once", async () => {
      const topic = await t.topic();
      const { id: queueId } = await t.world.call("CreateQueue", {}, { name: "one-for-many" });
      const targetNo = await t.world.count(`SELECT no AS n FROM queue WHERE id = '${queueId}'`);
      const no = await topicNo(topic);
      for (let i = 0; i < 600; i++) {
        const id = `01999f3c-7a1e-7b2a-9c4d-${(900_000 + i).toString(16).padStart(12, "0")}`;
        await t.world.store.run("createTopicSubscription", {
          ...{
            id,
            topicNo: no,
            protocol: "queue",
            endpoint: `${queueId} ${i}`,
            targetNo,
            most: 100_000,
            settings: { ...subscriptionDefaults },
            secret: null,
          },
          queue: { id, resourceName: `que_many${String(i).padStart(8, "0")}`, environment: INTERNAL_ENVIRONMENT, settings: internalQueue },
        });
      }
      const messageId = await t.publish(topic, "x".repeat(100_000));
      await t.rest();
      const counts = { state: "complete", matched: 600, delivered: 600, filtered_out: 0, pending: 0 };
      expect((await t.call("GetNotification", { messageId })).notification).toMatchObject(counts);
      expect((await t.world.call("GetQueueStats", { queueId })).ready).toBe(600);
      expect(await t.world.count("SELECT count(*) AS n FROM notification WHERE length(message) = 100000")).toBe(1);
    });
  });
}
