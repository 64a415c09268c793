/** Look-ups by memory over a real store, on either engine. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../store/store.ts";
import { createDirectory, type Directory, PRODUCTION } from "./directory.ts";
import { type Engine, openWorld, type World } from "./world.suite.ts";

/** Declares the suite for one engine. */
export function directorySuite(engine: Engine): void {
  describe(`the directory on ${engine}`, () => {
    let world: World;
    let looks: string[];
    let directory: Directory;
    beforeAll(async () => {
      world = await openWorld(engine);
    });
    afterAll(() => world.close());
    beforeEach(async () => {
      await world.fresh();
      await world.call("CreateQueue", {}, { name: "q" });
      looks = [];
      const { store } = world;
      const counted: Store = {
        ...store,
        run(verb, ...args) {
          looks.push(verb);
          return store.run(verb, ...args);
        },
      };
      directory = createDirectory({ store: counted, clock: world.clock });
    });
    const find = (reference = "q") => directory.find(world.projectNo, PRODUCTION, reference);
    const update = async (visibilityTimeoutMs: number) => {
      const queue = await find();
      await world.store.run("updateQueue", queue?.no as number, { visibilityTimeoutMs });
      return queue?.no as number;
    };

    it("a queue is read once for each of its references, and look-ups at the same time share one read", async () => {
      const [queue] = await Promise.all([find(), find(), find()]);
      await find();
      expect(looks).toEqual(["findQueue"]);
      expect(await find(queue?.id)).toEqual(queue);
      expect(await find(queue?.resourceName)).toEqual(queue);
      expect(await directory.byNo(queue?.no as number)).toEqual(queue);
      expect(looks).toHaveLength(4);
    });

    it("Q1: a missing queue is never remembered, and a queue is found in its own environment alone", async () => {
      expect(await find("new")).toBeNull();
      await world.call("CreateQueue", {}, { name: "new" });
      expect((await find("new"))?.name).toBe("new");
      expect(await directory.find(world.projectNo, "staging", "new")).toBeNull();
      expect(await directory.find(world.projectNo + 1_000_000, PRODUCTION, (await find("new"))?.id as string)).toBeNull();
    });

    it("a change is seen by the next look-up, under every reference, and told to the listeners", async () => {
      const told: number[] = [];
      const stop = directory.onChange((no) => told.push(no));
      const queue = await find();
      await find(queue?.id);
      await directory.byNo(queue?.no as number);
      const no = await update(7_000);
      directory.changed(no);
      stop();
      directory.changed(no);
      expect(told).toEqual([no]);
      for (const seen of [await find(), await find(queue?.id), await directory.byNo(no)])
        expect(seen?.settings.visibilityTimeoutMs).toBe(7_000);
    });

    it("what was being read while a change was made is not remembered", async () => {
      const no = await update(1_000);
      directory.changed(no);
      const slow = find();
      await world.store.run("updateQueue", no, { visibilityTimeoutMs: 9_000 });
      directory.changed(no);
      await slow;
      expect((await find())?.settings.visibilityTimeoutMs).toBe(9_000);
    });

    if (engine === "postgres")
      it("another node's change is seen after two seconds at most", async () => {
        await find();
        await update(7_000);
        world.clock.advance(2_000);
        expect((await find())?.settings.visibilityTimeoutMs).toBe(7_000);
      });
  });
}
