/** Waiting receives over a real store, on either engine: Q17. Time stands still, so whatever arrives was brought by an event. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../store/store.ts";
import type { ClaimedMessage } from "../store/types.ts";
import { createWaiting, type Waiting } from "./waiting.ts";
import { faultOf, type Ground, openWorld, type World } from "./world.suite.ts";

/** Declares the suite for one ground. */
export function waitingSuite(engine: Ground): void {
  describe(`waiting receives on ${engine}`, () => {
    let world: World;
    beforeAll(async () => {
      world = await openWorld(engine);
    });
    afterAll(() => world.close());
    beforeEach(async () => {
      await world.fresh();
      await world.call("CreateQueue", {}, { name: "q", visibilityTimeoutSeconds: 10 });
    });

    const send = (...messages: Record<string, unknown>[]) => world.call("SendMessages", { queueId: "q" }, { messages });
    const bodies = async (answer: Promise<{ messages: { body?: string }[] }>) => (await answer).messages.map(({ body }) => body);

    it("Q17: a send answers a waiting receive by its event: no clock moves, no poll runs", async () => {
      const waiting = await world.wait("q", { waitSeconds: 20, maxMessages: 10 });
      await send({ body: "x" });
      expect(await bodies(waiting.answer)).toEqual(["x"]);
    });

    it("Q17: a delay that passes and a lease that ends answer at that moment and not before", async () => {
      await send({ body: "x", delaySeconds: 5 });
      const delayed = await world.wait("q", { waitSeconds: 20 });
      let answered = false;
      void delayed.answer.then(() => {
        answered = true;
      });
      // PostgreSQL's own clock goes on beside the frozen one.
      const early = engine === "sqlite" ? 4_999 : 2_000;
      await world.pass(early);
      expect(answered).toBe(false);
      await world.pass(5_000 - early);
      expect(await bodies(delayed.answer)).toEqual(["x"]);
      const again = await world.wait("q", { waitSeconds: 20 });
      world.clock.advance(10_000);
      const back = (await again.answer).messages[0];
      expect(back).toMatchObject({ body: "x", receiveCount: 2 });
    });

    it("Q17: a wait ends empty after its time, and one of 0 seconds at once", async () => {
      expect(await world.call("ReceiveMessages", { queueId: "q" }, { waitSeconds: 0 })).toEqual({ messages: [] });
      const waiting = await world.wait("q", { waitSeconds: 3 });
      world.clock.advance(3_000);
      expect(await waiting.answer).toEqual({ messages: [] });
    });

    it("Q15, Q17: a receive that waits at a queue is told at once that the queue is deleted", async () => {
      const [first, second] = [await world.wait("q", { waitSeconds: 20 }), await world.wait("q", { waitSeconds: 20 })];
      await world.call("CreateQueue", {}, { name: "other" });
      const other = await world.wait("other", { waitSeconds: 20 });
      await world.call("DeleteQueue", { queueId: "q" });
      for (const { answer } of [first, second]) expect(await faultOf(answer)).toMatchObject({ code: "queue_not_found", status: 404 });
      await world.call("SendMessages", { queueId: "other" }, { messages: [{ body: "x" }] });
      expect(await bodies(other.answer)).toEqual(["x"]);
    });

    it("Q17: a client that hung up while waiting leases nothing, and those behind it are served", async () => {
      const leaving = new AbortController();
      const first = await world.wait("q", { waitSeconds: 20 }, leaving.signal);
      const second = await world.wait("q", { waitSeconds: 20 });
      leaving.abort();
      expect(await first.answer).toEqual({ messages: [] });
      await send({ body: "x" });
      expect((await second.answer).messages).toMatchObject([{ body: "x", receiveCount: 1 }]);
    });

    it("Q17: what an answer carried that never reached its client is ready again at once, its attempt refunded", async () => {
      await send({ body: "x" });
      const undos: (() => unknown)[] = [];
      const lost = await world.call("ReceiveMessages", { queueId: "q" }, {}, { undo: (undo) => undos.push(undo) });
      expect(lost.messages).toHaveLength(1);
      const waiting = await world.wait("q", { waitSeconds: 20 });
      for (const undo of undos) await undo();
      expect((await waiting.answer).messages).toMatchObject([{ body: "x", receiveCount: 2 }]);
      const peeked = (await world.call("PeekMessages", { queueId: "q" })).messages as { attempts: number }[];
      expect(peeked[0]?.attempts).toBe(1);
    });

    it("waiting receives are served first come, first served", async () => {
      const waits = [];
      for (let i = 0; i < 4; i++) waits.push(await world.wait("q", { waitSeconds: 20 }));
      for (let i = 0; i < 4; i++) {
        await send({ body: String(i) });
        expect(await bodies((waits[i] as (typeof waits)[number]).answer)).toEqual([String(i)]);
      }
    });

    it("a thousand waiting receives cost next to no claims, and a burst is shared out among the first of them", async () => {
      let claims = 0;
      const counted: Store = {
        ...world.store,
        claim(ask) {
          claims++;
          return world.store.claim(ask);
        },
      };
      const queue = await world.room.findQueue(world.projectNo, "q");
      const waiting: Waiting = createWaiting({ store: counted, clock: world.clock, release: () => undefined });
      const got: number[] = [];
      const answers = Array.from({ length: 1000 }, (_, i) =>
        waiting
          .receive({ queueNo: queue?.no as number, batchSize: 1, leaseMs: null, waitMs: 20_000, gone: () => new AbortController().signal })
          .then((messages: ClaimedMessage[]) => {
            if (messages.length > 0) got.push(i);
          }),
      );
      // Claims are answered in order: once this later one is, all first looks are over and everybody waits.
      await world.call("ReceiveMessages", { queueId: "q" }, {});
      const looks = claims;
      expect(looks).toBeLessThanOrEqual(1000);
      await send(...Array.from({ length: 10 }, () => ({ body: "x" })));
      await Promise.all(answers.slice(0, 10));
      expect(got.sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      expect(claims - looks).toBeLessThan(64);
      waiting.close();
      await Promise.all(answers);
      expect(got).toHaveLength(10);
    });

    const over = (claim: Store["claim"]) => {
      const released: number[] = [];
      const waiting = createWaiting({
        store: { ...world.store, claim },
        clock: world.clock,
        release: (queueNo, messages) => {
          released.push(messages.length);
          void world.room.messages.release(queueNo, messages).then(told);
        },
      });
      let told: () => void = () => undefined;
      const heard = new Promise<void>((resolve) => {
        told = resolve;
      });
      const receive = async (gone = new AbortController().signal) =>
        waiting.receive({
          queueNo: (await world.room.findQueue(world.projectNo, "q"))?.no as number,
          batchSize: 10,
          leaseMs: null,
          waitMs: 20_000,
          gone: () => gone,
        });
      return { waiting, receive, released, heard };
    };

    it("Q17: what was being claimed for a client just as it hung up goes back, its attempt refunded", async () => {
      const leaving = new AbortController();
      let looks = 0;
      const { waiting, receive, released, heard } = over(async (ask) => {
        looks += 1;
        if (looks === 1) {
          const nothing = await world.store.claim(ask);
          void send({ body: "x" });
          return nothing;
        }
        leaving.abort();
        return world.store.claim(ask);
      });
      expect(await receive(leaving.signal)).toEqual([]);
      await heard;
      expect(released).toEqual([1]);
      const peeked = (await world.call("PeekMessages", { queueId: "q" })).messages as {
        state: string;
        attempts: number;
        receiveCount: number;
      }[];
      expect(peeked).toMatchObject([{ state: "ready", attempts: 0, receiveCount: 1 }]);
      waiting.close();
    });

    it("a look that fails while receives wait is made again a second later, and nobody's wait ends for it", async () => {
      let looks = 0;
      let broken: () => void = () => undefined;
      const broke = new Promise<void>((resolve) => {
        broken = resolve;
      });
      const { waiting, receive } = over(async (ask) => {
        looks += 1;
        if (looks !== 2) return world.store.claim(ask);
        broken();
        throw new Error("the database is away");
      });
      const answer = receive();
      await world.call("ReceiveMessages", { queueId: "q" }, {});
      await send({ body: "x" });
      await broke;
      await new Promise(setImmediate);
      world.clock.advance(1_000);
      expect(await answer).toHaveLength(1);
      expect(looks).toBe(3);
      waiting.close();
    });

    if (engine !== "sqlite") {
      it("Q15, Q17: a wait at a queue that another node deletes ends with the same answer", async () => {
        const waiting = await world.wait("q", { waitSeconds: 20 });
        const peer = await world.peer();
        await peer.run("deleteQueue", (await world.room.findQueue(world.projectNo, "q"))?.no as number);
        world.clock.advance(20_000);
        expect(await faultOf(waiting.answer)).toMatchObject({ code: "queue_not_found" });
        await peer.close();
      });

      it("Q17: another node's send answers a waiting receive", async () => {
        const other = await world.peer();
        const waiting = await world.wait("q", { waitSeconds: 20 });
        const queue = await world.room.findQueue(world.projectNo, "q");
        await other.send([
          {
            queueNo: queue?.no as number,
            body: new TextEncoder().encode("y"),
            attributes: null,
            meta: null,
            groupKey: null,
            dedupId: null,
            delayMs: null,
          },
        ]);
        expect(await bodies(waiting.answer)).toEqual(["y"]);
        await other.close();
      });
    }
  });
}
