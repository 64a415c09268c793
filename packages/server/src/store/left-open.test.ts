/** How many requests a lane's former owner may still have open, asked of a real PostgreSQL whose time the test sets. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { StoredMessage } from "./claim.ts";
import { putQueue, type TestEngine, testEngine } from "./engines.suite.ts";
import type { StoredSend } from "./send.ts";
import type { QueueSettings } from "./types.ts";

let test: TestEngine;
let last = 0;
beforeAll(async () => {
  test = await testEngine("postgres");
});
afterAll(() => test.close());

async function queue(
  count: number,
  given: Partial<StoredSend> = {},
  settings: Partial<QueueSettings> = {},
  type: "standard" | "fifo" = "standard",
) {
  const queueNo = ++last;
  await putQueue(test.db, queueNo, settings, type);
  const row = { queueNo, body: new Uint8Array(1), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: null };
  const sends = Array.from({ length: count }, (_, i) => ({
    ...row,
    ...given,
    groupKey: given.groupKey === null || given.groupKey === undefined ? null : `${given.groupKey}${i}`,
  }));
  await test.engine.hot({ settles: [], claims: [], sends });
  return {
    queueNo,
    claim: async (batches: number, batchSize: number): Promise<StoredMessage[][]> => {
      const ask = { queueNo, batchSize, batches, leaseMs: 60_000 };
      return (await test.engine.hot({ settles: [], claims: [ask], sends: [] })).claims[0]?.batches ?? [];
    },
    settle: (messages: StoredMessage[], outcome: "ack" | "retry") =>
      test.engine.hot({
        settles: messages.map(({ seq, receipt }) => ({ queueNo, seq, receipt, outcome, delayMs: 5_000 })),
        claims: [],
        sends: [],
      }),
    open: async (batchSize: number, before: number | null = null): Promise<number> => {
      const ask = { queueNo, batchSize, leaseMs: 60_500, openMs: 30_500, before };
      const { result } = await test.engine.cold({ verb: "leftOpen", args: [ask], key: null });
      return (result as { requests: number }).requests;
    },
  };
}

it("P13: full and short batches count as the requests that they were, until they are settled", async () => {
  const { claim, settle, open } = await queue(25);
  expect(await open(10)).toBe(0);
  const batches = await claim(3, 10);
  expect(batches).toHaveLength(3);
  expect(await open(10)).toBe(3);
  await settle(batches[0] ?? [], "ack");
  expect(await open(10)).toBe(2);
  // What waits for its next try is open nowhere.
  await settle(batches[1] ?? [], "retry");
  expect(await open(10)).toBe(1);
});

it("P13: last attempts count, scheduled messages do not", async () => {
  const { queueNo, claim, open } = await queue(3, {}, { maxAttempts: 1 });
  const row = { queueNo, body: new Uint8Array(1), attributes: null, meta: null, groupKey: null, dedupId: null, delayMs: 10_000 };
  await test.engine.hot({ settles: [], claims: [], sends: [row, row] });
  await claim(3, 1);
  expect(await open(1)).toBe(3);
});

it("P13: each group of a batch may have been a request of its own, ordered or not", async () => {
  const fifo = await queue(4, { groupKey: "g" }, {}, "fifo");
  await fifo.claim(4, 1);
  expect(await fifo.open(1)).toBe(4);
  const fair = await queue(4, { groupKey: "g" }, { groupConcurrency: null });
  await fair.claim(2, 2);
  expect(await fair.open(2)).toBe(4);
});

it("P13, A13: a request is over once its time is, whatever its lease; later claims are the new owner's own", async () => {
  const { claim, open } = await queue(4);
  await claim(2, 1);
  const takenOver = test.time.now;
  test.time.now += 1_000;
  await claim(2, 1);
  expect(await open(1, takenOver)).toBe(2);
  test.time.now = takenOver + 30_400;
  expect(await open(1, takenOver)).toBe(2);
  test.time.now = takenOver + 30_600;
  expect(await open(1, takenOver)).toBe(0);
});
