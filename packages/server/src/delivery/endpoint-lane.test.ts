/** The lane of an endpoint by itself: a noun of the test's own, whose loads are texts, and an endpoint that answers what the test says. */
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { createEndpointLane, type Deliveries, type Outgoing, type Terms, type Verdict } from "./endpoint-lane.ts";
import type { DeliveryRequest, DeliveryResult } from "./types.ts";

const terms: Terms = { concurrency: 4, rateLimit: null, timeoutMs: 10_000, leaseMs: 40_000 };

function setUp(changes: Partial<Deliveries<string, Outgoing, Verdict>> = {}) {
  const clock = createClock({ frozen: true });
  const requests: DeliveryRequest[] = [];
  const heard: string[] = [];
  const shutdown = new AbortController();
  let status = 200;
  let durationMs = 1;
  const state = { active: true, storeFails: 0 };
  const answer = (): DeliveryResult => ({ kind: "answer", status, headers: {}, body: new Uint8Array(), truncated: false, durationMs });
  const lane = createEndpointLane<string, Outgoing, Verdict>(
    {
      clock,
      attempt: async (request) => {
        requests.push(request);
        return answer();
      },
      pressure: { seen: ({ lagMs }) => heard.push(`lag ${lagMs}`), close: () => {} },
      log: { debug: () => {}, info: () => {}, warn: () => heard.push("warned") },
    },
    { terms, failing: false },
    {
      key: "test",
      label: {},
      active: () => state.active,
      claim: async (n) => ({ loads: Array.from({ length: n }, (_, i) => `load ${i}`), nextInMs: null }),
      request: (load) => ({ url: "https://example.com/", headers: {}, body: Buffer.from(load), logged: {} }),
      read: (_load, result) => {
        const ok = result.kind === "answer" && result.status === 200;
        return { ok, slowDown: false, error: ok ? null : "no" };
      },
      settle: async ({ load }) => {
        if (state.storeFails-- > 0) throw new Error("the store is away");
        heard.push(`settled ${load}`);
      },
      release: async (loads) => heard.push(`released ${loads.join()}`),
      health: ({ read }, flipped) => heard.push(`${read.ok ? "healthy" : "failing"}${flipped ? " now" : ""}`),
      closed: ({ load }) => heard.push(`closed ${load}`),
      ...changes,
    },
  );
  const opened = { signal: shutdown.signal, over: () => heard.push("over") };
  const claimed = async () => (await lane.claim(1)).work[0] as never;
  return {
    lane,
    clock,
    requests,
    heard,
    state,
    claimed,
    deliver: (work: never) => lane.deliver(work, opened),
    answers(next: number, inMs = 1) {
      status = next;
      durationMs = inMs;
    },
  };
}

it("P8: a timeout that is raised between claim and request does not outlast the lease of that claim; a lowered one holds at once", async () => {
  const { lane, requests, claimed, deliver } = setUp();
  const early = await claimed();
  lane.set({ ...terms, timeoutMs: 60_000, leaseMs: 90_000 });
  await deliver(early);
  const later = await claimed();
  lane.set({ ...terms, timeoutMs: 5_000 });
  await deliver(later);
  await deliver(await claimed());
  lane.set({ ...terms, timeoutMs: 60_000, leaseMs: 90_000 });
  await deliver(await claimed());
  expect(requests.map(({ timeoutMs }) => timeoutMs)).toEqual([10_000, 5_000, 5_000, 60_000]);
});

it("P8, P23: an outcome is tried to be stored until its claim's lease ends, whatever lease is given since", async () => {
  const { lane, clock, heard, state, claimed, deliver } = setUp();
  const work = await claimed();
  lane.set({ ...terms, leaseMs: 400_000 });
  state.storeFails = 1_000;
  const done = deliver(work);
  let over = false;
  void done.then(() => {
    over = true;
  });
  for (let second = 0; second < 39; second++) {
    await new Promise(setImmediate);
    clock.advance(1_000);
  }
  expect([over, heard.at(-1)]).toEqual([true, "closed load 0"]);
  expect(heard.filter((text) => text.startsWith("settled") || text.startsWith("healthy"))).toEqual([]);
});

it("P13, P15: a failure is heard of before the next request may start, a success once it is stored; a flip is told once", async () => {
  const { heard, state, claimed, deliver, answers } = setUp();
  answers(500);
  await deliver(await claimed());
  await deliver(await claimed());
  answers(200);
  await deliver(await claimed());
  const failed = (now: string) => [`failing${now}`, "over", "settled load 0", "closed load 0"];
  expect(heard).toEqual([...failed(" now"), ...failed(""), "over", "settled load 0", "healthy now", "closed load 0"]);
  state.active = false;
  heard.length = 0;
  await deliver(await claimed());
  expect(heard).toEqual(["over", "released load 0"]);
});

it("P16: a pause that comes while a load is fetched starts no request and gives the load back", async () => {
  let fetched = (): void => {};
  const sent = { url: "https://example.com/", headers: {}, body: new Uint8Array(), logged: {} };
  const gate = new Promise<Outgoing>((resolve) => {
    fetched = () => resolve(sent);
  });
  const { heard, requests, state, claimed, deliver } = setUp({ request: () => gate });
  const done = deliver(await claimed());
  state.active = false;
  fetched();
  await done;
  expect([requests, heard]).toEqual([[], ["over", "released load 0"]]);
});

it("A4: only a claim that was filled says how far this server is behind", async () => {
  const { lane, heard } = setUp({ claim: async () => ({ loads: ["a", "b"], nextInMs: null, lagMs: 1_500 }) });
  await lane.claim(3);
  await lane.claim(2);
  expect(heard).toEqual(["lag 1500"]);
});

it("P24: a lane that tells the size of its loads has some held ready once its endpoint is quick, and none without it", async () => {
  const claim = async () => ({ loads: ["a"], nextInMs: null, bytes: 2 * 1024 * 1024 });
  const ready: number[] = [];
  for (const changes of [{ claim }, {}]) {
    const { lane, claimed, deliver } = setUp(changes);
    for (let i = 0; i < 16; i++) {
      expect(lane.ahead?.()).toBe(0);
      await deliver(await claimed());
    }
    ready.push(lane.ahead?.() ?? -1);
  }
  expect(ready).toEqual([2, 0]);
});

it("P24: what is held ready is what the endpoint takes in a moment: eight rounds for a quick one, three for one that takes 100 ms, none beyond", async () => {
  const { lane, claimed, deliver, answers } = setUp({ claim: async () => ({ loads: ["a"], nextInMs: null, bytes: 1_000 }) });
  const readyAfter = async (inMs: number): Promise<number | undefined> => {
    answers(200, inMs);
    for (let i = 0; i < 200; i++) await deliver(await claimed());
    return lane.ahead?.();
  };
  const rounds = [];
  for (const inMs of [1, 100, 50, 101]) rounds.push(((await readyAfter(inMs)) ?? 0) / terms.concurrency);
  expect(rounds.map(Math.round)).toEqual([8, 3, 6, 0]);
});
