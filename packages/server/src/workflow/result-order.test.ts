/** The order of results that are grouped by workflow, where endings meet: within one transaction, and in two at once. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { putQueue, type TestEngine, testEngine } from "../store/engines.suite.ts";
import type { RunResult } from "../store/run-result.ts";
import { carryOut, noEffects } from "../store/wake.ts";

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
      const waits = () => test.db.transaction((tx) => tx.query("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"));
      while ((await waits()).length === 0);
      commit();
      await Promise.all([first, second]);
      expect(await kept()).toEqual([{ run_id: "large" }, { run_id: "small" }]);
      expect(await sent()).toEqual([]);
    });
}
