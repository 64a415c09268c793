/** A lane among several nodes: whose turn it is, and what a turn begins with, is what the test says. */
import { expect, it } from "vitest";
import { createClock } from "../clock.ts";
import { createEndpointLane, type Outgoing, type Terms, type Verdict } from "./endpoint-lane.ts";
import type { Term } from "./tenure.ts";

const terms: Terms = { concurrency: 4, rateLimit: null, timeoutMs: 10_000, leaseMs: 40_000 };

function setUp(given: Partial<Terms> = {}) {
  const clock = createClock({ frozen: true });
  const heard: string[] = [];
  const state = { term: null as Term | null, inherited: 0, failing: false, away: false };
  const claims: Term[] = [];
  const lane = createEndpointLane<string, Outgoing, Verdict>(
    {
      clock,
      attempt: async ({ timeoutMs }) => {
        heard.push(`requested for ${timeoutMs} ms`);
        return { kind: "answer", status: 200, headers: {}, body: new Uint8Array(), truncated: false, durationMs: 1 };
      },
      pressure: { seen: () => {}, close: () => {} },
      log: { debug: () => {}, info: () => {}, warn: () => heard.push("warned") },
    },
    {
      terms: { ...terms, ...given },
      failing: false,
      tenure: {
        get term() {
          return state.term;
        },
        get inherited() {
          return state.inherited;
        },
        async begin() {
          if (state.away) throw new Error("the store is away");
          return { failing: state.failing };
        },
      },
    },
    {
      key: "test",
      label: {},
      active: () => true,
      claim: async (n, _leaseMs, fence) => {
        claims.push(fence);
        return { loads: Array.from({ length: n }, (_, i) => `load ${i}`), nextInMs: null };
      },
      request: (load) => ({ url: "https://example.com/", headers: {}, body: Buffer.from(load), logged: {} }),
      read: () => ({ ok: true, slowDown: false, error: null }),
      settle: async () => {},
      release: async (loads) => heard.push(`released ${loads.join()}`),
      health: () => {},
    },
  );
  /** Asks as the dispatcher does, and again once the term has begun. */
  const permit = async (inFlight = 0) => {
    lane.permit(inFlight);
    await new Promise(setImmediate);
    return lane.permit(inFlight);
  };
  return { lane, clock, heard, state, claims, permit };
}
const opened = { signal: new AbortController().signal, over: () => {} };

it("A13: a lane that is another node's claims and starts nothing; in its own turn it claims under its fence", async () => {
  const { lane, state, claims, permit } = setUp();
  expect(await permit()).toEqual({ start: 0, inMs: null });
  expect(await lane.claim(2)).toEqual({ work: [], nextInMs: null });
  state.term = { slot: 7, token: 3 };
  // The turn is to begin first.
  expect(lane.permit(0)).toEqual({ start: 0, inMs: 20 });
  await new Promise(setImmediate);
  expect(lane.permit(0)).toEqual({ start: 4, inMs: null });
  expect((await lane.claim(2)).work).toHaveLength(2);
  expect(claims).toEqual([{ slot: 7, token: 3 }]);
});

it("P13: what the former owner may have open counts, until it no longer does", async () => {
  const { state, permit } = setUp();
  state.inherited = 3;
  state.term = { slot: 7, token: 3 };
  expect(await permit()).toEqual({ start: 1, inMs: null });
  expect(await permit(1)).toEqual({ start: 0, inMs: 250 });
  state.inherited = 0;
  expect(await permit(1)).toEqual({ start: 3, inMs: null });
});

it("P13: a turn begins with one request at a time if the endpoint was failing, and with an empty bucket if somebody else had a turn", async () => {
  const failing = setUp();
  failing.state.failing = true;
  failing.state.term = { slot: 7, token: 3 };
  expect(await failing.permit()).toEqual({ start: 1, inMs: null });

  const rated = setUp({ rateLimit: { count: 10, periodMs: 10_000 } });
  rated.state.term = { slot: 7, token: 1 };
  expect(await rated.permit()).toEqual({ start: 4, inMs: null });
  rated.state.term = { slot: 7, token: 2 };
  expect(await rated.permit()).toEqual({ start: 0, inMs: 1_000 });
  rated.clock.advance(2_000);
  expect(await rated.permit()).toEqual({ start: 2, inMs: null });
});

it("A13: what was claimed in one turn is given back in the next, and is not sent", async () => {
  const { lane, heard, state, permit } = setUp();
  state.term = { slot: 7, token: 3 };
  await permit();
  const { work } = await lane.claim(2);
  state.term = null;
  await lane.deliver(work[0] as never, opened);
  state.term = { slot: 7, token: 5 };
  await permit();
  await lane.deliver(work[1] as never, opened);
  expect(heard).toEqual(["released load 0", "released load 1"]);
});

it("A13: a turn that can't begin is tried again by and by, without a stream of tries", async () => {
  const { clock, heard, state, permit } = setUp();
  state.away = true;
  state.term = { slot: 7, token: 3 };
  for (let i = 0; i < 10; i++) expect(await permit()).toEqual({ start: 0, inMs: 1_000 });
  expect(heard).toEqual(["warned"]);
  state.away = false;
  clock.advance(1_000);
  expect(await permit()).toEqual({ start: 4, inMs: null });
});

it("A13: a turn that takes long to begin is asked after more and more rarely", async () => {
  const { lane, clock, state } = setUp();
  state.term = { slot: 7, token: 3 };
  const waits: (number | null)[] = [];
  for (const passed of [0, 20, 60, 1_000]) {
    clock.advance(passed);
    waits.push(lane.permit(0).inMs);
  }
  expect(waits).toEqual([20, 20, 80, 1_000]);
});

it("P8, P13: a request that starts late ends no later for it, and after the lease's end none starts", async () => {
  const { lane, clock, heard, state, permit } = setUp();
  state.term = { slot: 7, token: 3 };
  await permit();
  const { work } = await lane.claim(4);
  clock.advance(5_000);
  await lane.deliver(work[0] as never, opened);
  clock.advance(4_000);
  await lane.deliver(work[1] as never, opened);
  clock.advance(6_000);
  await lane.deliver(work[2] as never, opened);
  expect(heard).toEqual(["requested for 10000 ms", "requested for 6000 ms", "released load 2"]);
  // A machine that stood still: the lease is over, and somebody else may have the message.
  const unhurried = setUp({ timeoutMs: 60_000, leaseMs: 40_000 });
  unhurried.state.term = { slot: 7, token: 3 };
  await unhurried.permit();
  const late = await unhurried.lane.claim(1);
  unhurried.clock.advance(40_000);
  await unhurried.lane.deliver(late.work[0] as never, opened);
  expect(unhurried.heard).toEqual(["released load 0"]);
});
