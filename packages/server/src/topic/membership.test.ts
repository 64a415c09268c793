import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, engines, faultOf, openWorld, type World } from "../queue/world.suite.ts";
import type { Subscribed } from "../store/topic-subscription.ts";
import { INTERNAL_ENVIRONMENT, internalQueue } from "./internal-queue.ts";
import { subscriptionDefaults } from "./rules.ts";

describe.each<Engine>(engines)("who receives at which version, on %s", (engine) => {
  let world: World;
  let made = 0;
  beforeAll(async () => {
    world = await openWorld(engine);
    await world.fresh();
  });
  afterAll(() => world.close());

  const newId = (): string => `01999f3c-7a1e-7b2a-9c4d-${(++made).toString(16).padStart(12, "0")}`;
  const createTopic = (fifo = false) =>
    world.store.run("createTopic", {
      id: newId(),
      projectNo: world.projectNo,
      name: `topic-${made}`,
      fifo,
      settings: { displayName: null, retryPolicy: null },
    });
  const subscribe = async (
    topicNo: number,
    protocol: "webhook" | "queue",
    filterPolicy: Record<string, unknown> | null = null,
    { most = 100_000, endpoint = "" } = {},
  ) => {
    const id = newId();
    const target = protocol === "queue" ? await world.call("CreateQueue", {}, { name: id.slice(24) }) : null;
    const targetNo = target === null ? null : await world.count(`SELECT no AS n FROM queue WHERE id = '${target.id}'`);
    return world.store.run("createTopicSubscription", {
      id,
      topicNo,
      protocol,
      endpoint: target?.id ?? `https://hooks.example.com/${endpoint || id}`,
      targetNo,
      most,
      settings: { ...subscriptionDefaults, filterPolicy },
      secret: protocol === "webhook" ? "v1.00000000.sealed" : null,
      queue: {
        id: newId(),
        resourceName: `que_${String(made).padStart(12, "0")}`,
        environment: INTERNAL_ENVIRONMENT,
        settings: internalQueue,
      },
    });
  };
  const confirm = ({ subscription }: Subscribed) =>
    world.store.run("confirmTopicSubscription", subscription.id, subscription.confirmableUntil ?? 0);
  const version = async (no: number) => (await topicOf(no)).version;
  const topicOf = async (no: number) => {
    const id = await world.count(`SELECT no AS n FROM topic WHERE no = ${no} AND ended_at IS NULL`);
    const found = (await world.store.run("listTopics", world.projectNo, "", 200)).find((topic) => topic.no === id);
    if (found === undefined) throw new Error(`there is no topic ${no}`);
    return found;
  };
  const membersAt = (no: number, at: number) =>
    world.count(`SELECT count(*) AS n FROM membership WHERE topic_no = ${no} AND since <= ${at} AND (until IS NULL OR until > ${at})`);
  const memberships = (no: number) => world.count(`SELECT count(*) AS n FROM membership WHERE topic_no = ${no}`);

  it("T3, T6: confirming, unsubscribing and a changed filter each take a version, and no earlier version changes", async () => {
    const { no } = await createTopic();
    const pending = await subscribe(no, "webhook");
    const v0 = await version(no);
    expect(await membersAt(no, v0)).toBe(0);
    await confirm(pending);
    const v1 = await version(no);
    const queue = await subscribe(no, "queue", { a: ["x"] });
    const v2 = await version(no);
    await world.store.run("updateTopicSubscription", queue.subscription.no, { filterPolicy: { a: ["y"] } });
    const v3 = await version(no);
    await world.store.run("unsubscribe", pending.subscription.id);
    const v4 = await version(no);
    expect([v0 < v1, v1 < v2, v2 < v3, v3 < v4]).toEqual([true, true, true, true]);
    expect(await Promise.all([v0, v1, v2, v3, v4].map((at) => membersAt(no, at)))).toEqual([0, 1, 2, 2, 1]);
    const filterAt = (at: number, value: string) =>
      world.count(
        `SELECT count(*) AS n FROM membership WHERE topic_no = ${no} AND since <= ${at} AND (until IS NULL OR until > ${at}) AND filter = '{"a":["${value}"]}'`,
      );
    expect([await filterAt(v2, "x"), await filterAt(v2, "y"), await filterAt(v3, "x"), await filterAt(v3, "y")]).toEqual([1, 0, 0, 1]);
    expect((await topicOf(no)).members).toBe(1);
  });

  it("T10: what is no filter, and what changes nothing, takes no version", async () => {
    const { no } = await createTopic();
    const { subscription } = await subscribe(no, "queue", { a: ["x"], b: ["y"] });
    const pending = await subscribe(no, "webhook");
    const before = await version(no);
    await world.store.run("updateTopicSubscription", subscription.no, { filterPolicy: { b: ["y"], a: ["x"] }, maxInFlight: 3 });
    await world.store.run("updateTopicSubscription", pending.subscription.no, { filterPolicy: { a: ["z"] } });
    expect(await version(no)).toBe(before);
    const confirmed = await confirm(pending);
    await confirm(pending);
    expect(await version(no)).toBe(before + 1);
    expect(confirmed.subscription.settings.filterPolicy).toEqual({ a: ["z"] });
  });

  it("T6, TOPIC-05: of many confirmations at once one counts", async () => {
    const { no } = await createTopic();
    const pending = await subscribe(no, "webhook");
    await Promise.all(Array.from({ length: 8 }, () => confirm(pending)));
    expect(await topicOf(no)).toMatchObject({ members: 1, subscriptions: 1 });
    expect(await memberships(no)).toBe(1);
  });

  it("TOPIC-05: of many subscriptions of one endpoint at once one is made", async () => {
    const { no } = await createTopic();
    const target = await world.call("CreateQueue", {}, { name: "shared" });
    const targetNo = await world.count(`SELECT no AS n FROM queue WHERE id = '${target.id}'`);
    const all = await Promise.all(
      Array.from({ length: 6 }, () => {
        const id = newId();
        const queue = { id: newId(), resourceName: `que_${String(made).padStart(12, "0")}`, environment: INTERNAL_ENVIRONMENT };
        return world.store.run("createTopicSubscription", {
          id,
          topicNo: no,
          protocol: "queue",
          endpoint: target.id,
          targetNo,
          settings: { ...subscriptionDefaults },
          secret: null,
          most: 100_000,
          queue: { ...queue, settings: internalQueue },
        });
      }),
    );
    expect(all.filter((each) => each.made)).toHaveLength(1);
    expect(new Set(all.map((each) => each.subscription.id)).size).toBe(1);
    expect(await topicOf(no)).toMatchObject({ members: 1, subscriptions: 1 });
  });

  it("T15: a topic takes as many subscriptions as it may have, of many at once too; pending ones count, and an end makes room", async () => {
    const { no } = await createTopic();
    const of = (endpoint: string, protocol: "webhook" | "queue" = "webhook") => subscribe(no, protocol, null, { most: 3, endpoint });
    const first = await of("first");
    const many = await Promise.allSettled([of("a"), of("", "queue"), of("b"), of("c"), of("", "queue")]);
    expect(many.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    for (const each of many)
      if (each.status === "rejected")
        expect(each.reason).toMatchObject({ code: "limit_reached", message: "a topic has at most 3 subscriptions" });
    expect((await topicOf(no)).subscriptions).toBe(3);
    expect(await of("first")).toMatchObject({ made: false, subscription: { id: first.subscription.id } });
    await world.store.run("deleteTopicSubscription", first.subscription.no);
    expect((await of("d")).made).toBe(true);
    expect(await faultOf(of("e"))).toMatchObject({ code: "limit_reached" });
  });

  it("T6, T15: a webhook's handshake waits in its internal queue, in a FIFO topic too; the queue goes with the subscription", async () => {
    for (const fifo of [false, true]) {
      const { no } = await createTopic(fifo);
      const { subscription } = await subscribe(no, "webhook");
      const { batches } = await world.store.claim({ queueNo: subscription.queueNo, batchSize: 10, batches: 1, leaseMs: 1_000 });
      expect(batches.flat().map(({ body }) => Buffer.from(body).toString())).toEqual(["confirmation"]);
      await world.store.run("deleteTopicSubscription", subscription.no);
      expect(await world.store.run("getQueue", subscription.queueNo)).toBeNull();
    }
  });

  it("T14: the subscriptions of a deleted topic end step by step; what nothing names any more is forgotten after 14 days", async () => {
    const { no } = await createTopic();
    const ended = [await subscribe(no, "webhook"), await subscribe(no, "queue"), await subscribe(no, "webhook")];
    await world.store.run("deleteTopic", no);
    const first = await world.store.run("endSubscriptions", 2);
    const second = await world.store.run("endSubscriptions", 2);
    expect([...first, ...second]).toEqual(ended.map(({ subscription }) => ({ no: subscription.no, queueNo: subscription.queueNo })));
    expect(await world.store.run("endSubscriptions", 2)).toEqual([]);
    for (const { subscription } of ended) expect(await world.store.run("getQueue", subscription.queueNo)).toBeNull();
    const rows = () =>
      world.count(
        `SELECT (SELECT count(*) FROM topic WHERE no = ${no}) + (SELECT count(*) FROM topic_subscription WHERE topic_no = ${no}) AS n`,
      );
    await world.store.run("forgetEnded", 100);
    expect(await rows()).toBe(4);
    world.clock.advance(14 * 86_400_000 + 1_000);
    while ((await world.store.run("forgetEnded", 1)) > 0);
    expect(await rows()).toBe(0);
  });

  it("T3: a closed membership goes, but not while a notification of its time is not fanned out", async () => {
    const { no } = await createTopic();
    const { subscription } = await subscribe(no, "queue");
    const before = await version(no);
    const [accepted] = await world.store.run("publishNotifications", [
      {
        ...{ topicNo: no, message: new Uint8Array([33]), structure: null, subject: null, attributes: null },
        ...{ groupId: null, dedupId: null, traceparent: null },
      },
    ]);
    if (accepted === undefined || "refused" in accepted) throw new Error("the publication was refused");
    expect(accepted).toMatchObject({ version: before, members: 1 });
    await world.store.run("updateTopicSubscription", subscription.no, { filterPolicy: { a: ["x"] } });
    const sweep = async () => {
      while ((await world.store.run("sweepMemberships", 1)) > 0);
      return memberships(no);
    };
    expect(await sweep()).toBe(2);
    expect(await membersAt(no, before)).toBe(1);
    await world.store.run("fanOut", [
      {
        ...{ no: accepted.no, topicNo: no, fifo: false, groupId: null },
        ...{ walked: 0, upto: subscription.no, last: true, matches: [] },
      },
    ]);
    expect(await sweep()).toBe(1);
    expect(await membersAt(no, await version(no))).toBe(1);
  });

  it("T3, T6, T14: in any order at once, on two nodes, members and subscriptions stay what the rows say, and nothing locks up", async () => {
    const peer = engine === "postgres" ? await world.peer() : world.store;
    try {
      const topics = [await createTopic(), await createTopic(true)];
      const numbers = topics.map(({ no }) => no);
      const all = await Promise.all(
        Array.from({ length: 30 }, (_, i) => subscribe(numbers[i % 2] as number, i % 3 === 0 ? "queue" : "webhook")),
      );
      const published = (topicNo: number, fifo: boolean) => ({
        ...{ topicNo, message: new Uint8Array([33]), structure: null, subject: null, attributes: null },
        ...{ groupId: fifo ? "g" : null, dedupId: null, traceparent: null },
      });
      const work = all.flatMap(({ subscription }, i) => {
        const [here, there] = i % 2 === 0 ? [world.store, peer] : [peer, world.store];
        const { id, no, topicNo, confirmableUntil } = subscription;
        const ended = i % 5 === 0;
        return [
          () => here.run("confirmTopicSubscription", id, confirmableUntil ?? world.clock.now() + world.slackMs + 1_000),
          () => there.run("updateTopicSubscription", no, { filterPolicy: { a: [i] } }),
          () =>
            there.run(
              "publishNotifications",
              topics.map((topic) => published(topic.no, topic.fifo)),
            ),
          ...(ended ? [() => there.run("unsubscribe", id), () => here.run("deleteTopicSubscription", no)] : []),
          ...(i === 20 ? [() => here.run("requestConfirmation", no), () => there.run("updateTopic", topicNo, { displayName: "x" })] : []),
        ];
      });
      const outcomes = await Promise.allSettled(work.map((run) => run()));
      const codes = outcomes.flatMap((each) => (each.status === "rejected" ? [(each.reason as { code: string }).code] : []));
      expect(codes.filter((code) => code !== "subscription_not_found" && code !== "invalid_token")).toEqual([]);
      for (const no of numbers) {
        const { members, subscriptions, version: at } = await topicOf(no);
        const live = `FROM topic_subscription WHERE topic_no = ${no} AND ended_at IS NULL`;
        expect(subscriptions).toBe(await world.count(`SELECT count(*) AS n ${live}`));
        expect(members).toBe(await world.count(`SELECT count(*) AS n ${live} AND state = 'confirmed'`));
        expect(members).toBe(await membersAt(no, at));
        expect(members).toBe(12);
        // What a notification remembers is what its version says.
        expect(
          await world.count(
            `SELECT count(*) AS n FROM notification n WHERE n.topic_no = ${no} AND n.members <> (SELECT count(*) FROM membership m
               WHERE m.topic_no = n.topic_no AND m.since <= n.version AND (m.until IS NULL OR m.until > n.version))`,
          ),
        ).toBe(0);
      }
    } finally {
      if (peer !== world.store) await peer.close();
    }
  });
});
