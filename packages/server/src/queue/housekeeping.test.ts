import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { createHousekeeping } from "./housekeeping.ts";

it("Q13, Q18: each chore runs within its time, and again at once while it says that more is due", async () => {
  const clock = createClock({ frozen: true });
  const ran: string[] = [];
  let backlog = 3;
  const note = (name: string, answer: () => number | null) => async () => {
    ran.push(name);
    return answer();
  };
  const housekeeping = createHousekeeping({
    clock,
    failed: (_, error) => {
      throw error;
    },
    chores: [
      { name: "slow", everyMs: 60_000, run: note("slow", () => null) },
      { name: "busy", everyMs: 2_000, run: note("busy", () => (--backlog > 0 ? 0 : null)) },
    ],
  });
  clock.advance(1_999);
  await housekeeping.settled();
  expect(ran).toEqual([]);
  clock.advance(1);
  await housekeeping.settled();
  expect(ran).toEqual(["busy", "busy", "busy"]);
  clock.advance(58_000);
  await housekeeping.settled();
  expect(ran.filter((name) => name === "slow")).toHaveLength(1);
  await housekeeping.close();
});

it("a chore that fails is told, tried again within 5 s, and stops no other", async () => {
  const clock = createClock({ frozen: true });
  const failures: string[] = [];
  let tries = 0;
  let others = 0;
  const housekeeping = createHousekeeping({
    clock,
    failed: (chore, error) => failures.push(`${chore}: ${(error as Error).message}`),
    chores: [
      {
        name: "broken",
        everyMs: 60_000,
        run: async () => {
          if (++tries < 3) throw new Error("no database");
          return null;
        },
      },
      {
        name: "other",
        everyMs: 60_000,
        run: async () => {
          others++;
          return null;
        },
      },
    ],
  });
  clock.advance(60_000);
  await housekeeping.settled();
  clock.advance(5_000);
  await housekeeping.settled();
  clock.advance(5_000);
  await housekeeping.settled();
  expect({ tries, others }).toEqual({ tries: 3, others: 1 });
  expect(failures).toEqual(["broken: no database", "broken: no database"]);
  await housekeeping.close();
});

it("a nudged chore runs now, and once more when the nudge came while it ran", async () => {
  const clock = createClock({ frozen: true });
  let runs = 0;
  const running: (() => void)[] = [];
  const housekeeping = createHousekeeping({
    clock,
    failed: () => undefined,
    chores: [
      {
        name: "job",
        everyMs: 60_000,
        run: () =>
          new Promise((resolve) => {
            runs++;
            running.push(() => resolve(null));
          }),
      },
    ],
  });
  housekeeping.nudge("job");
  expect(runs).toBe(1);
  housekeeping.nudge("job");
  housekeeping.nudge("job");
  expect(runs).toBe(1);
  running.shift()?.();
  await new Promise(setImmediate);
  expect(runs).toBe(2);
  running.shift()?.();
  await housekeeping.settled();
  expect(runs).toBe(2);
  await housekeeping.close();
});

it("closing waits for what runs and starts nothing more", async () => {
  const clock = createClock({ frozen: true });
  let finish: () => void = () => undefined;
  let runs = 0;
  const housekeeping = createHousekeeping({
    clock,
    failed: () => undefined,
    chores: [
      {
        name: "job",
        everyMs: 1_000,
        run: () =>
          new Promise((resolve) => {
            runs++;
            finish = () => resolve(0);
          }),
      },
    ],
  });
  clock.advance(1_000);
  let closed = false;
  const closing = housekeeping.close().then(() => {
    closed = true;
  });
  await new Promise(setImmediate);
  expect(closed).toBe(false);
  finish();
  await closing;
  clock.advance(10_000);
  expect(runs).toBe(1);
});
