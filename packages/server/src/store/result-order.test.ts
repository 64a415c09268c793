/** The order of results that are grouped by workflow, where endings meet: within one transaction, and in two at once. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { putQueue, type TestEngine, testEngine } from "./engines.suite.ts";
import type { RunResult } from "./run-result.ts";
import { carryOut, noEffects } from "./wake.ts";

const QUEUE = 5;
const result = (runId: string, length: number): RunResult => ({
  appNo: 1,
  runId,
  queueNo: QUEUE,
  groupKey: "order",
  dedupId: `${runId}:1:completed`,
  body: new Uint8Array(length).fill(120),
});

for (const kind of ["sqlite", "postgres"] as const) {
  let test: TestEngine;
  beforeEach(async () => {
    test = await testEngine(kind);
    await putQueue(test.db, QUEUE, { maxBytes: 100 }, "fifo");
  });
  afterEach(() => test.close());

  const kept = () => test.db.transaction((tx) => tx.query<{ run_id: string }>("SELECT run_id FROM run_result ORDER BY no"));
  const sent = () => test.db.transaction((tx) => tx.query<{ seq: number }>("SELECT seq FROM message"));

  it(`W17, WF-16: a result that has room does not pass one of its workflow that has none, of one transaction, on ${kind}`, async () => {
    await test.db.transaction((tx) => carryOut(tx, { ...noEffects(), results: [result("large", 200), result("small", 20)] }));
    expect(await kept()).toEqual([{ run_id: "large" }, { run_id: "small" }]);
    expect(await sent()).toEqual([]);
  });

  if (kind === "postgres")
    it("W17, WF-16: nor where the two endings are under way at once", async () => {
      let commit = (): void => {};
      const held = new Promise<void>((resolve) => {
        commit = resolve;
      });
      let done = (): void => {};
      const carried = new Promise<void>((resolve) => {
        done = resolve;
      });
      const first = test.db.transaction(async (tx) => {
        await carryOut(tx, { ...noEffects(), results: [result("large", 200)] });
        done();
        await held;
      });
      await carried;
      const second = test.db.transaction((tx) => carryOut(tx, { ...noEffects(), results: [result("small", 20)] }));
      let over = false;
      void second.finally(() => {
        over = true;
      });
      const waiting = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 7404 AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
      while (!over && (await test.db.transaction((tx) => tx.query(waiting))).length === 0);
      expect(over).toBe(false);
      commit();
      await Promise.all([first, second]);
      expect(await kept()).toEqual([{ run_id: "large" }, { run_id: "small" }]);
      expect(await sent()).toEqual([]);
    });
}
