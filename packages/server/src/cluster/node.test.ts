/** Nodes of one cluster on a real PostgreSQL, in one process: their timers and monotonic clocks are moved by hand, the database's is real. */
import { postgres } from "@millrace/testkit";
import pg from "pg";
import { afterEach, expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { StaleFence } from "../store/fence.ts";
import { type OpenStore, openStore } from "../store/open.ts";
import type { Fence } from "../store/types.ts";
import { createDuties } from "./duties.ts";
import { createNode, LEASE_MS, type Node } from "./node.ts";
import { slotOf } from "./slots.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface Member {
  node: Node;
  store: OpenStore;
  /** Moves its timers, and its monotonic clock with them. */
  pass(ms: number): void;
  /** Lets time pass without its timers, as for a process that is stopped. */
  standStill(ms: number): void;
  /** Lets a second pass, and resolves once the beat that is due then was answered. */
  beats(): Promise<void>;
  /** Resolves once the node owns so many slots, beating all the while. */
  owns(slots: number): Promise<void>;
}

async function cluster() {
  const url = await (await postgres()).fresh();
  let made = 0;
  const join = async (name = `node-${made}`): Promise<Member> => {
    const store = await openStore({ url, clock: createClock(), relaxedSync: true });
    const clock = createClock({ frozen: true });
    let stoodStill = 0;
    const monotonic = (): number => clock.now() + stoodStill * 1.000_1;
    let beaten: Promise<unknown> = Promise.resolve();
    const run: OpenStore["run"] = (verb, ...args) => {
      const answer = store.run(verb, ...args);
      if (verb === "beat") beaten = answer.catch(() => {});
      return answer;
    };
    const node = createNode({
      store: { ...store, run },
      clock,
      monotonic,
      id: `id-${made++}`,
      name,
      version: "0",
      log: { warn: () => {} },
    });
    ends.push(async () => {
      await node.leave();
      await store.close();
    });
    await node.start();
    const pass = (ms: number): void => clock.advance(ms);
    const beats = async (): Promise<void> => {
      pass(1_000);
      await beaten;
      // The node hears of the answer first.
      await new Promise(setImmediate);
    };
    return {
      node,
      store,
      pass,
      standStill(ms) {
        stoodStill += ms;
      },
      beats,
      async owns(slots) {
        while (node.slots !== slots) await beats();
      },
    };
  };
  /** As if a node had not been heard of for so long. */
  const silent = async (id: string, ms: number): Promise<void> => {
    const client = new pg.Client(url);
    await client.connect();
    await client.query("UPDATE node SET seen_at = seen_at - $2 WHERE id = $1", [id, ms]);
    await client.end();
  };
  /** Does something under a slot, as its owner does, until that is let go. */
  const change = async (slot: number): Promise<() => Promise<void>> => {
    const client = new pg.Client(url);
    await client.connect();
    await client.query("BEGIN");
    await client.query("SELECT pg_advisory_xact_lock_shared(7403, $1)", [slot]);
    const letGo = () => client.end();
    ends.push(letGo);
    return letGo;
  };
  return { join, silent, change };
}

const keys = Array.from({ length: 1_000 }, (_, i) => `queue:${i}`);
const owned = ({ node }: Member): Set<string> => new Set(keys.filter((key) => node.fence(key) !== null));
const fenceOf = ({ node }: Member, key: string): Fence => {
  const fence = node.fence(key);
  if (fence === null) throw new Error(`${key} is not this node's`);
  return fence;
};

it("A13: keys spread over all slots, and always the same way", () => {
  expect(new Set(keys.map(slotOf)).size).toBeGreaterThan(240);
  expect([slotOf("queue:1"), slotOf("queue:2"), slotOf("duty:expired")]).toEqual([51, 116, 156]);
});

it("A13: nodes that join are given a fair share of the slots, and no key has two owners", { timeout: 240_000 }, async () => {
  const { join } = await cluster();
  const first = await join();
  expect(first.node.slots).toBe(256);
  const second = await join();
  const third = await join();
  await first.owns(86);
  await second.owns(85);
  await third.owns(85);
  const all = [first, second, third].map(owned);
  expect(all.reduce((sum, { size }) => sum + size, 0)).toBe(keys.length);
  expect(new Set(all.flatMap((each) => [...each])).size).toBe(keys.length);
});

