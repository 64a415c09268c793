import { setImmediate as turn } from "node:timers/promises";
import { Fault } from "@millrace/contract";
import { expect, it } from "vitest";
import { coalesce } from "./coalesce.ts";

it("W6: what comes in one turn travels together, what comes meanwhile travels next, and each gets its own answer", async () => {
  const batches: number[][] = [];
  let open: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    open = resolve;
  });
  const double = coalesce<number, number>(
    async (items) => {
      batches.push(items);
      if (batches.length === 1) await held;
      return items.map((n) => n * 2);
    },
    { most: 3, width: 1 },
  );
  const first = [double(1), double(2)];
  await turn();
  const later = [3, 4, 5, 6].map((n) => double(n));
  open();
  expect(await Promise.all([...first, ...later])).toEqual([2, 4, 6, 8, 10, 12]);
  expect(batches).toEqual([[1, 2], [3, 4, 5], [6]]);
});

it("W6: whoever makes a transaction of several fail fails alone", async () => {
  const batches: number[][] = [];
  const positive = coalesce<number, number>(
    async (items) => {
      batches.push(items);
      if (items.some((n) => n < 0)) throw new RangeError("negative");
      return items;
    },
    { most: 10, width: 2 },
  );
  const outcomes = await Promise.allSettled([positive(1), positive(-2), positive(3)]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(batches).toEqual([[1, -2, 3], [1], [-2], [3]]);
});

it("A4: a store that is away is asked once for all of them", async () => {
  let asked = 0;
  const away = coalesce<number, number>(
    async () => {
      asked++;
      throw new Fault("unavailable", "the database is away");
    },
    { most: 10, width: 1 },
  );
  const outcomes = await Promise.allSettled([away(1), away(2), away(3)]);
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(asked).toBe(1);
});
