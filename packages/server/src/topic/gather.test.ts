import { Fault } from "@millrace/contract";
import { expect, it } from "vitest";
import { createGather, type GatherOptions } from "./gather.ts";

const gathering = (given: Partial<GatherOptions<number, number>> = {}) => {
  const calls: number[][] = [];
  const gather = createGather<number, number>({
    run: async (rows) => {
      calls.push(rows);
      return rows.map((row) => row * 2);
    },
    rows: 3,
    bytes: 1_000,
    width: 1,
    sizeOf: () => 10,
    waitingBytes: 1_000,
    ...given,
  });
  return { gather, calls };
};

it("T3: what is published at the same time is stored together, and each caller gets its own result", async () => {
  const { gather, calls } = gathering();
  expect(await Promise.all([1, 2, 3, 4, 5].map(gather))).toEqual([2, 4, 6, 8, 10]);
  expect(calls).toEqual([
    [1, 2, 3],
    [4, 5],
  ]);
  expect(await gather(6)).toBe(12);
});

it("bounds a call by bytes, but takes a row that alone is larger", async () => {
  const { gather, calls } = gathering({ bytes: 25, sizeOf: (row) => row });
  await Promise.all([10, 10, 10, 40, 5].map(gather));
  expect(calls).toEqual([[10, 10], [10], [40], [5]]);
});

it("A4: refuses what would wait beyond the bound with overloaded", async () => {
  const { gather } = gathering({ waitingBytes: 25 });
  const [a, b, c] = await Promise.allSettled([1, 2, 3].map(gather));
  expect([a?.status, b?.status]).toEqual(["fulfilled", "fulfilled"]);
  expect(c).toMatchObject({ status: "rejected", reason: { code: "overloaded" } });
});

it("a row that cannot be stored fails alone; the store's own refusal goes to all", async () => {
  const odd = gathering({
    run: async (rows) => {
      if (rows.includes(2)) throw new Error("two");
      return rows;
    },
  });
  expect((await Promise.allSettled([1, 2, 3].map(odd.gather))).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  let calls = 0;
  const away = gathering({
    run: async () => {
      calls++;
      throw new Fault("unavailable", "away");
    },
  });
  expect((await Promise.allSettled([1, 2, 3].map(away.gather))).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(calls).toBe(1);
});
