/** What a push consumer does while messages keep coming, on either engine: `loadSuite` is run by the tests beside it. */
import type { ReceivedRequest } from "@millrace/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { ownsEverything } from "../cluster/ownership.ts";
import type { DeliveryRequest } from "../delivery/types.ts";
import type { Engine } from "../queue/world.suite.ts";
import type { ConsumerRow } from "../store/consumer.ts";
import type { Store } from "../store/store.ts";
import { createConsumerLane } from "./lane.ts";
import type { Serving } from "./serving.ts";
import { type ConsumerWorld, openConsumerWorld, own } from "./world.suite.ts";

/** Lets time go on in small steps, a bounded number of them, until it is so: a lane that found nothing may look again some milliseconds later. */
export async function until(push: ConsumerWorld, good: () => boolean | Promise<boolean>): Promise<void> {
  for (let step = 0; step < 2_000 && !(await good()); step++) {
    await push.stats();
    push.world.clock.advance(5);
  }
}

/** Waits until so many messages of `emails` are acknowledged, and no delivery is under way. */
export async function acknowledged(push: ConsumerWorld, count: number, rest: () => Promise<void> = push.rest): Promise<void> {
  await until(push, async () => (await push.stats()).acknowledged >= count);
  await rest();
}

export function loadSuite(engine: Engine): void {
  describe(`push consumers under load on ${engine}`, () => {
    let push: ConsumerWorld;
    const queueName = { queueName: "emails" };
    const bodies = (count: number): string[] => Array.from({ length: count }, (_, n) => `m${n}`);
    const sendAll = async (texts: readonly string[]): Promise<void> => {
      for (let i = 0; i < texts.length; i += 5) await Promise.all(texts.slice(i, i + 5).map((body) => push.send({ body })));
    };
    const sorted = (requests: readonly ReceivedRequest[]): string[] => requests.map(({ text }) => text).sort();
    const deployed = async (settings: Record<string, unknown> = {}): Promise<ConsumerWorld> => {
      push = await openConsumerWorld(engine);
      await push.deploy("dpl_1");
      await push.push(settings);
      return push;
    };
    afterEach(() => push.close());

    it("C7: a promotion and a rollback under load move what starts from then on to the other deployment; each message comes once, and none fails", async () => {
      const { endpoint, other, started } = await deployed({ concurrency: 8 });
      await push.call("PutDeployment", { deploymentId: "dpl_2" }, { url: push.base(other) });
      const all = bodies(200);
      const sent = sendAll(all);
      const moveTo = async (deploymentId: string): Promise<number> => {
        await push.call("PromoteDeployment", { deploymentId });
        return started.length;
      };
      await until(push, () => endpoint.requests.length >= 40);
      const promotedAt = await moveTo("dpl_2");
      await until(push, () => other.requests.length >= 40);
      const rolledBackAt = await moveTo("dpl_1");
      await sent;
      await acknowledged(push, all.length);
      const urls = (from: number, to?: number): string[] => [
        ...new Set(started.slice(from, to).map(({ url }) => (url.startsWith(push.base(other)) ? "dpl_2" : "dpl_1"))),
      ];
      expect(urls(0, promotedAt)).toContain("dpl_1");
      expect(urls(promotedAt, promotedAt + 30)).toEqual(["dpl_2"]);
      expect(urls(rolledBackAt)).toEqual(["dpl_1"]);
      const requests = [...endpoint.requests, ...other.requests];
      expect(sorted(requests)).toEqual([...all].sort());
      expect(requests.every((request) => own(request, "attempt") === "1")).toBe(true);
      expect(endpoint.requests.every((request) => own(request, "deployment-id") === "dpl_1")).toBe(true);
      expect(other.requests.every((request) => own(request, "deployment-id") === "dpl_2")).toBe(true);
      expect(await push.stats()).toMatchObject({ acknowledged: 200, ready: 0, inflight: 0, scheduled: 0, dead: 0 });
    });

    it("C1: a queue that is switched between push and pull again and again under load handles each message once, pushed or pulled", async () => {
      const { endpoint } = await deployed({ concurrency: 8 });
      const all = bodies(180);
      const pulled: string[] = [];
      let sending = true;
      const sent = sendAll(all).finally(() => {
        sending = false;
      });
      const pull = async (): Promise<number> => {
        const { messages } = await push.call("GigadriveReceive", queueName, { maxMessages: 7 });
        if (messages.length === 0) return 0;
        const { results } = await push.call("GigadriveAckMessages", queueName, {
          messages: messages.map(({ id, receipt }) => ({ messageId: id, receipt })),
        });
        expect(results.every(({ acknowledged }) => acknowledged)).toBe(true);
        pulled.push(...messages.map(({ body }) => body as string));
        return messages.length;
      };
      for (let turn = 0; sending || turn < 6; turn++) {
        await push.call("GigadriveUpdateQueue", queueName, { consumerPath: turn % 2 === 0 ? null : `/turn/${turn}` });
        // A pull queue can be received from whatever is still open from the push before.
        if (turn % 2 === 0) for (let i = 0; i < 3; i++) await pull();
      }
      await sent;
      await push.call("GigadriveUpdateQueue", queueName, { consumerPath: "/end" });
      await acknowledged(push, all.length);
      expect([...pulled, ...endpoint.requests.map(({ text }) => text)].sort()).toEqual([...all].sort());
      expect(pulled.length).toBeGreaterThan(0);
      expect(endpoint.requests.length).toBeGreaterThan(0);
      expect(await push.stats()).toMatchObject({ acknowledged: 180, ready: 0, inflight: 0, scheduled: 0, dead: 0 });
    });

    it("C5: a longer visibility timeout that comes while messages are claimed gives no request more time than its lease has", async () => {
      push = await openConsumerWorld(engine);
      const { world } = push;
      // Nothing is deployed, so that no lane but the one below claims.
      await push.push({ visibilityTimeoutSeconds: 30 });
      const queue = await world.room.findQueue(world.projectNo, "emails", "production");
      const row = (await world.store.run("loadConsumer", queue?.no ?? 0)) as ConsumerRow;
      await push.send({ body: "x" });
      const requests: DeliveryRequest[] = [];
      const to = { id: "dpl_1", url: push.base() };
      const key = { decoded: new Uint8Array(), literal: Buffer.from("whsec_x") };
      const serving: Serving = { current: to, route: () => ({ to, fallbackFrom: null }), key: () => key, set: () => {} };
      // The change comes between the claim and its answer.
      const store: Store = Object.assign(Object.create(world.store) as Store, {
        claim: async (asked: Parameters<Store["claim"]>[0]) => {
          const claimed = await world.store.claim(asked);
          lane.set({ ...row, settings: { ...row.settings, visibilityTimeoutMs: 3_600_000 } });
          return claimed;
        },
      });
      const lane = createConsumerLane(
        {
          store,
          clock: world.clock,
          ownership: ownsEverything,
          attempt: async (request) => {
            requests.push(request);
            return { kind: "answer", status: 204, headers: {}, body: new Uint8Array(), durationMs: 1, truncated: false };
          },
          random: () => 0.5,
          version: "0",
          pressure: { seen: () => {}, close: () => {} },
          log: { debug: () => {}, info: () => {}, warn: () => {} },
        },
        row,
        serving,
      );
      const { work } = await lane.claim(1);
      for (const each of work) await lane.deliver(each, { signal: new AbortController().signal, over: () => {} });
      expect(requests.map(({ timeoutMs }) => timeoutMs)).toEqual([29_000]);
      const deadline = Number(requests[0]?.headers["x-gigadrive-queue-deadline"]);
      expect(deadline - world.clock.wall()).toBeLessThanOrEqual(29_000);
    });
  });
}
