import { expect, it } from "vitest";
import { createAgenda } from "./agenda.ts";

/** Time that stands still until `advance`, and the waits of it that are open. */
function clock() {
  let now = 0;
  const waits = new Set<{ until: number; done: () => void }>();
  return {
    waits,
    runtime: {
      now: () => now,
      wait: (ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve) => {
          const one = { until: now + ms, done: () => void (waits.delete(one) && resolve()) };
          waits.add(one);
          signal?.addEventListener("abort", one.done, { once: true });
        }),
    },
    async advance(ms: number) {
      now += ms;
      for (const { until, done } of [...waits]) if (until <= now) done();
      await Promise.resolve();
    },
  };
}

it("W6: each is due once at its time, whichever was set first, and one timer waits for all of them", async () => {
  const { runtime, waits, advance } = clock();
  const due: string[] = [];
  const agenda = createAgenda<string>(runtime, (one) => due.push(one));
  agenda.set("late", 300);
  agenda.set("early", 100);
  agenda.set("moved", 100);
  agenda.set("moved", 200);
  expect([...waits].map(({ until }) => until)).toEqual([100]);
  await advance(100);
  expect(due).toEqual(["early"]);
  expect(waits.size).toBe(1);
  await advance(100);
  await advance(100);
  expect(due).toEqual(["early", "moved", "late"]);
  expect(waits.size).toBe(0);
});

it("W6: what is over is never due, and while nothing is due nothing keeps the process alive", async () => {
  const { runtime, waits, advance } = clock();
  const due: string[] = [];
  const agenda = createAgenda<string>(runtime, (one) => {
    due.push(one);
    if (due.length < 3) agenda.set(one, 100);
  });
  agenda.set("over", 50);
  agenda.set("kept", 100);
  agenda.delete("over");
  await advance(100);
  await advance(100);
  expect(due).toEqual(["kept", "kept"]);
  agenda.delete("kept");
  expect(waits.size).toBe(0);
  await advance(1000);
  expect(due).toEqual(["kept", "kept"]);
});
