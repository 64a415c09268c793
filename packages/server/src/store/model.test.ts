import { describe, expect, it } from "vitest";
import type { Statements } from "../db/db.ts";
import { testEngine } from "./engines.suite.ts";
import { runModel } from "./model.suite.ts";
import { statements } from "./statements.ts";

async function play(
  kind: "sqlite" | "postgres",
  seed: number,
  operations: number,
  given: { statements?: Statements; littered?: boolean } = {},
): Promise<string[]> {
  const test = await testEngine(kind, given);
  try {
    return await runModel(test, seed, operations);
  } finally {
    await test.close();
  }
}

describe("the store against an obvious model of it", () => {
  for (const seed of [1, 2, 3])
    it(`Q3, Q4, Q7, Q8, Q9, Q10, Q11, Q13, Q15, Q16, Q18, Q19, P10, DLQ-01, DLQ-07: both engines answer as the model does, and alike (seed ${seed})`, async () => {
      const sqlite = await play("sqlite", seed, 250);
      const postgres = await play("postgres", seed, 250);
      expect(postgres).toEqual(sqlite);
    });

  for (const seed of [11, 12, 13, 14, 15, 16])
    it(`Q8, Q9, Q13, Q14, Q19, FIFO-02, FIFO-05: a longer run on SQLite (seed ${seed})`, async () => {
      expect(await play("sqlite", seed, 600)).toHaveLength(600);
    });

  for (const seed of [21, 22, 23])
    it(`STORE-05, Q3, Q4, Q9, Q10, Q19: claims that begin where the line begins find all that is due (seed ${seed})`, async () => {
      expect(await play("postgres", seed, 250, { littered: true })).toHaveLength(250);
    });

  const faults: [name: string, statement: keyof typeof statements, from: string | RegExp, to: string][] = [
    ["a group goes on while one of its messages waits for a retry", "group.promote", "max(b.due_at)", "max(0)"],
    ["a receipt works after its lease", "settle.ack", "AND message.due_at > $now", ""],
    ["a released message keeps its attempt", "settle.retry", "attempts - :undo", "attempts - 0"],
    ["a move restarts no count", "bury.move", "receives = 0, attempts = 0", "receives = receives, attempts = attempts"],
    ["a limit of a group is one too high", "group.turn", "< :most)", "<= :most)"],
    ["a message that fails past its retention is tried again", "settle.retry", "AND message.expires_at + 0 > $now", ""],
    ["a remembered deduplication id outlives its window", "send.dedup", "WHERE dedup.until <= excluded.sent_at", "WHERE dedup.until < 0"],
  ];
  for (const [name, statement, from, to] of faults)
    it(`finds a planted fault: ${name}`, async () => {
      const text = JSON.stringify(statements[statement]);
      const faulty = JSON.parse(
        JSON.stringify(statements[statement], (_, value) => (typeof value === "string" ? value.replace(from, to) : value)),
      );
      expect(JSON.stringify(faulty)).not.toBe(text);
      const runs = [1, 2, 3, 4, 5, 6, 7, 8].map(
        (seed) => () => play("sqlite", seed, 400, { statements: { ...statements, [statement]: faulty } }),
      );
      let found: unknown;
      for (const run of runs) {
        found = await run().then(
          () => undefined,
          (error: unknown) => error,
        );
        if (found !== undefined) break;
      }
      expect(found).toBeInstanceOf(Error);
    });
});
