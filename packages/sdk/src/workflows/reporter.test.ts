import { type Receiver, receiver } from "@millrace/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { platform } from "../runtime.ts";
import { json, problem } from "../scripted.fixture.ts";
import { ExecutionOver } from "./host.ts";
import { createReporter } from "./reporter.ts";

interface Call {
  protocol: string;
  buildId?: string;
  executions: { token: string; steps?: { id: string }[]; answer?: unknown }[];
}

let server: Receiver;
afterEach(() => server.close());

const never = new AbortController().signal;
const ok = (call: Call) => json({ executions: call.executions.map(() => ({ ok: true, cancelled: false, steps: [] })) });
const step = (id: string) => ({ id, type: "value" as const, status: "completed" as const, result: "1" });
const reporter = (waits: number[] = []) =>
  createReporter(server.url, "build-1", { ...platform, random: () => 1, wait: async (ms) => void waits.push(ms) });

describe("the reports of executions", () => {
  it("W6: what many runs record at once is one call; what comes meanwhile is the next", async () => {
    let open: () => void = () => {};
    const first = new Promise<void>((resolve) => {
      open = resolve;
    });
    server = await receiver({ answer: (request) => ({ ...ok(request.json<Call>()), ...(request.order === 1 ? { after: first } : {}) }) });
    const { record } = reporter();
    const runs = Array.from({ length: 5 }, (_, n) => record(`run-${n}`, [step(`a${n}`)], never));
    await server.received(1);
    const more = Array.from({ length: 250 }, (_, n) => record(`more-${n}`, [step("b")], never));
    open();
    await Promise.all([...runs, ...more]);
    const calls = server.requests.map((request) => request.json<Call>());
    expect(calls.map(({ executions }) => executions.length)).toEqual([5, 100, 100, 50]);
    expect(server.highWater).toBe(1);
    expect(server.requests[0]?.path).toBe("/steps");
    expect(calls[0]).toMatchObject({ protocol: "1.2", executions: [{ token: "run-0", steps: [{ id: "a0" }] }, {}, {}, {}, {}] });
  });

  it("W6: a call has at most 1,000 steps", async () => {
    server = await receiver({ answer: (request) => ok(request.json<Call>()) });
    const { record } = reporter();
    const many = (count: number) => Array.from({ length: count }, (_, n) => step(`s${n}`));
    await Promise.all([record("a", many(600), never), record("b", many(400), never), record("c", many(1), never)]);
    expect(server.requests.map((request) => request.json<Call>().executions.map(({ token }) => token))).toEqual([["a", "b"], ["c"]]);
  });

  it("W6, W7: ends of one run's steps travel as one entry, in their order; a sleep among them waits for the next call", async () => {
    server = await receiver({
      answer: (request) =>
        json({
          executions: request.json<Call>().executions.map(({ steps }) => ({ ok: true, steps: steps?.map(({ id }) => ({ id, order: 1 })) })),
        }),
    });
    const { record } = reporter();
    const nap = { id: "nap", type: "sleep" as const, status: "pending" as const, forMs: 1000 };
    const made = [
      record("a", [step("1")], never),
      record("a", [step("2")], never),
      record("a", [nap], never),
      record("a", [step("3")], never),
      record("b", [nap], never),
    ];
    const told = await Promise.all(made);
    expect(told.map(({ steps }) => steps.map(({ id }) => id))).toEqual([["1"], ["2"], ["nap"], ["3"], ["nap"]]);
    const carried = server.requests.map((request) =>
      request.json<Call>().executions.map(({ token, steps }) => [token, ...(steps ?? []).map(({ id }) => id)]),
    );
    expect(carried).toEqual([
      [
        ["a", "1", "2"],
        ["b", "nap"],
      ],
      [["a", "nap"]],
      [["a", "3"]],
    ]);
  });

  it("W6: a call that is refused whole is sent again for each execution: one run's mistake is its own", async () => {
    server = await receiver({
      answer: (request) => {
        const call = request.json<Call>();
        return call.executions.some(({ token }) => token === "bad") ? problem(400, "invalid_request") : ok(call);
      },
    });
    const { record } = reporter();
    const outcomes = await Promise.allSettled(["a", "bad", "b"].map((token) => record(token, [step("s")], never)));
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(server.requests).toHaveLength(4);
  });

  it("W6, W9: a call without an answer is sent again as it was, with growing pauses", async () => {
    const waits: number[] = [];
    server = await receiver({
      answer: (request) => {
        if (request.order === 1) return { drop: "request" };
        if (request.order === 2) return problem(500, "internal");
        if (request.order === 3) return problem(429, "overloaded", { "retry-after": "3" });
        return ok(request.json<Call>());
      },
    });
    await reporter(waits).record("run", [step("a")], never);
    expect(server.requests).toHaveLength(4);
    expect(new Set(server.requests.map(({ text }) => text)).size).toBe(1);
    expect(waits).toEqual([200, 400, 3000]);
  });

  it("W6: each execution hears its own refusal", async () => {
    const refusals: Record<string, string> = {
      stale: "stale_execution",
      odd: "nondeterminism",
      bad: "invalid_request",
      big: "limit_exceeded",
    };
    server = await receiver({
      answer: (request) =>
        json({
          executions: request.json<Call>().executions.map(({ token }) => {
            const code = refusals[token];
            return code === undefined
              ? { ok: true, cancelled: true, steps: [{ id: "a" }] }
              : { ok: false, error: { code, message: "why" } };
          }),
        }),
    });
    const { record } = reporter();
    const outcome = (token: string) => record(token, [step("a")], never).catch((error: unknown) => error);
    const [stale, odd, bad, big, good] = await Promise.all(["stale", "odd", "bad", "big", "good"].map(outcome));
    for (const each of [stale, odd, bad, big]) expect(each).toBeInstanceOf(ExecutionOver);
    expect(stale).toMatchObject({ answer: undefined });
    expect(odd).toMatchObject({ answer: { status: "blocked", reason: { code: "nondeterminism", message: "why" } } });
    expect(bad).toMatchObject({ answer: { status: "failed", error: { code: "invalid_request" } } });
    expect(big).toMatchObject({ answer: undefined });
    expect(good).toEqual({ standing: { cancelled: true, leaseMs: undefined, ended: [] }, steps: [{ id: "a" }] });
  });

  it("W6: a call that is a mistake is not repeated; nobody waits for a server for ever", async () => {
    server = await receiver({ answer: () => problem(400, "invalid_request") });
    await expect(reporter().record("run", [step("a")], never)).rejects.toMatchObject({ answer: { status: "failed" } });
    expect(server.requests).toHaveLength(1);
    server.answer(() => problem(503, "unavailable"));
    const lost = new AbortController();
    const { record } = createReporter(server.url, "b", { ...platform, random: () => 1, wait: async () => lost.abort() });
    await expect(record("run", [step("a")], lost.signal)).rejects.toThrow("unavailable");
  });

  it("W6: ends carry the build, heartbeats the tokens, and pages are fetched by their cursor", async () => {
    server = await receiver({
      answer: (request) => {
        if (request.path === "/journal") return json({ steps: [{ id: "late" }], next: null });
        if (request.path === "/heartbeat") return json({ executions: [{ ok: true, cancelled: true, leaseMs: 9000 }] });
        return ok(request.json<Call>());
      },
    });
    const { end, beat, page } = reporter();
    await end("t", { status: "completed", output: "1" }, never);
    expect(await beat("t", never)).toEqual({ cancelled: true, leaseMs: 9000, ended: [] });
    expect(await page("t", "17")).toEqual({ steps: [{ id: "late" }], next: null });
    expect(server.requests.map((request) => request.json())).toEqual([
      { protocol: "1.2", buildId: "build-1", executions: [{ token: "t", answer: { status: "completed", output: "1" } }] },
      { protocol: "1.2", tokens: ["t"], extend: true },
      { protocol: "1.2", token: "t", after: "17" },
    ]);
  });
});