it("A13, CTRL-09: a silent node loses its slots to the living; what it still tries is refused, and it knows by itself", async () => {
  const { join, silent } = await cluster();
  const first = await join();
  const fence = fenceOf(first, "queue:7");
  const second = await join();
  expect(second.node.slots).toBe(0);
  expect(await first.store.fenced(fence, "now")).toBeGreaterThan(0);

  await silent("id-0", LEASE_MS);
  await second.owns(256);
  expect(fenceOf(second, "queue:7")).toEqual({ slot: fence.slot, token: fence.token + 1 });
  await expect(first.store.fenced(fence, "now")).rejects.toThrow(StaleFence);
  await expect(first.store.claim({ queueNo: 7, batchSize: 1, batches: 1, leaseMs: 1_000, fence })).rejects.toThrow(StaleFence);
  // Others' claims in the same transaction don't suffer for it.
  const both = [fenceOf(second, "queue:7"), fence].map((each) =>
    second.store.claim({ queueNo: 7, batchSize: 1, batches: 1, leaseMs: 1_000, fence: each }).catch((error: Error) => error.name),
  );
  expect(await Promise.all(both)).toEqual([{ batches: [], nextInMs: null }, "StaleFence"]);
});

it("A13: a node that stood still owns nothing once its time is up, before anybody else does, and goes on after its next beat", async () => {
  const { join } = await cluster();
  const only = await join();
  const before = only.node.fence("queue:1");
  only.standStill(LEASE_MS - 600);
  expect(only.node.fence("queue:1")).toBe(before);
  only.standStill(200);
  expect(only.node.fence("queue:1")).toBeNull();
  expect(only.node.slots).toBe(0);
  await only.owns(256);
  expect(only.node.fence("queue:1")).toBe(before);
});

it("A13: a change that takes long keeps its own slot where it is, and no node from beating", async () => {
  const { join, silent, change } = await cluster();
  const first = await join();
  const second = await join();
  await first.owns(128);
  await second.owns(128);
  const [key = ""] = owned(first);
  const { slot } = fenceOf(first, key);
  const done = await change(slot);
  await silent("id-0", LEASE_MS);
  await second.owns(255);
  expect(second.node.fence(key)).toBeNull();
  await done();
  await second.owns(256);
});

it("A13: nor does one under a slot that is being given away, or left", async () => {
  const { join, change } = await cluster();
  const first = await join();
  const done = await Promise.all([253, 254, 255].map(change));
  const second = await join();
  // It gives its last slot, and waits for what is done under it.
  await first.beats();
  const third = await join();
  await first.node.leave();
  await second.owns(128);
  await third.owns(125);
  for (const each of done) await each();
  await third.owns(128);
});

it("A13: a node that leaves hands everything over at once, and one that starts anew in its place goes on at once", async () => {
  const { join } = await cluster();
  const first = await join("here");
  const second = await join("there");
  await first.owns(128);
  await second.owns(128);
  const moved = new Promise<ReadonlySet<number>>((resolve) => second.node.onChange(resolve));
  // The others are told: no timer of theirs moves here.
  await first.node.leave();
  expect((await moved).size).toBe(128);
  expect(second.node.slots).toBe(256);

  const again = await join("there");
  expect(again.node.slots).toBe(256);
  expect(second.node.fence("queue:1")).not.toBeNull();
  second.pass(1_000);
  await second.store.run("listNodes");
});

it("A13: after the database was away for everybody, nobody loses what it had", async () => {
  const { join, silent } = await cluster();
  const first = await join();
  const second = await join();
  await first.owns(128);
  await second.owns(128);
  for (const id of ["id-0", "id-1"]) await silent(id, 3 * LEASE_MS);
  const before = owned(second);
  // The first one back waits for the other as long as it was away itself.
  first.pass(3 * LEASE_MS);
  await first.owns(128);
  second.pass(3 * LEASE_MS);
  await second.owns(128);
  expect(owned(second)).toEqual(before);
});

it("A13, CTRL-09: a duty is one node's, a call reaches it from any node, and a former owner's work is refused", async () => {
  const { join, silent } = await cluster();
  const first = await join();
  const second = await join();
  const duties = [first, second].map(({ store, node }) => createDuties({ store, ownership: node }));
  const [here, there] = duties as [(typeof duties)[0], (typeof duties)[0]];
  expect(there.verbs("sweeping")).toBeNull();
  const stale = here.verbs("sweeping");
  expect(await stale?.run("now")).toBeGreaterThan(0);
  const called = new Promise<string>((resolve) => here.onCall(["resting", "sweeping"], resolve));
  there.call("sweeping");
  expect(await called).toBe("sweeping");

  const won = new Promise<string>((resolve) => there.onCall(["sweeping"], resolve));
  await silent("id-0", LEASE_MS);
  await second.owns(256);
  expect(await won).toBe("sweeping");
  expect(await there.verbs("sweeping")?.run("now")).toBeGreaterThan(0);
  await expect(stale?.run("now")).rejects.toThrow(StaleFence);
});
