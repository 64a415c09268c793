/** What a node hears of changes by others, on a real PostgreSQL whose time the test sets. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { putQueue, type TestEngine, testEngine } from "../store/engines.suite.ts";
import { laneChanged } from "../store/lane-change.ts";

let test: TestEngine;
beforeAll(async () => {
  test = await testEngine("postgres");
});
afterAll(() => test.close());

it("P16, A13: to a node that was away for longer than changes are kept every queue has changed", async () => {
  const changesSince = async (since: number | null): Promise<number[]> => {
    const { result } = await test.engine.cold({ verb: "laneChanges", args: [since], key: null });
    return (result as { changes: { queueNo: number }[] }).changes.map(({ queueNo }) => queueNo).sort();
  };
  for (const no of [1, 2]) await putQueue(test.db, no, {});
  const from = test.time.now;
  const change = (no: number) => test.db.transaction((tx) => laneChanged(tx, no));
  test.time.now += 60_000;
  await change(1);
  expect(await changesSince(from)).toEqual([1]);
  // Two hours on the first one's change is forgotten, the second one's is not.
  test.time.now += 7_200_000;
  await change(2);
  await test.engine.cold({ verb: "forgetLaneChanges", args: [], key: null });
  const kept = await test.db.transaction((tx) => tx.query("SELECT queue_no FROM lane_change"));
  expect(kept).toEqual([{ queue_no: 2 }]);
  expect(await changesSince(from)).toEqual([1, 2]);
  expect(await changesSince(test.time.now)).toEqual([2]);
});
