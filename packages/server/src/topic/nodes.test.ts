/** Topics on two nodes that share a PostgreSQL: who owns a lane delivers, whoever published, and changes are followed. */
import { createHmac } from "node:crypto";
import { expect, it } from "vitest";
import type { Ownership } from "../cluster/ownership.ts";
import { SLOTS } from "../cluster/slots.ts";
import type { Fence } from "../store/types.ts";
import { openTopicWorld } from "./world.suite.ts";

/** Two nodes' ownership of everything, which goes from one to the other. */
function sharing(): { first: Ownership; second: Ownership; pass(): void } {
  let owner = 0;
  let fence: Fence = { slot: -1, token: 1 };
  const listeners = new Set<(slots: ReadonlySet<number>) => void>();
  const of = (node: number): Ownership => ({
    fence: () => (owner === node ? fence : null),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  return {
    first: of(0),
    second: of(1),
    pass() {
      owner = 1 - owner;
      fence = { slot: -1, token: fence.token + 1 };
      for (const listener of listeners) listener(new Set(Array.from({ length: SLOTS }, (_, slot) => slot)));
    },
  };
}

it("T3, T8, T15, A13: the owner of a subscription's lane delivers what any node published, once, and follows changes made on another", {
  timeout: 30_000,
}, async () => {
  const owned = sharing();
  const t = await openTopicWorld("postgres", owned.first);
  const peer = await t.peer(owned.second);
  const topic = await t.topic();
  const { id } = await t.webhook(topic, "shared");
  const reached = () =>
    t.endpoint.requests.filter(({ path, headers }) => path === "/shared" && headers["x-basaltic-notification-type"] === "notification");
  const publish = async (count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i++) ids.push(await t.publish(topic, String(i)));
    return ids;
  };
  const first = await publish(10);
  /** A term begins, and is told, by the clock. */
  const arrived = async (count: number): Promise<void> => {
    const looked = () => {
      t.world.clock.advance(50);
      return reached().length;
    };
    await expect.poll(looked, { timeout: 10_000 }).toBe(count);
  };
  await arrived(10);
  // From now on the other node delivers what this one publishes.
  owned.pass();
  const secret = (await t.call("GetTopicSubscriptionSecret", { subscriptionId: id })).signing_secret.secret;
  const second = await publish(10);
  await arrived(20);
  expect(reached().map(({ headers }) => headers["x-basaltic-message-id"])).toEqual(expect.arrayContaining([...first, ...second]));
  expect(peer.deliveries.lanes).toBe(1);
  await expect.poll(async () => (await t.records(id)).filter(({ state }) => state === "delivered").length).toBe(20);

  await t.call("UpdateTopicSubscription", { subscriptionId: id }, { raw_message_delivery: true });
  await t.call("RotateTopicSubscriptionSecret", { subscriptionId: id }, {});
  // The other node looks for changes twice a second.
  let count = 20;
  const nextText = async (): Promise<string | undefined> => {
    await publish(1);
    await arrived(++count);
    return reached().at(-1)?.text;
  };
  await expect.poll(nextText, { timeout: 10_000 }).toBe("0");
  const last = reached().at(-1);
  const fresh = (await t.call("GetTopicSubscriptionSecret", { subscriptionId: id })).signing_secret.secret;
  const signature = createHmac("sha256", fresh).update(`${last?.headers["x-basaltic-timestamp"]}.0`).digest("hex");
  expect([last?.headers["x-basaltic-signature"], fresh === secret]).toEqual([`v1=${signature}`, false]);
  expect(t.warned).toEqual([]);
  await peer.close();
  await t.close();
});

it("T18, A13: what two nodes accept on a FIFO topic, one after the other, is fanned out in that order", { timeout: 30_000 }, async () => {
  const owned = sharing();
  const t = await openTopicWorld("postgres", owned.first);
  const peer = await t.peer(owned.second);
  const name = await t.topic({ fifo: true });
  const { queueId } = await t.queue(name, { name: "ordered", type: "fifo" });
  const topic = await t.world.store.run("findTopic", t.world.projectNo, name);
  if (topic === null) throw new Error("the topic is gone");
  const place = { region: "local", account: { id: "a", name: "a" } };
  const nodes = [t.rooms.deliveries, peer.deliveries];
  const wanted = Array.from({ length: 20 }, (_, i) => String(i));
  for (const [i, message] of wanted.entries())
    await nodes[i % 2]?.publications.publish({ topic, place, traceparent: undefined }, { message, message_group_id: "g" }, null);
  const ready = async () => {
    t.world.clock.advance(50);
    const { ready, waiting } = await t.world.call("GetQueueStats", { queueId });
    return ready + waiting;
  };
  await expect.poll(ready, { timeout: 10_000 }).toBe(20);
  const got: string[] = [];
  while (got.length < 20) {
    const { messages } = await t.world.call("ReceiveMessages", { queueId }, { maxMessages: 10 });
    if (messages.length === 0) break;
    got.push(...messages.map(({ body }) => (JSON.parse(body as string) as { message: string }).message));
    await t.world.call("AckMessages", { queueId }, { receipts: messages.map(({ receipt }) => receipt) });
  }
  expect(got).toEqual(wanted);
  await peer.close();
  await t.close();
});
