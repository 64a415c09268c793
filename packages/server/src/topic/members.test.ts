import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Engine, engines } from "../queue/world.suite.ts";
import { createMembers } from "./members.ts";
import { openTopicWorld, type TopicWorld } from "./world.suite.ts";

describe.each<Engine>(engines)("who is reached, from memory, on %s", (engine) => {
  let t: TopicWorld;
  let queues = 0;
  beforeAll(async () => {
    t = await openTopicWorld(engine);
  });
  afterAll(() => t.close());

  const subscribe = async (topic: string, filter: Record<string, unknown> | null, scope = "attributes") =>
    (await t.queue(topic, { name: `queue-${++queues}` }, { filter_policy: filter, filter_policy_scope: scope })).subscription.id;
  const refilter = (subscriptionId: string, filter: Record<string, unknown>) =>
    t.call("UpdateTopicSubscription", { subscriptionId }, { filter_policy: filter });
  /** The topic as it is now, as a publication remembers it. */
  const now = async (name: string) => {
    const found = (await t.world.store.run("listTopics", t.world.projectNo, "", 200)).find((topic) => topic.name === name);
    if (found === undefined) throw new Error(`there is no topic ${name}`);
    return { topicNo: found.no, version: found.version, members: found.members };
  };
  const published = (store: string, message = "m") => ({
    message: new TextEncoder().encode(message),
    structure: null,
    attributes: { store },
  });
  const reader = () => {
    const members = createMembers(t.world.store);
    return async (at: Awaited<ReturnType<typeof now>>, store: string): Promise<string[]> =>
      (await members.reached({ ...at, ...published(store) })).map(({ subscriptionId }) => subscriptionId);
  };

  it("T3, T10: versions are answered in any order, by the members and filters that each had", async () => {
    const topic = await t.topic();
    const first = await subscribe(topic, { store: ["berlin"] });
    const v1 = await now(topic);
    const second = await subscribe(topic, null);
    const v2 = await now(topic);
    await refilter(first, { store: ["paris"] });
    const v3 = await now(topic);
    const reached = reader();
    for (const [at, store, expected] of [
      [v2, "berlin", [first, second]],
      [v3, "berlin", [second]],
      [v2, "berlin", [first, second]],
      [v1, "berlin", [first]],
      [v3, "paris", [first, second]],
      [v1, "paris", []],
    ] as const)
      expect(await reached(at, store)).toEqual(expected);
  });

  it("T3: an end that was swept before it was heard of is noticed", async () => {
    const topic = await t.topic();
    const leaver = await subscribe(topic, null);
    const stayer = await subscribe(topic, null);
    const reached = reader();
    expect(await reached(await now(topic), "x")).toEqual([leaver, stayer]);
    await t.call("DeleteTopicSubscription", { subscriptionId: leaver });
    await t.chore("old memberships");
    expect(await reached(await now(topic), "x")).toEqual([stayer]);
  });

  it("T10, T15: while many filters look through a long message, others have their turn", async () => {
    const topic = await t.topic();
    const wildcards = Array.from({ length: 5 }, (_, at) => ({ wildcard: `*aaaab${at}*` }));
    for (let i = 0; i < 20; i += 1) await subscribe(topic, { text: wildcards }, "message");
    const members = createMembers(t.world.store);
    const at = await now(topic);
    const notification = { ...at, ...published("x", JSON.stringify({ text: "a".repeat(250_000) })) };
    await members.reached(notification);
    let turns = 0;
    let over = false;
    const turn = (): void => {
      turns += 1;
      if (!over) setImmediate(turn);
    };
    setImmediate(turn);
    expect(await members.reached(notification)).toEqual([]);
    over = true;
    expect(turns).toBeGreaterThanOrEqual(5);
  });
});
