import { expect, it } from "vitest";
import { type OwnedSlot, place } from "./placement.ts";

const slots = (...owners: (string | null)[]): OwnedSlot[] => owners.map((owner, no) => ({ no, owner }));

/** Lets nodes act in turn until nobody has anything to do; answers how many each owns and how many steps it took. */
function settled(live: string[], start: OwnedSlot[]): { owned: Record<string, number>; given: number } {
  const state = start.map((slot) => ({ ...slot }));
  let given = 0;
  for (let quiet = 0; quiet < live.length; ) {
    for (const self of live) {
      const { take, give } = place(self, live, state);
      quiet = take.length === 0 && give === null ? quiet + 1 : 0;
      for (const no of take) (state[no] as OwnedSlot).owner = self;
      if (give === null) continue;
      (state[give.no] as OwnedSlot).owner = give.to;
      given++;
    }
  }
  const owned: Record<string, number> = {};
  for (const { owner } of state) owned[owner ?? "nobody"] = (owned[owner ?? "nobody"] ?? 0) + 1;
  return { owned, given };
}

it("A13: a lone node takes every slot at once", () => {
  expect(place("a", ["a"], slots(null, null, "gone")).take).toEqual([0, 1, 2]);
});

it("A13: a dead node's slots are shared out by the living in one step each, whoever is asked", () => {
  const all = slots("a", "b", "c", "a", "b", "c", "a", "b", "c");
  expect(place("a", ["a", "b"], all)).toEqual({ take: [2, 5], give: null });
  expect(place("b", ["a", "b"], all)).toEqual({ take: [2], give: null });
});

it("A13: a node that joins is given slots one at a time, and no more move than it is short of", () => {
  const two = Array.from({ length: 256 }, (_, i) => (i % 2 === 0 ? "a" : "b"));
  expect(place("a", ["a", "b", "c"], slots(...two)).give).toEqual({ no: 254, to: "c" });
  expect(settled(["a", "b", "c"], slots(...two))).toEqual({ owned: { a: 86, b: 85, c: 85 }, given: 85 });
});

it("A13: shares that are fair move nothing", () => {
  expect(settled(["a", "b"], slots("b", "a", "a"))).toEqual({ owned: { a: 2, b: 1 }, given: 0 });
});
